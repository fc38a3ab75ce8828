"""Timing in turns: order, blocks, samples, and when it is enough; with a clock that tests wind themselves."""

from __future__ import annotations

import gc
import random
import time
import weakref
from collections.abc import Callable

import pytest

from torchstone.analyze.ratio import FEWEST_PAIRS
from torchstone.probes import timing
from torchstone.probes.timing import (
    FEWEST_SLOW,
    LONGEST_BLOCK,
    MOST_CALLS,
    MOST_PAIRS,
    PATIENCE,
    SHORTEST_BLOCK,
    StopRule,
    choose_block,
    choose_blocks,
    time_block,
    time_pairs,
)

SECOND = 1_000_000_000


class Clock:
    """Stands still unless somebody is at work; reading it takes time too."""

    def __init__(self, reading: int = 0) -> None:
        self.now, self.reading = 0, reading
        self.calls: list[str] = []

    def perf_counter_ns(self) -> int:
        self.now += self.reading
        return self.now

    def monotonic(self) -> float:
        return self.now / SECOND

    def work(self, name: str, nanoseconds: Callable[[], float]) -> Callable[[], None]:
        def call() -> None:
            self.calls.append(name)
            self.now += round(nanoseconds())

        return call

    def wait(self) -> None:
        self.calls.append("wait")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timing, "time", made)
    return made


def steady(nanoseconds: float) -> Callable[[], float]:
    return lambda: nanoseconds


def noisy(nanoseconds: float, share: float, seed: int = 0) -> Callable[[], float]:
    numbers = random.Random(seed)  # noqa: S311
    return lambda: nanoseconds * (1 + share * numbers.random())


def pairs_of(
    clock: Clock, eager: Callable[[], float], compiled: Callable[[], float], rule: StopRule
) -> timing.Pairs:
    return time_pairs(clock.work("eager", eager), clock.work("compiled", compiled), rule, clock.wait)


def in_milliseconds(value: float) -> float:
    return value * SECOND / 1000


# Samples and their order


def test_every_sample_is_kept_in_its_order(clock: Clock) -> None:
    eager, compiled = iter(range(1, 100)), iter(range(101, 200))
    pairs = pairs_of(
        clock,
        lambda: in_milliseconds(next(eager)),
        lambda: in_milliseconds(next(compiled)),
        StopRule(repeat=7),
    )
    tried = 3  # while the block was chosen
    assert len(pairs.eager) == len(pairs.compiled) == 7
    assert [round(each / 1e6) for each in pairs.eager][-1] == next(eager) - 1
    assert [round(each / 1e6) for each in pairs.eager] == list(
        range(round(pairs.eager[0] / 1e6), round(pairs.eager[0] / 1e6) + 7)
    )
    assert round(pairs.eager[0] / 1e6) <= 1 + tried


def test_order_within_a_pair_is_random_and_every_pair_has_both(clock: Clock) -> None:
    pairs_of(clock, steady(in_milliseconds(6)), steady(in_milliseconds(6)), StopRule(repeat=200))
    timed = [name for name in clock.calls if name != "wait"][-400:]
    turns = list(zip(timed[::2], timed[1::2], strict=True))
    assert set(turns) == {("eager", "compiled"), ("compiled", "eager")}
    assert 70 < turns.count(("eager", "compiled")) < 130
    alternating = [turns[index] != turns[index + 1] for index in range(199)]
    assert 70 < sum(alternating) < 130


def test_device_is_waited_for_at_the_end_of_every_block(clock: Clock) -> None:
    pairs_of(clock, steady(in_milliseconds(6)), steady(in_milliseconds(6)), StopRule(repeat=5))
    after = [clock.calls[index + 1] for index, name in enumerate(clock.calls[:-1]) if name != "wait"]
    assert set(after) == {"wait"}


def test_drift_that_both_sides_share_is_not_in_the_ratio(clock: Clock) -> None:
    slower, jitter = 1.0, noisy(1.0, 0.01)

    def drifting(nanoseconds: float) -> Callable[[], float]:
        def call() -> float:
            nonlocal slower
            slower *= 1.002
            return nanoseconds * slower * jitter()

        return call

    pairs = pairs_of(clock, drifting(in_milliseconds(9)), drifting(in_milliseconds(6)), StopRule(repeat=200))
    assert pairs.eager[-1] > 1.5 * pairs.eager[0]
    ratio = pairs.ratio()
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.value == pytest.approx(1.5, rel=0.003)
    assert ratio.low <= 1.5 <= ratio.high


# Blocks


def test_block_is_the_mean_of_its_calls(clock: Clock) -> None:
    times = iter([10.0, 20.0, 60.0])
    assert time_block(clock.work("it", lambda: next(times)), 3, clock.wait) == 30.0
    assert clock.calls == ["it", "it", "it", "wait"]


@pytest.mark.parametrize("nanoseconds", [40, 1_000, 170_000, 499_999])
def test_block_is_just_long_enough(clock: Clock, nanoseconds: float) -> None:
    block, each = choose_block(clock.work("it", steady(nanoseconds)), clock.wait)
    assert each == nanoseconds
    assert SHORTEST_BLOCK <= block * nanoseconds <= 2.5 * SHORTEST_BLOCK


@pytest.mark.parametrize(("eager", "compiled"), [(1_000, 2_000), (2_000, 1_000), (40_000, 39_000)])
def test_both_sides_have_the_block_that_the_faster_one_needs(
    clock: Clock, eager: float, compiled: float
) -> None:
    blocks = choose_blocks(clock.work("a", steady(eager)), clock.work("b", steady(compiled)), clock.wait)
    assert blocks[0] == blocks[1]
    assert blocks[0] * min(eager, compiled) >= SHORTEST_BLOCK


@pytest.mark.parametrize("slow", [100_000, 5_000_000, SECOND])
def test_side_that_is_slower_by_far_does_not_take_forever(clock: Clock, slow: float) -> None:
    fast, other = choose_blocks(clock.work("a", steady(1_000)), clock.work("b", steady(slow)), clock.wait)
    assert fast * 1_000 >= SHORTEST_BLOCK
    assert other == max(1, LONGEST_BLOCK // slow)
    assert clock.now < 5 * SECOND


def test_long_call_is_timed_alone_and_tried_once(clock: Clock) -> None:
    pairs = pairs_of(clock, steady(2 * SECOND), steady(3 * SECOND), StopRule(repeat=2))
    assert pairs.blocks == (1, 1)
    assert clock.calls.count("eager") == clock.calls.count("compiled") == 3


def test_interruption_does_not_make_a_short_call_look_long(clock: Clock) -> None:
    times = iter([20_000_000.0] + [1_000.0] * 10_000)
    block, each = choose_block(clock.work("it", lambda: next(times)), clock.wait)
    assert each == 1_000
    assert block * 1_000 >= SHORTEST_BLOCK


def test_time_to_read_the_clock_does_not_make_the_block_too_short(clock: Clock) -> None:
    clock.reading = 300
    block, _ = choose_block(clock.work("it", steady(40)), clock.wait)
    assert block * 40 >= 0.95 * SHORTEST_BLOCK


def test_call_that_takes_longer_alone_than_among_others_gets_a_long_enough_block(clock: Clock) -> None:
    """As on a device: calls of two microseconds overlap, but waiting for a single one takes fifty."""

    def wait() -> None:
        clock.now += 50_000

    block, _ = choose_block(clock.work("it", steady(2_000)), wait)
    assert block * 2_000 >= 0.85 * SHORTEST_BLOCK


def test_clock_that_stands_still_ends_in_a_block_all_the_same(clock: Clock) -> None:
    assert choose_block(lambda: None, clock.wait) == (MOST_CALLS, 0)


def test_real_block_of_nothing_is_long_enough() -> None:
    block, _ = choose_block(lambda: None, lambda: None)
    times = sorted(time_block(lambda: None, block, lambda: None) * block for _ in range(21))
    assert times[10] >= 0.3 * SHORTEST_BLOCK  # on a machine that has since become three times faster


def test_harness_takes_less_than_two_microseconds_a_call() -> None:
    block = 5_000
    best = min(time_block(lambda: None, block, lambda: None) for _ in range(20))
    assert best < 2_000


# When it is enough


def test_repeat_is_the_number_of_pairs_whatever_they_take(clock: Clock) -> None:
    pairs = pairs_of(clock, steady(30 * SECOND), steady(20 * SECOND), StopRule(repeat=4, budget=1.0))
    assert (len(pairs.eager), pairs.stopped) == (4, "repeat")


def test_narrow_interval_is_enough(clock: Clock) -> None:
    rule = StopRule(precision=0.01, budget=60.0)
    pairs = pairs_of(clock, noisy(in_milliseconds(6), 0.02, 1), noisy(in_milliseconds(3), 0.02, 2), rule)
    assert (len(pairs.eager), pairs.stopped) == (rule.least, "precision")
    assert pairs.ratio().half_width <= 0.01


def test_noisier_calls_are_timed_longer_and_looked_at_more_and_more_rarely(clock: Clock) -> None:
    rule = StopRule(precision=0.01, budget=600.0)
    pairs = pairs_of(clock, noisy(in_milliseconds(6), 0.5, 1), noisy(in_milliseconds(3), 0.5, 2), rule)
    assert pairs.stopped == "precision"
    assert len(pairs.eager) in {rule.least * 2**looks for looks in range(1, 8)}


def test_budget_ends_what_never_gets_narrow(clock: Clock) -> None:
    rule = StopRule(precision=0.0001, budget=3.0)
    pairs = pairs_of(clock, noisy(in_milliseconds(6), 0.5, 1), noisy(in_milliseconds(6), 0.5, 2), rule)
    assert pairs.stopped == "budget"
    spent = sum(pairs.eager) + sum(pairs.compiled)
    assert 3 * SECOND <= spent < 3.1 * SECOND


def test_slow_calls_get_more_than_the_budget_to_reach_an_interval(clock: Clock) -> None:
    pairs = pairs_of(clock, steady(0.3 * SECOND), steady(0.3 * SECOND), StopRule(budget=5.0))
    assert (len(pairs.eager), pairs.stopped) == (FEWEST_PAIRS, "budget")  # 12 seconds
    assert pairs.ratio().low is not None


def test_very_slow_calls_get_some_times_the_budget_and_no_interval(clock: Clock) -> None:
    pairs = pairs_of(clock, steady(1.5 * SECOND), steady(1.5 * SECOND), StopRule(budget=5.0))
    assert (len(pairs.eager), pairs.stopped) == (7, "budget")
    assert 7 * 3 >= PATIENCE * 5 > 6 * 3
    assert pairs.ratio().low is None


def test_slowest_calls_are_timed_a_few_times(clock: Clock) -> None:
    pairs = pairs_of(clock, steady(100 * SECOND), steady(100 * SECOND), StopRule(budget=5.0))
    assert (len(pairs.eager), pairs.stopped) == (FEWEST_SLOW, "budget")


def test_there_is_an_end_even_to_a_budget_without_one(clock: Clock) -> None:
    numbers = random.Random(0)  # noqa: S311

    def wild() -> float:
        return in_milliseconds(6) * 10 ** (6 * numbers.random())

    pairs = pairs_of(clock, wild, wild, StopRule(precision=0.0, budget=1e30))
    assert (len(pairs.eager), pairs.stopped) == (MOST_PAIRS, "most")


# The garbage collector


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_garbage_collector_is_off_while_timing_and_as_before_afterwards(enabled: bool, fails: bool) -> None:
    seen: set[bool] = set()

    def call() -> None:
        seen.add(gc.isenabled())
        time.sleep(0.006)
        if fails and len(seen) == 1:
            raise ValueError("enough")

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        if fails:
            with pytest.raises(ValueError, match="enough"):
                time_pairs(call, call, StopRule(repeat=1), lambda: None)
        else:
            time_pairs(call, call, StopRule(repeat=1), lambda: None)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == {False}


class Cycle:
    """Holds itself, so that only the garbage collector can free it."""

    def __init__(self) -> None:
        self.own = self
        self.weight = bytearray(1000)


def test_what_calls_leave_in_cycles_is_freed_between_pairs() -> None:
    left: list[weakref.ref[Cycle]] = []

    def call() -> None:
        left.extend(weakref.ref(Cycle()) for _ in range(500))
        time.sleep(0.006)

    time_pairs(call, call, StopRule(repeat=10), lambda: None)
    alive = sum(each() is not None for each in left)
    assert alive < 5_000 < len(left)
