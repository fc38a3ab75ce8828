"""Timing two calls in turns: blocks of calls, pairs in random order, and the rule for when it is enough."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from torchstone.analyze.ratio import FEWEST_PAIRS, Ratio, estimate_ratio

SHORTEST_BLOCK = 500_000  # nanoseconds: a shorter one would measure the clock and the interrupts
MOST_PAIRS = 20_000
PATIENCE = 4  # a slow call may overrun its budget so many times before fewer pairs must do
FEWEST_SLOW = 3
Call = Callable[[], object]


@dataclass(frozen=True)
class StopRule:
    """When to stop: after ``repeat`` pairs, or once the ratio is known to ``precision``, within ``budget`` seconds."""

    repeat: int | None = None
    precision: float = 0.01
    budget: float = 5.0
    least: int = 3 * FEWEST_PAIRS


@dataclass
class Pairs:
    """Times of one call, in nanoseconds, taken in turns; ``block`` calls were timed together."""

    block: int
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    next_look: int = 0
    stopped: str = ""

    def ratio(self) -> Ratio:
        """How many times faster the compiled call is."""
        return estimate_ratio(self.eager, self.compiled)


def time_block(call: Call, calls: int, synchronize: Callable[[], None]) -> float:
    """Nanoseconds a call, over a block of calls whose work on the device is waited for at the end."""
    turns = range(calls)
    start = time.perf_counter_ns()
    for _ in turns:
        call()
    synchronize()
    return (time.perf_counter_ns() - start) / calls


def choose_block(calls: tuple[Call, Call], synchronize: Callable[[], None]) -> int:
    """How many calls to time together, so that the faster one's block is long enough to time."""
    fastest = min(min(time_block(call, 1, synchronize) for _ in range(3)) for call in calls)
    return max(1, math.ceil(SHORTEST_BLOCK / max(fastest, 1)))


def time_pairs(eager: Call, compiled: Call, rule: StopRule, synchronize: Callable[[], None]) -> Pairs:
    """Time two calls in turns, in random order within each pair, until the rule says that it is enough."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        return _time_pairs(eager, compiled, rule, synchronize)
    finally:
        if collecting:
            gc.enable()


def _time_pairs(eager: Call, compiled: Call, rule: StopRule, synchronize: Callable[[], None]) -> Pairs:
    order = random.Random(0)  # noqa: S311  (any order will do, as long as it is not always the same)
    synchronize()
    pairs = Pairs(choose_block((eager, compiled), synchronize), next_look=rule.least)
    start = time.monotonic()
    while not pairs.stopped:
        if order.random() < 0.5:
            pairs.eager.append(time_block(eager, pairs.block, synchronize))
            pairs.compiled.append(time_block(compiled, pairs.block, synchronize))
        else:
            pairs.compiled.append(time_block(compiled, pairs.block, synchronize))
            pairs.eager.append(time_block(eager, pairs.block, synchronize))
        pairs.stopped = _why_stop(pairs, rule, start)
    return pairs


def _why_stop(pairs: Pairs, rule: StopRule, start: float) -> str:
    taken = len(pairs.eager)
    if rule.repeat is not None:
        return "repeat" if taken >= rule.repeat else ""
    if taken >= MOST_PAIRS:
        return "most"
    spent = time.monotonic() - start
    if spent >= rule.budget and (
        taken >= FEWEST_PAIRS or (taken >= FEWEST_SLOW and spent >= PATIENCE * rule.budget)
    ):
        return "budget"
    if taken == pairs.next_look:
        # Looked at ever more rarely: every look is a chance to stop on an interval that is narrow by luck.
        pairs.next_look *= 2
        if pairs.ratio().half_width <= rule.precision:
            return "precision"
    return ""
