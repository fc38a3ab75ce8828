"""A session: the scratch folder, the way workers are started, and the survey of what can be measured here."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from msgspec import ValidationError

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case
from torchstone.core.run_settings import environment_from
from torchstone.core.vocabulary import DEFAULT_SCENARIOS, Probe
from torchstone.measure.answers import answer_of
from torchstone.measure.launcher import CannotMeasureError, KeptLauncher, Launcher, Spawner
from torchstone.measure.measuring import Settings, case_file, make_job
from torchstone.measure.procedures.compile_cache_procedure import Account, CacheCourse
from torchstone.measure.procedures.procedure import Course, SingleCourse
from torchstone.measure.procedures.rounds import Room
from torchstone.measure.procedures.scaling_procedure import Crew, ScalingCourse, plan_of
from torchstone.measure.procedures.trials import TrialsCourse
from torchstone.measure.simulation import BothLaunchers, counting_folder, is_simulated, start_simulation
from torchstone.measure.supervisor import Limits, Supervisor, Watcher
from torchstone.measure.targets import Targets, leave_out_empty
from torchstone.measure.torch_loading import cannot_load, no_torch
from torchstone.worker import worker_environment
from torchstone.worker.cache_template import is_filled, read_probing_seconds
from torchstone.worker.channel import Message
from torchstone.worker.process_tree import terminated_as_interrupted, undisturbed
from torchstone.worker.scratch import make_scratch, sweep
from torchstone.worker.worker_environment import World

SURVEY_TIMEOUT = 600.0
LEAST_SURVEY_TIMEOUT = 30.0
_LOG_SHOWN = 4000
_LINES_SHOWN = 6
_OF_STACKS = (
    "Fatal Python error",
    "Current thread",
    "Thread 0x",
    'File "',
    "Extension modules:",
    "<no Python frame>",
)


class Session:
    """Starts workers for one command, and leaves nothing behind. ``tell`` is given what a person should know meanwhile."""

    def __init__(
        self, start: str, cache: str, tell: Callable[[str], None], world: World = worker_environment.HERE
    ) -> None:
        self._start = start
        self.world = world
        self._kept_cache = worker_environment.warm_cache_folder() if cache == "warm" else None
        self._tell = tell
        self._launcher: Launcher | None = None
        self._is_primed = False
        self._sources: list[Message] = []
        self._simulated_template = ""
        self.cautions: list[Caution] = []
        self.trusts_artifacts = False
        self.crew = Crew(Room(1, 1, ""), (socket.gethostname(),))

    def __enter__(self) -> Session:
        with contextlib.ExitStack() as stack:
            stack.enter_context(terminated_as_interrupted())
            self.template = worker_environment.template_folder(world=self.world)
            sweep()
            self._scratch = make_scratch()
            self._signals = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with undisturbed():
            if self._launcher is not None:
                self._launcher.close()
            self._scratch.remove()
        self._signals.close()

    @property
    def scratch(self) -> str:
        """The folder for caches and temporary files of this session."""
        return self._scratch.path

    @property
    def launcher(self) -> Launcher:
        """What starts the workers."""
        if self._launcher is None:
            raise RuntimeError("the session has not been started")
        return self._launcher

    def start_workers(self, sources: Sequence[Mapping[str, str]], devices: Sequence[str] = ()) -> None:
        """Get ready to start workers for these sources and devices: by forking where that is possible and not forbidden."""
        variables = worker_environment.worker_variables(self.template, self.world)
        if not sys.platform.startswith("linux"):
            if self._start == "fork":
                raise UsageError(
                    "--start fork works on Linux only", advice="leave it out, or use --start spawn"
                )
            self._launcher = Spawner(variables, self.world.python)
            return
        if self._start != "spawn":
            # A user's file is none of the zygote's business: it may print, hang, crash, or start threads.
            shared = self._sources = [dict(source) for source in sources if source["kind"] != "file"]
            problem = self._start_keeper("fork", variables, {"sources": shared, "devices": list(devices)})
            if not problem:
                return
            if self._start == "fork":
                raise CannotMeasureError(f"workers cannot be forked: {problem}", advice="try --start spawn")
            self.cautions.append(make_caution(CautionKind.WORKERS_SPAWNED, problem=problem))
        self._start_keeper("spawn", variables, {})

    def spawn_instead(self) -> None:
        """Start no more workers by forking, for what they are compared with cannot be forked; has to be started again."""
        if self._launcher is not None:
            self._end_launcher(self._launcher)
        self._start = "spawn"

    def _end_launcher(self, launcher: Launcher) -> None:
        """End everything that was started; a keeper that goes takes the scratch folder along."""
        launcher.close()
        self._launcher = None
        self._scratch.remove()
        self._scratch = make_scratch()

    def _start_keeper(self, start: str, variables: Mapping[str, str], request: Message) -> str:
        """Start what starts the workers; gives the reason why it cannot be used, if so."""
        log_path = os.path.join(self.scratch, "keeper.log")
        lock = self._scratch.lock
        told = {
            **request,
            "template": self.template,
            "scratch": self.scratch,
            "lock": lock,
            "temporary": self._temporary(),
        }
        keeper = KeptLauncher(start, variables, told, log_path, self.world.python, keep=(lock,))
        self._launcher = BothLaunchers(keeper)  # closed with the session from here on, whatever happens
        answer = keeper.wait_until_ready(SURVEY_TIMEOUT)
        if "broken" in answer:
            raise self._broken(str(answer["broken"]), log_path)
        notes = answer.get("notes", [])
        self.cautions += [make_caution(CautionKind.STARTING_WORKERS, note=str(note)) for note in notes]
        if answer.get("blocked"):
            self._end_launcher(keeper)
            return str(answer["blocked"])
        return ""

    def _temporary(self) -> str:
        """A folder for temporary files of what is no case."""
        folder = os.path.join(self.scratch, "tmp")
        os.makedirs(folder, exist_ok=True)
        return folder

    def _broken(self, problem: str, log_path: str) -> CannotMeasureError:
        said = ""
        with contextlib.suppress(OSError), open(log_path, errors="replace") as file:
            said = file.read()
        return cannot_load(problem, said, self.world.python)

    def renew(self) -> Callable[[], None]:
        """Have workers forked by another process from now on; what is given waits until it is ready."""
        launcher = self.launcher
        return launcher.renew() if isinstance(launcher, BothLaunchers) else lambda: None

    def survey(self, job: Message, timeout: float = SURVEY_TIMEOUT) -> dict[str, Any]:
        """Have a worker look at what can be measured; what is wrong with a source is an error here."""
        return _without_errors(self._look(job, timeout))

    def survey_targets(
        self, targets: Targets, job: Message, timeout: float = SURVEY_TIMEOUT, *, keeps_going: bool = False
    ) -> dict[str, Any]:
        """The same for the targets of a command; files that are left out because they define no benchmark are told.

        With ``keeps_going`` so are files that cannot be imported, if there are others; they are in ``broken``.
        """
        found = self._look({"sources": list(targets.sources.values()), **job}, timeout)
        found["sources"], empty = leave_out_empty(targets, found["sources"])
        found["sources"], broken = _set_apart(found["sources"], keeps_going=keeps_going and targets.may_skip)
        found["broken"] = [f"{error.place}: {error.message}" for error in broken]
        for each in sorted((*targets.skipped, *empty), key=lambda skipped: skipped.path):
            self._tell(each.line)
        for line in found["broken"]:
            self._tell(f"error: {line}")
        return found

    def _look(self, job: Message, timeout: float) -> dict[str, Any]:
        """A survey as a worker gives it.

        It may take what a case may take, but never so little that torch could not be loaded meanwhile.
        """
        patience = min(SURVEY_TIMEOUT, max(LEAST_SURVEY_TIMEOUT, timeout))
        answer = answer_of(
            self.launcher.launch({"job": "survey", "temporary": self._temporary(), **job}),
            self.launcher,
            patience,
        )
        if "error" in answer:
            told = answer["error"]
            if told.get("is_of_torch"):
                raise cannot_load(str(told["message"]), str(told["traceback"]), self.world.python)
            if "No module named 'torch'" in str(told.get("message")):
                raise no_torch(self.world.python)
            raise source_error(told)
        found: dict[str, Any] = answer["survey"]
        try:
            if "environment" in found:
                found["environment"] = environment_from(found["environment"])
        except ValidationError as error:
            raise CannotMeasureError(f"a worker describes the environment wrongly: {error}") from None
        return found

    def preload(self, libraries: Sequence[str]) -> None:
        """Import libraries once, before workers are forked, if they allow it."""
        if libraries:
            self.launcher.preload(libraries)

    def prime(self, case: Case) -> None:
        """Fill the template before the first case that needs it, where no zygote has done so: else that case would pay for it."""
        device = case.variant.device.partition(":")[0]
        if self._is_primed or device != "cpu" or case.variant.backend == "none":
            return
        self._is_primed = True
        if is_filled(self.template):
            return
        job = {"job": "prime", "template": self.template, "temporary": self._temporary()}
        answer = answer_of(self.launcher.launch(job), self.launcher, SURVEY_TIMEOUT)
        if "error" in answer:
            self._tell(f"caution: no warm-up compile: {answer['error'].get('message')}")

    def _start_simulation(self) -> str:
        """Get ready to start workers that valgrind executes, if that has not been done; gives the template for their caches."""
        launcher = self.launcher
        if not isinstance(launcher, BothLaunchers):
            raise CannotMeasureError("the simulated counter works on Linux only")
        if launcher.simulated is None:
            self._tell("loading torch under valgrind, which takes about half a minute")
            launcher.simulated, self._simulated_template = start_simulation(self.scratch, self._sources)
        return self._simulated_template

    def _counting_job(self, job: Message, number: int) -> Message:
        """A job that counts: with a cache of its own, which for a simulated worker starts from another template."""
        template = self._start_simulation() if is_simulated(job) else self.template
        around = worker_environment.make_case_folder(self.scratch, number, template, None)
        counting = {**job["counting"], "folder": counting_folder(self.scratch)}
        return {**job, "counting": counting, "surroundings": around}

    def _scaling_course(self, case: Case, job: Message, settings: Settings, number: int) -> Course:
        around = worker_environment.make_case_folder(self.scratch, number, self.template, self._kept_cache)
        told = {"OMP_NUM_THREADS": str(settings.rank_threads)} if settings.rank_threads else {}
        job = {
            **job,
            "settings": {**job["settings"], "threads": settings.rank_threads},
            "surroundings": around | told | self.crew.variables,
        }
        folders = worker_environment.CaseFolders(self.scratch, number, self.template)
        return ScalingCourse(case, job, plan_of(case, settings), lambda: folders.make("round"), self.crew)

    def supervisor(self, settings: Settings, limits: Limits, watcher: Watcher) -> Supervisor:
        """A supervisor whose workers measure cases of these settings."""

        def course(case: Case, number: int) -> Course:
            if (settings.trials or 1) == 1:
                return one_trial(case, number)

            def begin() -> Course:
                cleanup(number)  # what the trial before has left: a compile is to be as cold as the first
                return one_trial(case, number)

            return TrialsCourse(begin, settings.trials or 1)

        def one_trial(case: Case, number: int) -> Course:
            self.prime(case)
            job = make_job(case, settings, self.launcher.start)
            if case.probe == Probe.INSTRUCTIONS:
                return SingleCourse(self._counting_job(job, number))
            if case.probe == Probe.SCALING:
                return self._scaling_course(case, job, settings, number)
            if case.probe == Probe.COMPILE_CACHE:
                return CacheCourse(
                    case,
                    job,
                    worker_environment.CaseFolders(self.scratch, number, self.template),
                    settings.scenarios or DEFAULT_SCENARIOS,
                    settings.repeat or 1,
                    case_file(settings.load_artifacts, case, "artifacts"),
                    case_file(settings.save_artifacts, case, "artifacts"),
                    read_probing_seconds(self.template),
                    Account(worker_environment.made_here_folder(), self.trusts_artifacts),
                )
            around = worker_environment.make_case_folder(
                self.scratch, number, self.template, self._kept_cache
            )
            if case.probe == Probe.ACCURACY:
                around |= worker_environment.DETERMINISTIC
            return SingleCourse({**job, "surroundings": around})

        def cleanup(number: int) -> None:
            with contextlib.suppress(OSError):
                worker_environment.drop_case_folder(self.scratch, number)

        return Supervisor(self.launcher, limits, course, cleanup, watcher)


def _without_errors(found: dict[str, Any]) -> dict[str, Any]:
    """A survey, if nothing is wrong with any source."""
    for source in found["sources"]:
        if "error" in source:
            raise source_error(source["error"])
    return found


def _set_apart(
    sources: Sequence[dict[str, Any]], *, keeps_going: bool
) -> tuple[list[dict[str, Any]], list[InputError]]:
    """The sources that can be used, and what is wrong with the files that cannot; where that is all there is, it is raised."""
    errors = [source_error(source["error"]) for source in sources if "error" in source]
    broken = [error for error in errors if isinstance(error, InputError)]
    if errors and (not keeps_going or len(errors) == len(sources) or len(broken) < len(errors)):
        raise errors[0]
    return [source for source in sources if "error" not in source], broken


def source_error(told: Mapping[str, Any]) -> InputError | UsageError:
    """What a worker says about a source, as the error that a person sees; if it could say nothing, its log may know the line."""
    message, path, line = str(told.get("message", "")), str(told.get("path") or ""), told.get("line")
    log = str(told.get("log") or "")
    if not path:
        return UsageError(message, advice=_last_lines(log or str(told.get("traceback") or "")))
    if "log" in told:
        message = f"{message} while it was importing this file"
        at = re.search(rf'File "{re.escape(path)}", line (\d+)', log)
        line = int(at[1]) if at else None
    return InputError(message, path=path, line=line, column=told.get("column"), advice=_last_lines(log))


def _last_lines(text: str) -> str:
    """The end of what a process has printed, without stacks, for a message of one line."""
    lines = [line.strip() for line in text[-_LOG_SHOWN:].splitlines()]
    said = [line for line in lines if line and not line.startswith(_OF_STACKS)]
    return f"it printed: {' | '.join(said[-_LINES_SHOWN:])}" if said else ""
