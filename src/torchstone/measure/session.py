"""A session: the scratch folder, the way workers are started, and the survey of what can be measured here."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from torchstone.errors import InputError, UsageError, printable
from torchstone.measure import surroundings
from torchstone.measure.channel import Message
from torchstone.measure.launcher import CannotMeasureError, Launcher, Spawner, Zygote, answer_of
from torchstone.measure.settings import Settings, make_job
from torchstone.measure.supervisor import Limits, Supervisor, Watcher
from torchstone.model import Case

KEPT_CACHE = os.path.join(".torchstone", "cache")
SURVEY_TIMEOUT = 600.0
_LOG_SHOWN = 2000


class Session:
    """Starts workers for one command, and leaves nothing behind. ``tell`` is given what a person should know meanwhile."""

    def __init__(self, start: str, cache: str, tell: Callable[[str], None]) -> None:
        self._start = start
        self._kept_cache = os.path.abspath(KEPT_CACHE) if cache == "warm" else None
        self._tell = tell
        self._launcher: Launcher | None = None
        self.cautions: list[str] = []

    def __enter__(self) -> Session:
        self.template = surroundings.template_folder()
        self.scratch = surroundings.make_scratch()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._launcher is not None:
            self._launcher.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    @property
    def launcher(self) -> Launcher:
        """What starts the workers."""
        if self._launcher is None:
            raise RuntimeError("the session has not been started")
        return self._launcher

    def start_workers(self, sources: Sequence[Mapping[str, str]], devices: Sequence[str] = ()) -> None:
        """Get ready to start workers for these sources and devices: by forking where that is possible and not forbidden."""
        variables = surroundings.worker_variables(self.template)
        if self._start == "spawn" or not sys.platform.startswith("linux"):
            if self._start == "fork":
                raise UsageError(
                    "--start fork works on Linux only", advice="leave it out, or use --start spawn"
                )
            self._launcher = Spawner(variables)
            return
        request = {"sources": [dict(s) for s in sources], "devices": list(devices), "template": self.template}
        problem = self._start_zygote(variables, request)
        if problem and self._start == "fork":
            raise CannotMeasureError(f"workers cannot be forked: {problem}", advice="try --start spawn")
        if problem:
            self.cautions.append(f"workers are spawned, which takes longer: {problem}")
            self._launcher = Spawner(variables)

    def _start_zygote(self, variables: Mapping[str, str], request: Message) -> str:
        """Start the zygote; gives the reason why it cannot be used, if so."""
        log_path = os.path.join(self.scratch, "zygote.log")
        with open(log_path, "wb") as log:
            zygote = Zygote(variables, request, log)
        self._launcher = zygote  # closed with the session from here on, whatever happens
        answer = zygote.wait_until_ready(SURVEY_TIMEOUT)
        if "broken" in answer:
            zygote.close()
            self._launcher = None
            raise self._broken(str(answer["broken"]), log_path)
        self.cautions += [str(note) for note in answer.get("notes", [])]
        if answer.get("blocked"):
            zygote.close()
            self._launcher = None
            return str(answer["blocked"])
        return ""

    def _broken(self, problem: str, log_path: str) -> CannotMeasureError:
        with open(log_path, errors="replace") as file:
            said = file.read()[-_LOG_SHOWN:].strip()
        if "No module named 'torch'" in problem:
            return CannotMeasureError(
                f"torch is not installed for {sys.executable}", advice="install it: pip install torch"
            )
        return CannotMeasureError(
            f"torch cannot be loaded: {problem}", advice=printable(said, _LOG_SHOWN) if said else ""
        )

    def survey(self, job: Message) -> dict[str, Any]:
        """Have a worker look at what can be measured; what is wrong with a source is an error here."""
        answer = answer_of(self.launcher.launch({"job": "survey", **job}), self.launcher, SURVEY_TIMEOUT)
        if "error" in answer:
            raise source_error(answer["error"])
        found: dict[str, Any] = answer["survey"]
        for source in found["sources"]:
            if "error" in source:
                raise source_error(source["error"])
        return found

    def preload(self, libraries: Sequence[str]) -> None:
        """Import libraries once, before workers are forked, if they allow it."""
        if libraries and isinstance(self._launcher, Zygote):
            self._launcher.preload(libraries)

    def supervisor(self, settings: Settings, limits: Limits, watcher: Watcher) -> Supervisor:
        """A supervisor whose workers measure cases of these settings."""

        def job(case: Case, number: int) -> Message:
            around = surroundings.make_case_folder(self.scratch, number, self.template, self._kept_cache)
            return {**make_job(case, settings, self.launcher.start), "surroundings": around}

        def cleanup(number: int) -> None:
            with contextlib.suppress(OSError):
                surroundings.drop_case_folder(self.scratch, number)

        return Supervisor(self.launcher, limits, job, cleanup, watcher)


def source_error(told: Mapping[str, Any]) -> InputError | UsageError:
    """What a worker says about a source, as the error that a person sees."""
    message = str(told.get("message", ""))
    advice = (
        str(told.get("log") or "").strip()[-_LOG_SHOWN:]
        or str(told.get("traceback") or "").strip()[-_LOG_SHOWN:]
    )
    if told.get("path"):
        return InputError(
            message, path=str(told["path"]), line=told.get("line"), column=told.get("column"), advice=advice
        )
    return UsageError(message, advice=advice)
