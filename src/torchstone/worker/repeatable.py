"""Make a process repeatable: clocks that advance one step per reading, seeded random numbers, no polling for children.

Counting instructions is exact, but the work may vary: with the number of digits of a time, a random name, a
loop that polls until a child has ended. Each of these shifts later memory allocations, so that hash tables
keyed by address change, and with them the count, by up to 0.1 %. Only for processes whose times do not matter;
torchstone.worker.machine.clock has the real clock.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator

_CLOCKS = {
    "time": 1_700_000_000,
    "perf_counter": 1_000,
    "monotonic": 1_000,
    "process_time": 1,
    "thread_time": 1,
}
"""Python's clocks and their first values in seconds; each also has a version in nanoseconds."""
_STEP_NS = 1_000
_SEED = 0


def make_repeatable() -> None:
    """Make this process, and all that are forked from it, independent of clocks and random numbers."""
    for name, start in _CLOCKS.items():
        setattr(time, name, itertools.count(float(start), _STEP_NS / 1e9).__next__)
        setattr(time, f"{name}_ns", itertools.count(start * 1_000_000_000, _STEP_NS).__next__)
    random.seed(_SEED)
    tempfile._name_sequence = _Names()  # type: ignore[attr-defined]
    subprocess.Popen._wait = _wait  # type: ignore[attr-defined]


class _Names(Iterator[str]):
    """Consecutive names for temporary files. They may be predictable: each worker has its own folder."""

    def __init__(self) -> None:
        self._numbers = itertools.count(10_000_000)

    def __next__(self) -> str:
        return str(next(self._numbers))


_wait_with_timeout = subprocess.Popen._wait  # type: ignore[attr-defined]


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> int:  # noqa: ARG001  (signature of Popen.wait)
    """Wait for a child without a timeout: with one, Python would poll, and the number of polls would vary."""
    return _wait_with_timeout(process, None)  # type: ignore[no-any-return]
