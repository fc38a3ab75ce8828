"""One zygote for many commands of the tests: loading torch takes five seconds of a processor, forking a worker takes none.

A command that a test calls in this process gets the zygote of an earlier one, if it would have started the same: the same interpreter, sources and
environment. Its workers are real ones, forked for it alone. Whatever differs (a variable that a test sets, another interpreter, libraries that a
benchmark has preloaded, a second side that is measured at the same time) gets a zygote of its own, which ends with its command.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from torchstone.measure.launcher import KeptLauncher
from torchstone.worker import worker_environment
from torchstone.worker.channel import Message

_MOST = 2
_PATIENCE = 10.0


def _of_the_user(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if not name.startswith("PYTEST_")}


_USUAL = _of_the_user(os.environ)


class _Shared(KeptLauncher):
    """A launcher whose zygote outlives the command, as long as nothing was imported into it."""

    zygotes: Zygotes
    key: str
    answer: Message | None = None

    def wait_until_ready(self, timeout: float) -> Message:
        if self.answer is None:
            self.answer = super().wait_until_ready(timeout)
        return self.answer

    def _begin(self) -> None:
        self.answer = None
        super()._begin()

    def serve(self, request: Message, log_path: str, keep: Sequence[int]) -> None:
        """Be the launcher of another command."""
        self._request, self._log_path, self._keep = request, log_path, keep

    def close(self) -> None:
        if self._is_fit():
            self.zygotes.take_back(self)
        else:
            super().close()

    def end(self) -> None:
        super().close()

    def _is_fit(self) -> bool:
        """Whether it would do for another command, once the workers of this one have ended."""
        if self._libraries or not self.answer or not self.answer.get("ready") or self.answer.get("blocked"):
            return False
        for worker in self._workers.values():
            worker.kill()
        deadline = time.monotonic() + _PATIENCE
        while self._workers and time.monotonic() < deadline:
            self.poll()
            time.sleep(0.01)
        return not self._workers and self._process.poll() is None


class Zygotes:
    """The zygotes that no command uses at the moment, the one that was used last at the end."""

    def __init__(self) -> None:
        self._idle: dict[str, _Shared] = {}

    def start(
        self,
        start: str,
        variables: Mapping[str, str],
        request: Message,
        log_path: str,
        python: str = sys.executable,
        keep: Sequence[int] = (),
    ) -> KeptLauncher:
        """What a session calls to start workers."""
        given: dict[str, Any] = {"python": python, "keep": keep}
        usual = _of_the_user(worker_environment.worker_variables(request["template"]))
        if (
            start != "fork"
            or python != sys.executable
            or _of_the_user(os.environ) != _USUAL
            or _of_the_user(variables) != usual
        ):
            return KeptLauncher(start, variables, request, log_path, **given)
        key = repr((request["sources"], request["devices"] or ["cpu"]))
        found = self._idle.pop(key, None)
        if found is None:
            found = _Shared(start, variables, request, log_path, **given)
            found.zygotes, found.key = self, key
        else:
            found.serve(request, log_path, keep)
        return found

    def take_back(self, zygote: _Shared) -> None:
        """Keep a zygote for the next command that needs such a one."""
        for other in (self._idle.pop(zygote.key, None), *list(self._idle.values())[: 1 - _MOST]):
            if other is not None:
                self._idle.pop(other.key, None)
                other.end()
        self._idle[zygote.key] = zygote

    def close(self) -> None:
        for zygote in self._idle.values():
            zygote.end()
        self._idle.clear()
