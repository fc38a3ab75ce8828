"""Timing in turns: order, blocks, samples, and when it is enough; with a clock that tests wind themselves."""

from __future__ import annotations

import copy
import gc
import math
import random
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from torchstone.analyze.speedup_ratio import FEWEST_PAIRS
from torchstone.worker.machine import strain as strain_of
from torchstone.worker.machine.strain import DISTURBED, LEAST_WAIT, Strain, StrainWatch
from torchstone.worker.probes import timing
from torchstone.worker.probes.timing import (
    FEWEST_SLOW,
    LONGEST_BLOCK,
    MOST_CALLS,
    MOST_PAIRS,
    MOST_RESTARTS,
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
    monkeypatch.setattr(strain_of, "time", made)
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


# Blocks that turn out to be too short


def held_up(clock: Clock, nanoseconds: float, until: int) -> Callable[[], float]:
    """A short call that takes 8 ms each time, as on a machine with too much to do, up to some time on the clock."""
    return lambda: nanoseconds if clock.now >= until else in_milliseconds(8)


def test_call_that_was_held_up_whenever_its_block_was_tried_gets_a_longer_one_later(clock: Clock) -> None:
    late = round(0.1 * SECOND)
    eager, compiled = held_up(clock, 20_000, late), held_up(clock, 10_000, late)
    pairs = pairs_of(clock, eager, compiled, StopRule(repeat=50))
    assert pairs.restarts == 1
    assert pairs.blocks[0] == pairs.blocks[1]
    assert min(pairs.compiled) * pairs.blocks[1] >= SHORTEST_BLOCK
    assert (len(pairs.eager), len(pairs.compiled)) == (50, 50)
    assert set(pairs.eager) == {20_000}  # nothing of what was timed in shorter blocks is among them
    assert pairs.ratio().value == pytest.approx(2.0)


def test_what_is_known_of_a_call_counts_even_if_it_is_held_up_again(clock: Clock) -> None:
    block, each = choose_block(clock.work("it", steady(in_milliseconds(8))), clock.wait, known=20_000)
    assert each == 20_000
    assert SHORTEST_BLOCK <= block * 20_000 <= 2.5 * SHORTEST_BLOCK


def test_side_that_alone_is_too_short_is_enough_to_start_over(clock: Clock) -> None:
    late = held_up(clock, 10_000, round(0.1 * SECOND))
    pairs = pairs_of(clock, steady(in_milliseconds(1)), late, StopRule(repeat=20))
    assert pairs.restarts == 1
    assert pairs.blocks[1] * 10_000 >= SHORTEST_BLOCK
    assert pairs.blocks[0] * in_milliseconds(1) <= LONGEST_BLOCK


def test_budget_goes_on_counting_when_pairs_are_started_over(clock: Clock) -> None:
    late = held_up(clock, 100_000, 2 * SECOND)
    pairs = pairs_of(clock, late, late, StopRule(precision=-1.0, budget=3.0))
    assert (pairs.restarts, pairs.stopped) == (1, "budget")
    assert clock.now < 3.2 * SECOND


def test_call_that_gets_faster_without_end_is_started_over_a_few_times_only(clock: Clock) -> None:
    def ever_faster() -> float:
        return in_milliseconds(1) / math.pow(10, clock.now // round(0.05 * SECOND))

    pairs = pairs_of(clock, ever_faster, ever_faster, StopRule(repeat=200))
    assert pairs.restarts == MOST_RESTARTS
    assert len(pairs.eager) == 200


def test_blocks_that_are_a_little_short_are_not_chosen_anew(clock: Clock) -> None:
    """A machine may become faster by a third at any time."""

    def faster_later() -> float:
        return 20_000 if clock.now < 0.1 * SECOND else 14_000

    pairs = pairs_of(clock, faster_later, steady(20_000), StopRule(repeat=300))
    assert pairs.restarts == 0
    assert {round(each) for each in pairs.eager} >= {20_000, 14_000}


def test_clock_that_stands_still_does_not_start_over_for_ever(clock: Clock) -> None:
    pairs = timing.Pairs((MOST_CALLS, MOST_CALLS), [0.0], [0.0])
    assert not pairs.are_too_short()


# Whether other work got in the way


@pytest.mark.parametrize(
    ("strain", "disturbed"),
    [
        (Strain(), False),
        (Strain(2.0, 96, 0.02), False),  # a quiet machine
        (Strain(2.0, 122, 0.1), False),  # as quiet, two threads
        (Strain(2.0, 268, 0.68), True),  # beside others
        (
            Strain(2.0, 144, 1.6),
            True,
        ),  # beside a loop on each of two processors: few interruptions, long waits
        (Strain(0.01, 2, 0.008), False),  # too little to tell
        (Strain(10.0, 0, DISTURBED * 10), True),
        (Strain(LEAST_WAIT, 1, LEAST_WAIT), True),
    ],
)
def test_machine_is_busy_if_it_kept_a_thread_waiting(strain: Strain, disturbed: bool) -> None:
    assert strain.is_disturbed is disturbed


def test_strain_is_told_as_a_rate_and_a_share() -> None:
    strain = Strain(2.0, 280, 0.5)
    assert (strain.rate, strain.share) == (140.0, 0.25)
    assert Strain(1.0, 1, 1.5).share == 1.0


def test_pairs_know_how_much_other_work_got_in_the_way() -> None:
    pairs = time_pairs(lambda: time.sleep(0.006), lambda: time.sleep(0.006), StopRule(repeat=5), lambda: None)
    assert 0.06 < pairs.strain.seconds < 60
    assert pairs.strain.waited >= 0


class Usage:
    """What the kernel says of a process: processor time, and how often it lost or gave up the processor."""

    RUSAGE_SELF = 0

    def __init__(self) -> None:
        self.ru_utime = self.ru_stime = 0.0
        self.ru_nivcsw = self.ru_nvcsw = 0

    def getrusage(self, _: int) -> Usage:
        return copy.copy(self)


@pytest.fixture
def usage(monkeypatch: pytest.MonkeyPatch) -> Usage:
    made = Usage()
    monkeypatch.setattr(strain_of, "resource", made)
    return made


def test_thread_that_waited_most_counts(
    clock: Clock, usage: Usage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strain_of, "TASKS", str(tmp_path))
    for thread, waited in (("1", 5.0), ("2", 1.0)):
        (tmp_path / thread).mkdir()
        (tmp_path / thread / "schedstat").write_text(f"99 {round(waited * SECOND)} 7\n")
    (tmp_path / "3").mkdir()  # has ended meanwhile
    watch = StrainWatch()
    (tmp_path / "1" / "schedstat").write_text(f"99 {round(5.5 * SECOND)} 7\n")
    (tmp_path / "2" / "schedstat").write_text(f"99 {round(2.5 * SECOND)} 7\n")
    clock.now += 4 * SECOND
    usage.ru_nivcsw += 400
    assert watch.read() == Strain(4.0, 400, 1.5)


@pytest.mark.parametrize(
    ("lost", "given_up", "waited"),
    [(400, 2, 3.0), (2, 400, 0.0)],
)
def test_without_the_kernel_s_word_processor_time_counts_unless_the_process_slept(
    clock: Clock,
    usage: Usage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lost: int,
    given_up: int,
    waited: float,
) -> None:
    monkeypatch.setattr(strain_of, "TASKS", str(tmp_path / "nowhere"))
    watch = StrainWatch()
    clock.now += 4 * SECOND
    usage.ru_utime, usage.ru_stime, usage.ru_nivcsw, usage.ru_nvcsw = 0.75, 0.25, lost, given_up
    assert watch.read() == Strain(4.0, lost, waited)


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
