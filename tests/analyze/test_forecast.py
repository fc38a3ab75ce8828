"""Margins learned from past values leave out about as many values as they promise, whatever the noise is like."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import NormalDist, fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.analyze.forecast import FEWEST, find_levels, forecast, forecast_around
from torchstone.analyze.student_t import t_quantile

TRIES = 1500
Draw = Callable[[random.Random], float]

values = st.lists(st.floats(min_value=1e-6, max_value=1e12), min_size=FEWEST, max_size=40)


def normal(chance: random.Random) -> float:
    return chance.gauss(0, 1)


def heavy_tailed(chance: random.Random) -> float:
    """Student's distribution with three degrees of freedom: now and then a value that is ten times as far off as usual."""
    return chance.gauss(0, 1) / math.sqrt(fmean(chance.gauss(0, 1) ** 2 for _ in range(3)))


def in_two_modes(chance: random.Random) -> float:
    return chance.gauss(0, 0.3) + (2 if chance.random() < 0.2 else 0)


def rate_of_false_alarms(draw: Draw, count: int, rate: float, shift: float = 0.0) -> float:
    """How often the next value lies outside of what is predicted from so many, after a shift in the middle of the past."""
    chance = random.Random(f"{draw.__name__} {count} {rate} {shift}")  # noqa: S311  (chance, not secrecy)
    outside = 0
    for _ in range(TRIES):
        past = [100 * math.exp(0.01 * (draw(chance) + shift * (at >= count // 2))) for at in range(count)]
        following = 100 * math.exp(0.01 * (draw(chance) + shift))
        known = forecast(past, rate)
        outside += not known.low <= following <= known.high
    return outside / TRIES


def most_by_chance(rate: float) -> float:
    """What a share of so many tries may be, in all but one of ten thousand such tests."""
    return rate + NormalDist().inv_cdf(0.9999) * math.sqrt(rate * (1 - rate) / TRIES)


def least_by_chance(rate: float) -> float:
    return rate - NormalDist().inv_cdf(0.9999) * math.sqrt(rate * (1 - rate) / TRIES)


@pytest.mark.parametrize("rate", [0.01, 0.05])
@pytest.mark.parametrize("shift", [0.0, 8.0])
@pytest.mark.parametrize("count", [10, 20, 120])
def test_of_normal_noise_as_many_false_alarms_come_as_were_chosen(
    count: int, shift: float, rate: float
) -> None:
    found = rate_of_false_alarms(normal, count, rate, shift)
    assert least_by_chance(rate) <= found <= most_by_chance(rate)


@pytest.mark.parametrize("draw", [heavy_tailed, in_two_modes])
@pytest.mark.parametrize("shift", [0.0, 8.0])
def test_from_many_values_the_rate_holds_for_any_noise(draw: Draw, shift: float) -> None:
    found = rate_of_false_alarms(draw, 120, 0.01, shift)
    assert least_by_chance(0.01) <= found <= most_by_chance(0.01)


@pytest.mark.parametrize("count", [10, 20, 40])
def test_from_few_heavy_tailed_values_the_rate_is_of_the_right_size(count: int) -> None:
    assert rate_of_false_alarms(heavy_tailed, count, 0.01) <= most_by_chance(0.03)
    assert rate_of_false_alarms(heavy_tailed, count, 0.05) <= most_by_chance(0.07)


def test_from_few_values_the_interval_is_the_one_of_the_books() -> None:
    logs = [1.0, 1.2, 0.9, 1.1, 0.8]
    known = forecast([math.exp(log) for log in logs], 0.01)
    deviation = math.sqrt(sum((log - 1) ** 2 for log in logs) / 4)
    reach = t_quantile(0.01, 4) * deviation * math.sqrt(1 + 1 / 5)
    assert math.log(known.low) == pytest.approx(1 - reach)
    assert math.log(known.high) == pytest.approx(1 + reach)
    assert not known.from_ranks


def test_from_99_values_on_the_limit_for_1_percent_is_a_value_that_was_seen() -> None:
    chance = random.Random(5)  # noqa: S311  (chance, not secrecy)
    past = [math.exp(0.01 * chance.gauss(0, 1)) for _ in range(99)]
    assert not forecast(past[:98], 0.01).from_ranks
    known = forecast(past, 0.01)
    assert known.from_ranks
    farthest = max(abs(math.log(value) - median(map(math.log, past))) for value in past)
    assert math.log(known.high / known.low) / 2 == pytest.approx(farthest, rel=0.05)


def test_a_level_shift_does_not_widen_the_margin() -> None:
    chance = random.Random(1)  # noqa: S311  (chance, not secrecy)
    steady = [100 * math.exp(0.01 * chance.gauss(0, 1)) for _ in range(20)]
    shifted = [value * (1.5 if at >= 10 else 1) for at, value in enumerate(steady)]
    before, after = forecast(steady, 0.01), forecast(shifted, 0.01)
    assert (before.shifts, after.shifts) == (0, 1)
    assert after.high / after.low < 1.2 * before.high / before.low
    assert after.level == tuple(shifted[10:])
    assert after.middle == pytest.approx(150, rel=0.01)


def test_of_too_few_values_to_tell_a_shift_counts_as_spread() -> None:
    known = forecast([100, 100.1, 100, 99.9, 150, 150.1, 150, 149.9], 0.01)
    assert known.shifts == 0
    assert known.high > 200


def test_one_value_that_is_far_off_is_noise_and_no_shift() -> None:
    values = [100.0, 100.2, 99.9, 100.1, 99.8, 130.0, 100.0, 100.1, 99.9, 100.2]
    assert find_levels(values) == [values]
    assert forecast(values, 0.01).high > 130


def test_several_shifts_are_found() -> None:
    chance = random.Random(2)  # noqa: S311  (chance, not secrecy)
    levels = [[level + chance.random() for _ in range(10)] for level in (10, 20, 15)]
    assert find_levels([value for level in levels for value in level]) == levels


@pytest.mark.parametrize("same", [1, 5, 12])
def test_equal_values_have_one_level_and_no_spread(same: int) -> None:
    assert find_levels([7.0] * same) == [[7.0] * same]
    if same >= FEWEST:
        known = forecast([7.0] * same, 0.01)
        assert known.low == pytest.approx(7)
        assert known.high == pytest.approx(7)


def test_a_newest_value_as_usual_is_one_more_of_its_level() -> None:
    past = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0]
    known = forecast_around(past, 101.0, 0.01)
    assert list(known.level) == [*past, 101.0]
    assert known.shifts == 0


def test_a_newest_value_far_off_begins_a_level_and_the_spread_is_that_of_the_past() -> None:
    past = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0]
    known, usual = forecast_around(past, 200.0, 0.01), forecast(past, 0.01)
    assert list(known.level) == [200.0]
    assert known.shifts == 1
    wider = math.log(known.high / known.low) / math.log(usual.high / usual.low)
    assert wider == pytest.approx(math.sqrt(2 / (1 + 1 / 6)))  # its level is known from one value only


def test_values_beyond_all_measure_have_no_upper_limit() -> None:
    assert math.isinf(forecast([1e308, 1e300, 1e308, 1e304, 1e308], 0.01).high)


@given(values, st.floats(min_value=0.001, max_value=0.5))
def test_no_values_break_it(past: list[float], rate: float) -> None:
    known = forecast(past, rate)
    assert 0 <= known.low <= known.high
    assert sum(map(len, find_levels(past))) == len(past)


@given(values, st.floats(min_value=1e-3, max_value=1e3))
def test_the_unit_of_values_does_not_matter(past: list[float], factor: float) -> None:
    one, other = forecast(past, 0.01), forecast([factor * value for value in past], 0.01)
    assert other.shifts == one.shifts
    assert math.log(other.high) - math.log(one.high) == pytest.approx(math.log(factor), abs=1e-6)


@pytest.mark.parametrize("value", [757_000, 3, 0.1, 1e9 + 7, 123.456])
def test_a_value_that_never_changes_is_no_shift(value: float) -> None:
    found = forecast_around([value] * 6, value, 0.01)
    assert found.shifts == 0
    assert found.low == found.high == pytest.approx(value)


@pytest.mark.parametrize(("count", "rate"), [(5, 0.01), (10, 0.01), (20, 0.05), (110, 0.05)])
def test_with_a_newest_value_no_more_false_alarms_come_than_were_chosen(count: int, rate: float) -> None:
    chance = random.Random(11)  # noqa: S311  (chance, not secrecy)
    tries, outside = 3000, 0
    for _ in range(tries):
        *past, now, later = (math.exp(0.01 * chance.gauss(0, 1)) for _ in range(count + 2))
        known = forecast_around(past, now, rate)
        outside += not known.low <= later <= known.high
    assert outside / tries <= most_by_chance(rate)


def test_a_newest_value_just_outside_is_one_of_its_level_and_within_the_margin() -> None:
    past = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0]
    now = forecast(past, 0.01).high * 1.01
    known = forecast_around(past, now, 0.01)
    assert known.shifts == 0
    assert now <= known.high
