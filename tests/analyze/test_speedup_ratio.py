"""The ratio of two series that were timed in turns: what must always hold, and how often its interval is right."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.analyze.speedup_ratio import BATCHES, FEWEST_PAIRS, Ratio, estimate_ratio, median

times = st.floats(min_value=1e-3, max_value=1e12, allow_nan=False)
pairs = st.lists(st.tuples(times, times), min_size=1, max_size=120)
many_pairs = st.lists(st.tuples(times, times), min_size=FEWEST_PAIRS, max_size=120)
Series = list[tuple[float, float]]


def ratio_of(series: Series) -> Ratio:
    return estimate_ratio([one for one, _ in series], [other for _, other in series])


def bounds_of(ratio: Ratio) -> tuple[float, float]:
    assert ratio.low is not None
    assert ratio.high is not None
    return ratio.low, ratio.high


# What must always hold


@given(many_pairs)
def test_interval_contains_the_value(series: Series) -> None:
    ratio = ratio_of(series)
    low, high = bounds_of(ratio)
    assert low <= ratio.value <= high


@given(pairs)
def test_value_is_in_the_middle_of_the_faster_half_of_the_pairs(series: Series) -> None:
    limit = median([math.log(one) + math.log(other) for one, other in series]) + 1e-9
    fast = [one / other for one, other in series if math.log(one) + math.log(other) <= limit]
    value = ratio_of(series).value
    assert 2 * len(fast) >= len(series)
    assert sum(one <= value * (1 + 1e-9) for one in fast) * 2 >= len(fast)
    assert sum(one >= value * (1 - 1e-9) for one in fast) * 2 >= len(fast)


@given(many_pairs, st.floats(min_value=1e-6, max_value=1e6), st.floats(min_value=1e-6, max_value=1e6))
def test_units_do_not_matter_and_a_factor_on_one_side_is_a_factor_of_the_ratio(
    series: Series, unit: float, factor: float
) -> None:
    before, after = ratio_of(series), ratio_of([(one * unit * factor, other * unit) for one, other in series])
    assert after.value == pytest.approx(before.value * factor, rel=1e-6)
    assert bounds_of(after) == pytest.approx([each * factor for each in bounds_of(before)], rel=1e-6)


@given(many_pairs)
def test_swapping_the_sides_inverts_the_ratio(series: Series) -> None:
    one, other = ratio_of(series), ratio_of([(right, left) for left, right in series])
    assert other.value == pytest.approx(1 / one.value, rel=1e-6)
    low, high = bounds_of(one)
    assert bounds_of(other) == pytest.approx((1 / high, 1 / low), rel=1e-6)


@given(
    st.lists(st.integers(-1000, 1000).map(lambda n: n / 1000), min_size=FEWEST_PAIRS, max_size=100),
    st.floats(min_value=1.0, max_value=5.0),
)
def test_more_noise_makes_a_wider_interval(noise: list[float], more: float) -> None:
    calm = ratio_of([(math.exp(each), 1.0) for each in noise])
    loud = ratio_of([(math.exp(more * each), 1.0) for each in noise])
    assert loud.half_width >= calm.half_width * (1 - 1e-9)
    assert math.log1p(loud.half_width) == pytest.approx(
        more * math.log1p(calm.half_width), rel=1e-6, abs=1e-9
    )


@given(
    st.lists(st.floats(min_value=-0.01, max_value=0.01), min_size=FEWEST_PAIRS, max_size=100),
    st.floats(min_value=1.1, max_value=100.0),
    st.floats(min_value=0.5, max_value=2.0),
)
def test_disturbed_pairs_do_not_move_the_value_but_widen_the_interval_if_their_ratio_is_another(
    noise: list[float], slower: float, other_ratio: float
) -> None:
    calm = [(1.3 * math.exp(each), math.exp(-each)) for each in noise]
    disturbed = [(one * slower * other_ratio, other * slower) for one, other in calm]
    both = [pair for pairs in zip(calm, disturbed, strict=True) for pair in pairs]
    ratio = ratio_of(both)
    if slower * slower * other_ratio > 1.1:  # else the disturbed ones would be the faster
        assert ratio.value == pytest.approx(ratio_of(calm).value, rel=0.05)
        distance = abs(median([math.log(one / other) for one, other in both]) - math.log(ratio.value))
        assert math.log1p(ratio.half_width) >= distance - 1e-9


def test_few_wild_pairs_do_not_move_the_ratio() -> None:
    series = [(2.0 + 0.01 * (number % 7), 1.0) for number in range(100)]
    wild = [*series[:10], *[(1e6, 1.0)] * 5, *series[15:]]
    assert ratio_of(wild).value == pytest.approx(ratio_of(series).value, rel=0.01)


def test_equal_pairs_have_an_interval_of_no_width() -> None:
    ratio = ratio_of([(1.3, 1.0)] * 40)
    assert ratio == pytest.approx((1.3, 1.3, 1.3))
    assert ratio.half_width == pytest.approx(0, abs=1e-12)


def test_interval_by_hand() -> None:
    # Forty pairs, every second one ten times slower and with another ratio: the faster half are twenty, ten batches of two. The logs of the batches
    # are 0 and 0.1 in turns: mean 0.05, variance 10 * 0.05**2 / 9 = 0.0027778, half more for batches of two; 2.262 standard errors are
    # 2.262 * sqrt(0.0041667 / 10) = 0.04617. The median of all pairs is (0.1 + 0.3) / 2 = 0.2, which is 0.15 away; both together are
    # sqrt(0.04617**2 + 0.15**2) = 0.15695.
    logs = [0.1 * (number // 2 % 2) for number in range(20)]
    series = [pair for log in logs for pair in ((math.exp(log), 1.0), (10 * math.exp(0.3), 10.0))]
    ratio = ratio_of(series)
    assert ratio.value == pytest.approx(math.exp(0.05))
    assert bounds_of(ratio) == pytest.approx((math.exp(0.05 - 0.15695), math.exp(0.05 + 0.15695)), rel=1e-4)
    assert ratio.half_width == pytest.approx(math.exp(0.15695) - 1, rel=1e-3)


# Thin and bad data


@pytest.mark.parametrize("count", [1, 2, FEWEST_PAIRS - 1])
def test_too_few_pairs_have_a_value_and_no_interval(count: int) -> None:
    ratio = ratio_of([(2.0, 1.0)] * count)
    assert (ratio.value, ratio.low, ratio.high, ratio.half_width) == (2.0, None, None, math.inf)


def test_no_pairs_have_no_value() -> None:
    ratio = estimate_ratio([], [])
    assert math.isnan(ratio.value)
    assert (ratio.low, ratio.high) == (None, None)
    assert math.isnan(median([]))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_time_that_is_no_time_is_left_out(bad: float, side: int) -> None:
    broken = (bad, 1.0) if side == 0 else (1.0, bad)
    ratio = ratio_of([(2.0, 1.0)] * 30 + [broken] * 5)
    assert ratio == ratio_of([(2.0, 1.0)] * 30)
    assert math.isnan(ratio_of([broken] * 30).value)
    assert ratio_of([(2.0, 1.0)] * (FEWEST_PAIRS - 1) + [broken] * 50).low is None


any_number = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.tuples(any_number, any_number), max_size=60))
def test_nothing_that_a_clock_can_say_raises(series: Series) -> None:
    ratio = ratio_of(series)
    assert math.isnan(ratio.value) or ratio.value >= 0
    assert ratio.half_width >= 0


def test_series_of_different_lengths_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="shorter"):
        estimate_ratio([1.0, 2.0], [1.0])


def test_every_pair_is_in_one_batch() -> None:
    for count in range(FEWEST_PAIRS, 100):
        edges = [round(count * batch / BATCHES) for batch in range(BATCHES + 1)]
        sizes = [end - start for start, end in pairwise(edges)]
        assert sum(sizes) == count
        assert max(sizes) - min(sizes) <= 1


# How often the interval is right

TRUE = 1.3


def drifting(count: int, seed: int, memory: float = 0.98, spikes: float = 0.0) -> Series:
    """A machine whose speed wanders (an autoregressive series, common to both sides), with noise of either side's own, and interruptions."""
    numbers = random.Random(seed)  # noqa: S311
    slow = 0.0

    def own() -> float:
        hit = numbers.random() if numbers.random() < spikes else 0.0
        return math.exp(slow + numbers.gauss(0, 0.02) + hit)

    series = []
    for _ in range(count):
        slow = memory * slow + numbers.gauss(0, 0.03)
        series.append((TRUE * own(), own()))
    return series


def coverage(make: Callable[[int], Series], simulated: int = 400) -> float:
    found = (bounds_of(ratio_of(make(seed))) for seed in range(simulated))
    return sum(low <= TRUE <= high for low, high in found) / simulated


@pytest.mark.parametrize("count", [20, 30, 60, 240])
@pytest.mark.parametrize("spikes", [0.0, 0.03])
def test_interval_covers_the_truth_on_a_machine_that_drifts(count: int, spikes: float) -> None:
    assert coverage(lambda seed: drifting(count, seed, spikes=spikes)) >= 0.92


def test_interval_covers_the_truth_on_a_machine_that_wanders_off() -> None:
    assert coverage(lambda seed: drifting(60, seed, memory=1.0)) >= 0.92


def test_interval_covers_the_truth_where_one_side_has_short_spells_of_its_own() -> None:
    def with_spells(seed: int) -> Series:
        numbers, spell = random.Random(seed), 0.0  # noqa: S311
        series = []
        for one, other in drifting(60, seed):
            spell = 0.5 * spell + numbers.gauss(0, 0.01)
            series.append((one * math.exp(spell), other))
        return series

    assert coverage(with_spells) >= 0.92


def test_ratio_of_medians_is_far_more_scattered_on_a_machine_that_drifts() -> None:
    paired, unpaired = [], []
    for seed in range(200):
        series = drifting(60, seed)
        paired.append(math.log(ratio_of(series).value / TRUE))
        one, other = ([pair[side] for pair in series] for side in (0, 1))
        # As two blocks, one after the other: what a runner without turns would measure.
        unpaired.append(math.log(median(one[:30]) / median(other[30:]) / TRUE))

    def spread(values: list[float]) -> float:
        return math.sqrt(sum(each**2 for each in values) / len(values))

    assert spread(unpaired) > 5 * spread(paired)


def test_precision_grows_with_the_square_root_of_the_pairs() -> None:
    def width(count: int) -> float:
        return median([ratio_of(drifting(count, seed)).half_width for seed in range(100)])

    assert width(60) / width(960) == pytest.approx(4, rel=0.2)
