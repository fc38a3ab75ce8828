"""A call with real work added, so that it takes longer by a known share: to see whether a comparison notices."""

from __future__ import annotations

from collections.abc import Callable

from torchstone.probes.timing import Call, choose_block, time_block

ROUNDS = 15
MORE_ROUNDS = 45
_STEPS = 2_000
_LONG = 5_000_000  # nanoseconds: against a call as long as that, the few microseconds of calling the work are nothing


def slow_down(call: Call, share: float, synchronize: Callable[[], None]) -> Call:
    """The call, and after it so much work of the processor that both together take longer by this share.

    How much that is, is found out here and now, from the fastest of several timings of each: what disturbs makes all of them longer. After a short call, work takes longer than by
    itself, as does beginning it, so there it is timed in its place.
    """
    block, own = choose_block(call, synchronize)
    step = min(time_block(lambda: _work(_STEPS), 1, _nothing) for _ in range(ROUNDS)) / _STEPS
    if own >= _LONG:
        own = min(own, *(time_block(call, block, synchronize) for _ in range(ROUNDS)))
        return _with_work(call, max(1, round(share * own / step)), synchronize)
    guess = max(10, round(share * own / step))
    idle, busy = (_with_work(call, steps, synchronize) for steps in (1, guess))
    plain, least, most = (
        min(times)
        for times in zip(
            *(
                [time_block(each, block, synchronize) for each in (call, idle, busy)]
                for _ in range(MORE_ROUNDS)
            ),
            strict=True,
        )
    )
    in_place = (most - least) / (guess - 1)
    wanted = share * plain - (least - plain)
    steps = round(1 + wanted / (in_place if in_place > step / 2 else step))
    return _with_work(call, max(1, steps), synchronize)


def _with_work(call: Call, steps: int, synchronize: Callable[[], None]) -> Call:
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
