"""What an executor is: something that opens a launcher of workers, wherever these run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torchstone.core.errors import TorchstoneError
from torchstone.measure.executors.worker_handle import Worker
from torchstone.worker.protocol.jobs import Job
from torchstone.worker.protocol.keeper_messages import KeeperBroken, KeeperReady, KeeperSetup


class CannotMeasureError(TorchstoneError):
    """Nothing can be measured here at all; ends the process with exit code 3."""

    exit_code = 3


class Launcher(Protocol):
    """Starts workers; ``start`` names how, which is part of what a compile time means."""

    start: str

    def launch(self, job: Job) -> Worker:
        """Start a worker with its job."""

    def preload(self, libraries: Sequence[str]) -> str:
        """Import these once for all workers, if that is possible; gives the reason if not."""

    def renew(self) -> Callable[[], None]:
        """Have later workers start from another process, where that makes a difference; the result waits until it is ready."""

    def poll(self) -> None:
        """Note which workers have ended."""

    def close(self) -> None:
        """End everything that was started."""


class LoadingLauncher(Launcher, Protocol):
    """A launcher that may still be loading torch."""

    def wait_until_ready(self, timeout: float) -> KeeperReady | KeeperBroken:
        """Wait until workers can be started, and say what was found meanwhile."""


@dataclass(frozen=True)
class LauncherRequest:
    """What a session asks of an executor: how to start workers (``fork`` or ``spawn``), their variables and interpreter.

    ``log_path`` is where the launcher's own process writes; ``keep`` are descriptors that it inherits.
    """

    start: str
    variables: Mapping[str, str]
    setup: KeeperSetup
    log_path: str
    python: str
    keep: tuple[int, ...] = ()


class Executor(Protocol):
    """Where workers run."""

    def open(self, request: LauncherRequest) -> LoadingLauncher:
        """Open what starts the workers of a session."""


def problem_of(reply: KeeperReady | KeeperBroken) -> str:
    """Why a keeper cannot fork workers; empty if it can."""
    return reply.broken if isinstance(reply, KeeperBroken) else reply.blocked


def describe_exit(code: int) -> str:
    """How a process ended, in words.

    >>> describe_exit(-11), describe_exit(3)
    ('ended by SIGSEGV', 'exited with code 3')
    """
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"
