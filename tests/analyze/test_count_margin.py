"""Spreads, and margins that the next value keeps."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.analyze.count_margin import (
    CONFIDENCE,
    FEWEST,
    STUDENT_T,
    find_margin,
    predict,
    round_up,
    spread,
)

counts = st.lists(st.integers(min_value=1, max_value=10**15), min_size=FEWEST, max_size=30)


def share_within(t: float, freedom: int) -> float:
    """How much of Student's distribution lies within t of 0, by Simpson's rule on its density."""
    scale: float = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(
        freedom * math.pi
    )
    steps = 20_000
    width = t / steps
    density: list[float] = [
        scale * (1 + (step * width) ** 2 / freedom) ** (-(freedom + 1) / 2) for step in range(steps + 1)
    ]
    return 2 * width / 3 * (density[0] + 4 * sum(density[1:-1:2]) + 2 * sum(density[2:-1:2]) + density[-1])


@pytest.mark.parametrize(("freedom", "t"), STUDENT_T.items())
def test_the_quantiles_are_those_of_students_distribution(freedom: int, t: float) -> None:
    assert share_within(t, freedom) == pytest.approx(CONFIDENCE, abs=2e-6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([100, 103, 101], 0.03), ([5], 0.0), ([], 0.0), ([0, 3], 0.0), ([1.5, 1.5], 0.0)],
)
def test_the_spread_is_the_range_over_the_smallest(values: list[float], expected: float) -> None:
    assert spread(values) == pytest.approx(expected)


def test_the_interval_is_the_one_of_the_books() -> None:
    low, high = predict([math.exp(value) for value in (1.0, 2.0, 3.0)])
    reach = 31.599 * math.sqrt(1 + 1 / 3)
    assert math.log(low) == pytest.approx(2 - reach)
    assert math.log(high) == pytest.approx(2 + reach)


@pytest.mark.parametrize("values", [[], [1], [1, 2], [0, 1, 2], [-1, 1, 2]])
def test_of_too_few_or_impossible_values_nothing_is_said(values: list[float]) -> None:
    assert predict(values) == (0.0, math.inf)
    assert find_margin(values, around=1, least=0.001) == math.inf


@given(counts)
def test_no_value_that_was_seen_lies_outside(values: list[int]) -> None:
    low, high = predict(values)
    assert low <= min(values)
    assert high >= max(values)


@given(counts, st.sampled_from([0.001, 0.05]))
def test_a_margin_is_never_less_than_the_least_and_covers_what_was_seen(
    values: list[int], least: float
) -> None:
    around = median(values)
    margin = find_margin(values, around, least)
    assert margin >= least
    assert all(abs(value - around) <= margin * around * (1 + 1e-9) for value in values)


def test_a_margin_around_another_value_reaches_as_far() -> None:
    values = [1000, 1001, 1002, 1001, 1000, 1001]
    assert find_margin(values, 1001, 0.001) < find_margin(values, 990, 0.001)
    assert find_margin(values, 990, 0.001) >= 0.012


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_rounding_up_never_takes_anything_away_and_keeps_two_digits(share: float) -> None:
    rounded = round_up(share)
    assert share * (1 - 1e-11) <= rounded <= share * 1.1 + 1e-12
    assert float(f"{rounded:.2g}") == rounded


@pytest.mark.parametrize("size", [3, 4, 6, 11])
def test_the_next_value_is_outside_about_once_in_a_thousand(size: int) -> None:
    rng = random.Random(size)  # noqa: S311  (the same values every time)
    trials, outside = 8_000, 0
    for _ in range(trials):
        *seen, following = (1e9 * math.exp(rng.gauss(0, 0.001)) for _ in range(size + 1))
        low, high = predict(seen)
        outside += not low <= following <= high
    assert 1 <= outside <= 20  # 8 are expected


def test_more_repeats_make_narrower_margins() -> None:
    margins = [find_margin([1000, 1001] * half, 1000.5, 1e-9) for half in (2, 3, 5, 10, 40)]
    assert margins == sorted(margins, reverse=True)
    assert margins[0] > 3 * margins[-1]
