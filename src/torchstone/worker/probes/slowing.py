"""A call that keeps the processor busy for longer by a known share: to see whether a comparison notices."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

from torchstone.worker.probes.timing import Call


def slow_down(call: Call, share: float, synchronize: Callable[[], None]) -> Call:
    """The call, and after it as much work of the processor as takes this share of the time that the call has just taken.

    So both together take longer by this share however fast the machine is at that moment, and nothing has to be found out beforehand, which would take as many samples as noticing the
    difference does. Reading the clock takes time too, a microsecond or two after a call that has used the caches for other things: the call that this one is compared with has to be slowed
    down too, by nothing.
    """

    def slowed() -> object:
        began = perf_counter_ns()
        result = call()
        synchronize()  # or the device would go on meanwhile, and nothing would take longer
        ended = perf_counter_ns()
        until = ended + share * (ended - began)
        while perf_counter_ns() < until:
            pass
        return result

    return slowed
