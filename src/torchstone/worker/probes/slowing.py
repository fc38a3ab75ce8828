"""Slow a call down by a known share, to test whether a comparison detects it."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

from torchstone.worker.probes.timing import Call


def slow_down(call: Call, share: float, synchronize: Callable[[], None]) -> Call:
    """Return the call followed by busy work for this share of the time it just took.

    So the slowdown is relative to the machine's current speed, and nothing has to be calibrated. Reading the
    clock takes a microsecond or two, so the other side of the comparison must be wrapped too, with a share of
    zero.
    """

    def slowed() -> object:
        began = perf_counter_ns()
        result = call()
        synchronize()  # otherwise the device would work meanwhile, and nothing would take longer
        ended = perf_counter_ns()
        until = ended + share * (ended - began)
        while perf_counter_ns() < until:
            pass
        return result

    return slowed
