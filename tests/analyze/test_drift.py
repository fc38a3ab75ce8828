"""Small moves that add up are found; noise and single steps are not taken for them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.analyze.drift import FEWEST, find_drift, goes_one_way, trend_p_value

MARGIN = 0.05


def noisy(count: int, chance: random.Random, slope: float = 0.0) -> list[float]:
    return [100 * (1 + chance.gauss(0, 0.01) + slope * at / (count - 1)) for at in range(count)]


@pytest.mark.parametrize("factor", [1.01, 0.99])
@pytest.mark.parametrize("count", [8, 12, 40])
def test_moves_of_one_percent_add_up(count: int, factor: float) -> None:
    drift = find_drift([100 * factor**at for at in range(count)], MARGIN)
    assert drift is not None
    assert drift.since == 0
    assert drift.change == pytest.approx(
        factor ** (count - 3) - 1
    )  # between the middles of three at either end


def test_four_values_are_enough_if_all_go_one_way() -> None:
    drift = find_drift([100, 102, 104, 106], MARGIN)
    assert drift is not None
    assert drift.change == pytest.approx(0.06)
    assert find_drift([100, 104, 102, 106], MARGIN) is None
    assert find_drift([100, 102, 106], MARGIN) is None


def test_moves_that_stay_within_the_margin_are_none() -> None:
    assert find_drift([100 + 0.3 * at for at in range(12)], MARGIN) is None


def test_moves_that_go_back_are_none() -> None:
    up = [100.0 + at for at in range(10)]
    assert find_drift([*up, *reversed(up)], MARGIN) is None


def test_a_step_beyond_the_margin_was_seen_when_it_came_and_is_no_drift() -> None:
    chance = random.Random(3)  # noqa: S311  (chance, not secrecy)
    for _ in range(200):
        before, after = noisy(10, chance), [1.3 * value for value in noisy(10, chance)]
        assert find_drift(before + after, MARGIN) is None


def test_drift_counts_from_the_last_large_step() -> None:
    series = [100.0] * 6 + [150 * 1.01**at for at in range(12)]
    drift = find_drift(series, MARGIN)
    assert drift is not None
    assert drift.since == 6
    assert drift.change == pytest.approx(1.01**9 - 1)


def test_one_value_that_is_far_off_hides_no_drift() -> None:
    series = [100 * 1.01**at for at in range(20)]
    series[9] = 140
    drift = find_drift(series, MARGIN)
    assert drift is not None
    assert drift.since == 0


def test_noise_is_hardly_ever_taken_for_drift_and_drift_hardly_ever_missed() -> None:
    chance = random.Random(11)  # noqa: S311  (chance, not secrecy)
    tries = 1000
    assert sum(find_drift(noisy(20, chance), 0.03) is not None for _ in range(tries)) <= tries / 100
    assert sum(find_drift(noisy(20, chance, 0.08), 0.04) is not None for _ in range(tries)) >= 0.95 * tries


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 8.3e-05),
        ([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], 8.3e-05),
        ([3, 3, 3, 3], 1.0),
        ([1, 2, 1, 2, 1, 2], 0.658),
    ],
)
def test_the_chance_of_a_trend_is_the_one_of_the_books(values: list[float], expected: float) -> None:
    assert trend_p_value(values) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("values", [[], [1.0], [0, 1, 2, 3, 4], [-1, 1, 2, 3, 4]])
def test_of_too_few_or_impossible_values_nothing_is_said(values: list[float]) -> None:
    assert find_drift(values, MARGIN) is None


@pytest.mark.parametrize("margin", [0.0, 1.0, -1.0])
def test_without_a_margin_nothing_is_said(margin: float) -> None:
    assert find_drift([1.0, 2, 3, 4, 5, 6, 7], margin) is None


@given(
    st.lists(st.floats(min_value=1e-9, max_value=1e9), max_size=30), st.floats(min_value=1e-4, max_value=0.9)
)
def test_what_is_found_goes_farther_than_the_margin(values: list[float], margin: float) -> None:
    drift = find_drift(values, margin)
    if drift is not None:
        assert drift.change > margin * (1 - 1e-9) or drift.change < 1 / (1 + margin) - 1 + 1e-9
        assert len(values) - drift.since >= FEWEST


def test_one_way_means_every_single_step() -> None:
    assert goes_one_way([3, 2, 1])
    assert not goes_one_way([3, 2, 2])
