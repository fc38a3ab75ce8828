"""Time two calls in turns: blocks, pairs in random order, the stop rule, and interference by other work."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from torchstone.analyze.speedup_ratio import FEWEST_PAIRS, Ratio, estimate_ratio
from torchstone.worker.machine.strain import Strain, StrainWatch

SHORTEST_BLOCK = 500_000  # nanoseconds: shorter blocks would measure clock and interrupts
LONGEST_BLOCK = 20_000_000  # nanoseconds, if only the other side needs so many calls
LONGEST_TRIAL = 1_000_000_000  # nanoseconds
MOST_PAIRS = 20_000
MOST_CALLS = 1_000_000  # calls per block at most
PATIENCE = 4  # factor by which slow calls may exceed the budget before fewer pairs suffice
FEWEST_SLOW = 3
MOST_RESTARTS = 3  # restarts with longer blocks
TOO_SHORT = 0.5  # of the shortest block: if a block takes less, blocks are chosen anew
Call = Callable[[], object]


class BlockObserver(Protocol):
    """Is told which calls of the compiled side belong to a timed block."""

    def forget(self) -> None:
        """Drop what happened since the last block."""

    def restart(self) -> None:
        """Drop all blocks."""

    def end_block(self, seconds: float) -> None:
        """Keep what happened in this block; a call took ``seconds``."""


@dataclass(frozen=True)
class StopRule:
    """Stopping rule: after ``repeat`` pairs, or at ``precision`` of the ratio, within ``budget`` seconds."""

    repeat: int | None = None
    precision: float = 0.01
    budget: float = 5.0
    least: int = 3 * FEWEST_PAIRS


@dataclass
class Pairs:
    """Times per call in nanoseconds, taken in turns; ``blocks`` is the number of calls per block of either side.

    ``restarts`` counts how often blocks were too short, so that earlier pairs were dropped.
    """

    blocks: tuple[int, int]
    eager: list[float] = field(default_factory=list)
    compiled: list[float] = field(default_factory=list)
    next_look: int = 0
    stopped: str = ""
    restarts: int = 0
    strain: Strain = field(default_factory=Strain)

    def are_too_short(self) -> bool:
        """Return whether the last pair shows that its blocks are far too short."""
        last = ((self.eager[-1], self.blocks[0]), (self.compiled[-1], self.blocks[1]))
        return any(each * block < TOO_SHORT * SHORTEST_BLOCK and block < MOST_CALLS for each, block in last)

    def ratio(self) -> Ratio:
        """Return the speedup of the compiled call."""
        return estimate_ratio(self.eager, self.compiled)


def time_block(call: Call, calls: int, synchronize: Callable[[], None]) -> float:
    """Return nanoseconds per call over a block, including waiting for the device at the end."""
    turns = range(calls)
    start = time.perf_counter_ns()
    for _ in turns:
        call()
    synchronize()
    return (time.perf_counter_ns() - start) / calls


def choose_blocks(
    eager: Call,
    compiled: Call,
    synchronize: Callable[[], None],
    known: tuple[float, float] = (math.inf, math.inf),
) -> tuple[int, int]:
    """Choose the calls per block of both sides: as many as the faster one needs to be timed well.

    The slower side gets fewer if its block would take too long. ``known`` is the shortest time seen so far,
    in nanoseconds.
    """
    sides = zip((eager, compiled), known, strict=True)
    needed = [choose_block(call, synchronize, shortest) for call, shortest in sides]
    most = max(block for block, _ in needed)
    one, other = (min(most, max(block, int(LONGEST_BLOCK / max(each, 1)))) for block, each in needed)
    return one, other


def choose_block(call: Call, synchronize: Callable[[], None], known: float = math.inf) -> tuple[int, float]:
    """Return the calls per block, and nanoseconds per call.

    A single call takes longer than one of many, because the clock is read and the device synchronised for it
    alone. So blocks are tried, and grow until they are long enough.
    """
    block = _calls_needed(known)
    while (each := min(known, _fastest(call, block, synchronize))) * block < SHORTEST_BLOCK:
        if block == MOST_CALLS:
            break
        block = min(MOST_CALLS, max(2 * block, _calls_needed(each)))
    return block, each


def _calls_needed(each: float) -> int:
    """Return the calls of this duration that fill a block, with a little extra."""
    return min(MOST_CALLS, math.ceil(1.2 * SHORTEST_BLOCK / max(each, 1)) or 1)


def _fastest(call: Call, block: int, synchronize: Callable[[], None]) -> float:
    """Return the shortest of three blocks; of fewer if that would take seconds."""
    times: list[float] = []
    while len(times) < 3 and sum(times) * block < LONGEST_TRIAL:
        times.append(time_block(call, block, synchronize))
    return min(times)


def time_pairs(
    eager: Call,
    compiled: Call,
    rule: StopRule,
    synchronize: Callable[[], None],
    observer: BlockObserver | None = None,
    between: Callable[[], None] | None = None,
) -> Pairs:
    """Time two calls in turns, in random order within each pair, until the rule is satisfied; ``between`` is called between pairs."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        return _time_pairs(eager, compiled, rule, synchronize, observer, between)
    finally:
        if collecting:
            gc.enable()


def _time_pairs(
    eager: Call,
    compiled: Call,
    rule: StopRule,
    synchronize: Callable[[], None],
    observer: BlockObserver | None,
    between: Callable[[], None] | None,
) -> Pairs:
    """Time pairs; start over with longer blocks if they turn out too short. The budget keeps running."""
    order = random.Random(0)  # noqa: S311  (any order will do, as long as it is not always the same)
    synchronize()
    watch = StrainWatch()
    pairs = Pairs(choose_blocks(eager, compiled, synchronize), next_look=rule.least)
    start = time.monotonic()
    while not pairs.stopped:
        _time_pair(eager, compiled, pairs, order, synchronize, observer)
        _collect_between_pairs()
        if between:
            between()
        if pairs.restarts < MOST_RESTARTS and pairs.are_too_short():
            known = min(pairs.eager), min(pairs.compiled)
            blocks = choose_blocks(eager, compiled, synchronize, known)
            pairs = Pairs(blocks, next_look=rule.least, restarts=pairs.restarts + 1)
            if observer:
                observer.restart()
        else:
            pairs.stopped = _why_stop(pairs, rule, start)
    pairs.strain = watch.read()
    return pairs


def _time_pair(
    eager: Call,
    compiled: Call,
    pairs: Pairs,
    order: random.Random,
    synchronize: Callable[[], None],
    observer: BlockObserver | None,
) -> None:
    """Time one block of each side, in random order."""
    sides = [(eager, pairs.blocks[0], pairs.eager), (compiled, pairs.blocks[1], pairs.compiled)]
    for call, block, times in sides if order.random() < 0.5 else reversed(sides):
        if observer:
            observer.forget()
        times.append(time_block(call, block, synchronize))
        if observer and times is pairs.compiled:
            observer.end_block(times[-1] / 1e9)


def _collect_between_pairs() -> None:
    """Collect garbage as often as Python would, but never while timing."""
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
        # Checked at growing distances: every check is a chance to stop at an interval that is narrow by luck.
        pairs.next_look *= 2
        if pairs.ratio().half_width <= rule.precision:
            return "precision"
    return ""
