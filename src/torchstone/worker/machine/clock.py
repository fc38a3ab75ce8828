"""The machine's clock, also in a process whose own clocks were replaced so that it repeats itself (worker.repeatable)."""

from __future__ import annotations

import time


def monotonic() -> float:
    """Seconds that pass, from no particular moment on."""
    if hasattr(time, "clock_gettime"):  # which nobody replaces
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()
