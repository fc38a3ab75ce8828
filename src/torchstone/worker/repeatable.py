"""Makes a process repeat itself: clocks that move one step at every look, chance that is seeded, children that are waited for without looking at a clock.

Counting instructions is exact, but what is counted may differ: the number of digits of a time, a name made by chance, a loop that polls until a child has ended. Each of these moves what is put
into memory after it, with that the places in hash tables that depend on addresses, and with those the count, by up to a tenth of a percent. Only for processes of which nobody wants to know
a time; torchstone.worker.machine.clock has the machine's own.
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
"""Python's clocks, and what they show at first, in seconds; each also has a form in nanoseconds."""
_STEP_NS = 1_000
_SEED = 0


def repeat_itself() -> None:
    """From here on, and in all processes that are forked from this one: no clock and no chance makes a difference."""
    for name, start in _CLOCKS.items():
        setattr(time, name, itertools.count(float(start), _STEP_NS / 1e9).__next__)
        setattr(time, f"{name}_ns", itertools.count(start * 1_000_000_000, _STEP_NS).__next__)
    random.seed(_SEED)
    tempfile._name_sequence = _Names()  # type: ignore[attr-defined]
    subprocess.Popen._wait = _wait  # type: ignore[attr-defined]


class _Names(Iterator[str]):
    """Names for temporary files: the next one every time. They need not be unknown to others: each worker has a folder of its own."""

    def __init__(self) -> None:
        self._numbers = itertools.count(10_000_000)

    def __next__(self) -> str:
        return str(next(self._numbers))


_wait_with_timeout = subprocess.Popen._wait  # type: ignore[attr-defined]


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> int:  # noqa: ARG001  (signature of Popen.wait)
    """Wait for a child for as long as it takes: with a timeout, Python would look again and again, as often as the child lets it."""
    return _wait_with_timeout(process, None)  # type: ignore[no-any-return]
