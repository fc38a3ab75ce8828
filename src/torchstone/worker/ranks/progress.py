"""How far a rank has come, in a file of its own: its worker can follow it there, and it is still there when the rank is gone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import NamedTuple

FIRST = "load"
_LENGTH = 32

TellProgress = Callable[[str, int], None]
"""Called with the phase and its number of finished iterations."""


class Progress(NamedTuple):
    """The phase of a rank, and how many timed iterations were done."""

    phase: str = FIRST
    iteration: int = 0

    def __str__(self) -> str:
        if self.phase == "run":
            return f"in iteration {self.iteration + 1}"
        return f"while {'loading' if self.phase == FIRST else 'warming up'}"


class ProgressFile:
    """Where a rank notes it."""

    def __init__(self, folder: str, rank: int) -> None:
        self._file = os.open(_place(folder, rank), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.last = Progress()

    def tell(self, phase: str, iteration: int) -> None:
        """Note it: one small write, which is no part of what is timed."""
        self.last = Progress(phase, iteration)
        os.pwrite(self._file, f"{phase} {iteration}".ljust(_LENGTH).encode(), 0)


def read_progress(folder: str, rank: int) -> Progress:
    """How far a rank has come, dead or alive."""
    with contextlib.suppress(OSError, ValueError), open(_place(folder, rank)) as file:
        phase, iteration = file.read().split()
        return Progress(phase, int(iteration))
    return Progress()


def _place(folder: str, rank: int) -> str:
    return os.path.join(folder, f"progress-{rank}")
