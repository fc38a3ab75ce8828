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
MOST_CALLS = 1_000_000  # in a block, whatever the clock says
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
    """How many calls to time together, so that the faster one's block is long enough to time.

    A call by itself takes longer than one of many: the clock is read for it alone, and a device waits for it alone. So the block is tried, and
    grows until it is long enough.
    """
    block = 1
    while block < MOST_CALLS:
        fastest = min(_fastest(call, block, synchronize) for call in calls)
        if fastest * block >= SHORTEST_BLOCK:
            break
        block = min(MOST_CALLS, max(2 * block, math.ceil(1.2 * SHORTEST_BLOCK / max(fastest, 1))))
    return block


def _fastest(call: Call, block: int, synchronize: Callable[[], None]) -> float:
    """The shortest of three; of fewer, where the first is far too long to matter."""
    shortest = math.inf
    for _ in range(3):
        shortest = min(shortest, time_block(call, block, synchronize))
        if shortest * block >= 10 * SHORTEST_BLOCK:
            break
    return shortest


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
    sides = [(eager, pairs.eager), (compiled, pairs.compiled)]
    start = time.monotonic()
    while not pairs.stopped:
        for call, times in sides if order.random() < 0.5 else reversed(sides):
            times.append(time_block(call, pairs.block, synchronize))
        _collect_between_pairs()
        pairs.stopped = _why_stop(pairs, rule, start)
    return pairs


def _collect_between_pairs() -> None:
    """Free what calls have left in cycles as often as Python itself would, only not while anything is timed."""
    if gc.get_count()[0] > gc.get_threshold()[0]:
        gc.collect(1)


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
