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
LONGEST_BLOCK = 20_000_000  # nanoseconds, where it is only the other side that needs so many calls
LONGEST_TRIAL = 1_000_000_000  # nanoseconds
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
    """Times of one call, in nanoseconds, taken in turns; ``blocks`` is how many calls of either side were timed together."""

    blocks: tuple[int, int]
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


def choose_blocks(eager: Call, compiled: Call, synchronize: Callable[[], None]) -> tuple[int, int]:
    """How many calls of either side to time together: as many as the faster one needs for a block that is long enough to time.

    The slower one gets fewer if its block would take forever.
    """
    needed = [choose_block(call, synchronize) for call in (eager, compiled)]
    most = max(block for block, _ in needed)
    one, other = (min(most, max(block, int(LONGEST_BLOCK / max(each, 1)))) for block, each in needed)
    return one, other


def choose_block(call: Call, synchronize: Callable[[], None]) -> tuple[int, float]:
    """How many calls make a block that is long enough to time, and the nanoseconds that each of them takes.

    A call by itself takes longer than one of many: the clock is read for it alone, and a device waits for it alone. So the block is tried, and
    grows until it is long enough.
    """
    block = 1
    while (each := _fastest(call, block, synchronize)) * block < SHORTEST_BLOCK and block < MOST_CALLS:
        block = min(MOST_CALLS, max(2 * block, math.ceil(1.2 * SHORTEST_BLOCK / max(each, 1))))
    return block, each


def _fastest(call: Call, block: int, synchronize: Callable[[], None]) -> float:
    """The shortest of three, for anything can come between; of fewer, if that would take seconds."""
    times: list[float] = []
    while len(times) < 3 and sum(times) * block < LONGEST_TRIAL:
        times.append(time_block(call, block, synchronize))
    return min(times)


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
    pairs = Pairs(choose_blocks(eager, compiled, synchronize), next_look=rule.least)
    sides = [(eager, pairs.blocks[0], pairs.eager), (compiled, pairs.blocks[1], pairs.compiled)]
    start = time.monotonic()
    while not pairs.stopped:
        for call, block, times in sides if order.random() < 0.5 else reversed(sides):
            times.append(time_block(call, block, synchronize))
        _collect_between_pairs()
        pairs.stopped = _why_stop(pairs, rule, start)
    return pairs


def _collect_between_pairs() -> None:
    """Free what calls have left in cycles as often as Python itself would, only not while anything is timed."""
    if gc.get_count()[0] > gc.get_threshold()[0] > 0:
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
