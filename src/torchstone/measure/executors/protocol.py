"""The executor protocol: an executor opens a launcher of workers, on this machine or elsewhere."""

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
    """Nothing can be measured here; the exit code is 3."""

    exit_code = 3


class OutOfTimeError(CannotMeasureError):
    """The time for preparing was spent before anything could be measured."""


class Launcher(Protocol):
    """Starts workers; ``start`` names the method, which compile times depend on."""

    start: str

    def launch(self, job: Job) -> Worker:
        """Start a worker with its job."""

    def preload(self, libraries: Sequence[str]) -> str:
        """Import these once for all workers; return why that is not possible, empty if it is."""

    def renew(self) -> Callable[[], None]:
        """Start later workers from a new process, if they are forked; the returned function waits until it is ready."""

    def poll(self) -> None:
        """Record which workers have exited."""

    def close(self) -> None:
        """Kill everything that was started."""


class LoadingLauncher(Launcher, Protocol):
    """A launcher that may still be loading torch."""

    def wait_until_ready(self, timeout: float) -> KeeperReady | KeeperBroken:
        """Wait until workers can be started; return problems found while loading."""


@dataclass(frozen=True)
class LauncherRequest:
    """A session's request to an executor: how to start workers (``fork`` or ``spawn``), their variables and interpreter.

    ``log_path`` is the log of the launcher's own process; ``keep`` are descriptors that it inherits.
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
        """Return the launcher of a session's workers."""


def problem_of(reply: KeeperReady | KeeperBroken) -> str:
    """Return why a keeper cannot fork workers; empty if it can."""
    return reply.broken if isinstance(reply, KeeperBroken) else reply.blocked


def describe_exit(code: int) -> str:
    """Describe how a process ended.

    >>> describe_exit(-11), describe_exit(3)
    ('ended by SIGSEGV', 'exited with code 3')
    """
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"
