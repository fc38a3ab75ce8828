"""A call with real work added, so that it takes longer by a known share: to see whether a comparison notices."""

from __future__ import annotations

from collections.abc import Callable

from torchstone.probes.timing import Call, choose_block, time_block

ROUNDS = 15
_STEPS = 2_000


def slow_down(call: Call, share: float, synchronize: Callable[[], None]) -> Call:
    """The call, and after it so much work of the processor that both together take longer by this share.

    How much that is, is found out here and now, from the fastest of several timings of either: what disturbs makes both longer.
    """
    block, _ = choose_block(call, synchronize)
    own = min(time_block(call, block, synchronize) for _ in range(ROUNDS))
    step = min(time_block(lambda: _work(_STEPS), 1, _nothing) for _ in range(ROUNDS)) / _STEPS
    steps = max(1, round(share * own / step))

    def slowed() -> object:
        result = call()
        synchronize()  # or the device would go on meanwhile, and nothing would take longer
        _work(steps)
        return result

    return slowed


def _work(steps: int) -> int:
    """Work that takes as long as there are steps, and that nothing can optimise away."""
    total = 0
    for step in range(steps):
        total ^= step
    return total


def _nothing() -> None:
    """There is no device to wait for."""
