"""Record the progress of a rank in a file, which its worker can follow, and which remains if the rank dies."""

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
    """The phase of a rank, and its number of finished timed iterations."""

    phase: str = FIRST
    iteration: int = 0

    def __str__(self) -> str:
        if self.phase == "run":
            return f"in iteration {self.iteration + 1}"
        return f"while {'loading' if self.phase == FIRST else 'warming up'}"


class ProgressFile:
    """The file in which a rank records its progress."""

    def __init__(self, folder: str, rank: int) -> None:
        self._file = os.open(_place(folder, rank), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.last = Progress()

    def tell(self, phase: str, iteration: int) -> None:
        """Record the progress, with one small write that is not part of the timed work."""
        self.last = Progress(phase, iteration)
        os.pwrite(self._file, f"{phase} {iteration}".ljust(_LENGTH).encode(), 0)


def read_progress(folder: str, rank: int) -> Progress:
    """Return the progress of a rank, dead or alive."""
    with contextlib.suppress(OSError, ValueError), open(_place(folder, rank)) as file:
        phase, iteration = file.read().split()
        return Progress(phase, int(iteration))
    return Progress()


def _place(folder: str, rank: int) -> str:
    return os.path.join(folder, f"progress-{rank}")
