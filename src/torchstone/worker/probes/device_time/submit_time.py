"""How long the host takes to submit the work of a call, without waiting for the device."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

SUBMISSIONS = 20
LONGEST = 0.5  # seconds, after which three submissions are enough
_FEWEST = 3


def time_submissions(
    call: Callable[[], object], synchronize: Callable[[], None], count: int = SUBMISSIONS
) -> list[float]:
    """Return the nanoseconds that each of several calls took until it returned, the device idle before each.

    A call that waits for the device itself, or submits more than the device's queue holds, returns later.
    """
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        return _time_submissions(call, synchronize, count)
    finally:
        if collecting:
            gc.enable()


def _time_submissions(call: Callable[[], object], synchronize: Callable[[], None], count: int) -> list[float]:
    times: list[float] = []
    began = time.monotonic()
    while len(times) < count and (len(times) < _FEWEST or time.monotonic() - began < LONGEST):
        synchronize()
        start = time.perf_counter_ns()
        call()
        times.append(float(time.perf_counter_ns() - start))
    synchronize()
    return times
