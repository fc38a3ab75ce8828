"""Limits of shares: known values, and that they hold as often as they say."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchstone.analyze.proportion import lower_limit, upper_limit


@pytest.mark.parametrize(
    ("times", "tries", "low", "high"),
    [
        (0, 100, 0.0, 0.029513),
        (1, 100, 0.000513, 0.046559),
        (95, 100, 0.897747, 0.980094),
        (100, 100, 0.970487, 1.0),
    ],
)
def test_known_values(times: int, tries: int, low: float, high: float) -> None:
    assert lower_limit(times, tries) == pytest.approx(low, abs=1e-6)
    assert upper_limit(times, tries) == pytest.approx(high, abs=1e-6)


@given(st.integers(1, 100).flatmap(lambda tries: st.tuples(st.integers(0, tries), st.just(tries))))
@settings(deadline=None)
def test_what_happened_lies_between(counts: tuple[int, int]) -> None:
    times, tries = counts
    assert 0 <= lower_limit(times, tries) <= times / tries <= upper_limit(times, tries) <= 1


def test_of_nothing_nothing_is_known() -> None:
    assert (lower_limit(0, 0), upper_limit(0, 0)) == (0.0, 1.0)


def test_the_limit_holds_as_often_as_it_says() -> None:
    chance = random.Random(5)  # noqa: S311
    held = 0
    for _ in range(400):
        times = sum(chance.random() < 0.07 for _ in range(80))
        held += upper_limit(times, 80) >= 0.07
    assert held >= 0.95 * 400 - 13  # three standard deviations
