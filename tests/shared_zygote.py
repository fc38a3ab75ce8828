"""One zygote for many commands of the tests: loading torch takes five seconds of a processor, forking a worker takes none.

A command that a test calls in this process gets the zygote of an earlier one, if it would have started the same: the same interpreter, sources and
environment. Its workers are real ones, forked for it alone. Whatever differs (a variable that a test sets, another interpreter, libraries that a
benchmark has preloaded, a second side that is measured at the same time) gets a zygote of its own, which ends with its command.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping

from torchstone.measure.executors.local import KeeperLauncher, LocalExecutor
from torchstone.measure.executors.protocol import LauncherRequest, LoadingLauncher
from torchstone.worker import worker_environment
from torchstone.worker.protocol.keeper_messages import KeeperBroken, KeeperReady

_MOST = 2
_PATIENCE = 10.0


def _of_the_user(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if not name.startswith("PYTEST_")}


_USUAL = _of_the_user(os.environ)


class _Shared(KeeperLauncher):
    """A launcher whose zygote outlives the command, as long as nothing was imported into it."""

    zygotes: Zygotes
    key: str
    reply: KeeperReady | KeeperBroken | None = None

    def wait_until_ready(self, timeout: float) -> KeeperReady | KeeperBroken:
        if self.reply is None:
            self.reply = super().wait_until_ready(timeout)
        return self.reply

    def _begin(self) -> None:
        self.reply = None
        super()._begin()

    def serve(self, request: LauncherRequest) -> None:
        """Be the launcher of another command."""
        self._setup, self._log_path, self._keep = request.setup, request.log_path, request.keep

    def close(self) -> None:
        if self._is_fit():
            self.zygotes.take_back(self)
        else:
            super().close()

    def end(self) -> None:
        super().close()

    def _is_fit(self) -> bool:
        """Whether it would do for another command, once the workers of this one have ended."""
        if self._libraries or not isinstance(self.reply, KeeperReady) or self.reply.blocked:
            return False
        for worker in self._workers.values():
            worker.kill()
        deadline = time.monotonic() + _PATIENCE
        while self._workers and time.monotonic() < deadline:
            self.poll()
            time.sleep(0.01)
        return not self._workers and self._process.poll() is None


def _is_usual(request: LauncherRequest) -> bool:
    usual = _of_the_user(worker_environment.worker_variables(request.setup.template))
    return (
        request.start == "fork"
        and request.python == sys.executable
        and _of_the_user(os.environ) == _USUAL
        and _of_the_user(request.variables) == usual
    )


class Zygotes:
    """An executor with the zygotes that no command uses at the moment, the one that was used last at the end."""

    def __init__(self) -> None:
        self._idle: dict[str, _Shared] = {}

    def open(self, request: LauncherRequest) -> LoadingLauncher:
        """What a session calls to start workers."""
        if not _is_usual(request):
            return LocalExecutor().open(request)
        key = repr((request.setup.sources, request.setup.devices or ("cpu",)))
        found = self._idle.pop(key, None)
        if found is None:
            found = _Shared(
                request.start, request.variables, request.setup, request.log_path, keep=request.keep
            )
            found.zygotes, found.key = self, key
        else:
            found.serve(request)
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
