"""Read the machine's clock, even in a worker whose Python clocks were replaced (worker.repeatable)."""

from __future__ import annotations

import time


def monotonic() -> float:
    """Return the seconds since an arbitrary moment."""
    if hasattr(time, "clock_gettime"):  # never replaced
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()
