"""A change of level is found where it is, soon, and in any unit; noise, spikes, gaps and odd values are none."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from torchstone.analyze.changepoints import (
    ChangePoint,
    Decided,
    Kind,
    find_changes,
    find_changes_in_many,
    find_changes_in_statuses,
    update,
    update_many,
)

Floats = NDArray[np.float64]

ANY_VALUES = st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=80)
SOME_LEVELS = st.lists(st.tuples(st.integers(1, 60), st.floats(0.01, 1e6)), min_size=1, max_size=8)


def indices(changes: list[ChangePoint]) -> list[int]:
    return [change.index for change in changes]


def noisy_levels(levels: list[tuple[int, float]], seed: int, noise: float = 0.01) -> Floats:
    random = np.random.default_rng(seed)
    return np.concatenate([level * random.lognormal(0, noise, points) for points, level in levels])


def autocorrelated(random: np.random.Generator, points: int) -> Floats:
    values = np.zeros(points + 50)
    for at, shock in enumerate(random.normal(0, 1, points + 49), start=1):
        values[at] = 0.5 * values[at - 1] + shock
    return 100 + values[50:]


def test_a_step_is_found_with_its_levels() -> None:
    (change,) = find_changes(noisy_levels([(60, 100), (60, 110)], seed=1))
    assert abs(change.index - 60) <= 1
    assert change.before == pytest.approx(100, rel=0.01)
    assert change.after == pytest.approx(110, rel=0.01)
    assert change.ratio == pytest.approx(1.1, rel=0.01)
    assert change.certainty > 0.9
    assert not change.provisional


def test_steps_up_and_down_are_found_each() -> None:
    found = indices(find_changes(noisy_levels([(50, 100), (40, 105), (60, 100), (50, 90)], seed=2)))
    assert len(found) == 3
    assert np.abs(np.subtract(found, [50, 90, 150])).max() <= 2


@pytest.mark.parametrize("points", [1, 2, 3])
def test_a_few_outliers_are_no_level(points: int) -> None:
    values = noisy_levels([(200, 100)], seed=3)
    values[100 : 100 + points] *= 3
    assert find_changes(values) == []


def test_a_slow_drift_is_no_staircase() -> None:
    values = noisy_levels([(300, 100)], seed=4) * np.linspace(1, 1.05, 300)
    assert len(find_changes(values)) <= 1


NOISE: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda random, points: random.normal(100, 1, points),
    "log-normal": lambda random, points: 100 * random.lognormal(0, 0.02, points),
    "t with 3 degrees of freedom": lambda random, points: 100 + random.standard_t(3, points),
    "AR(0.5)": autocorrelated,
}


@pytest.mark.parametrize("noise", NOISE)
def test_noise_has_at_most_a_few_false_points_in_ten_thousand(noise: str) -> None:
    random = np.random.default_rng(20)
    series = [NOISE[noise](random, 500) for _ in range(60)]
    found = sum(len(changes) for changes in find_changes_in_many(series))
    assert found <= 0.3 * 30  # 30,000 points


@pytest.mark.parametrize(("sigmas", "points", "share"), [(2, 12, 0.8), (3, 5, 0.8), (5, 5, 0.95)])
def test_a_fresh_step_is_found_soon(sigmas: float, points: int, share: float) -> None:
    random = np.random.default_rng(21)
    series = [random.normal(100, 1, 100 + points) for _ in range(100)]
    for values in series:
        values[100:] += sigmas
    found = find_changes_in_many(series)
    assert np.mean([any(abs(change.index - 100) <= 5 for change in each) for each in found]) >= share


def test_a_fresh_change_is_provisional_until_points_confirm_it() -> None:
    values = noisy_levels([(100, 100), (40, 103)], seed=5)
    fresh, confirmed = find_changes(values[:106]), find_changes(values)
    assert [change.provisional for change in fresh] == [True]
    assert [change.provisional for change in confirmed] == [False]
    assert confirmed[0].certainty > fresh[0].certainty


def test_certainty_is_the_dial() -> None:
    values = noisy_levels([(60, 100), (60, 101.5), (60, 100), (60, 108)], seed=6)
    few, more = find_changes(values, certainty=0.9), find_changes(values, certainty=0.2)
    assert len(few) < len(more)
    assert min(change.certainty for change in few) >= 0.9


@pytest.mark.parametrize("certainty", [0, 1, -1, math.nan])
def test_a_certainty_that_is_no_probability_is_refused(certainty: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        find_changes([1, 2, 3], certainty=certainty)


@pytest.mark.parametrize("kind", [Kind.NUMBER, Kind.COUNT, Kind.STATUS])
@given(values=ANY_VALUES)
def test_any_values_have_sorted_changes_at_points_that_are_numbers(kind: Kind, values: list[float]) -> None:
    found = indices(find_changes(values, kind=kind))
    assert found == sorted(set(found))
    assert all(0 < index < len(values) and math.isfinite(values[index]) for index in found)


@given(pairs=st.lists(st.tuples(st.floats(), st.floats()), max_size=60))
def test_any_pass_rates_have_sorted_changes(pairs: list[tuple[float, float]]) -> None:
    found = indices(find_changes(pairs, kind=Kind.PASS_RATE))
    assert found == sorted(set(found))
    assert all(0 < index < len(pairs) for index in found)


@pytest.mark.parametrize(
    "values",
    [[], [5.0], [5.0] * 300, [0.0] * 50, [math.nan] * 20, [math.inf, -math.inf, math.nan], [1.0, 2.0]],
)
@pytest.mark.parametrize("kind", [Kind.NUMBER, Kind.COUNT])
def test_nothing_that_varies_has_no_changes(values: list[float], kind: Kind) -> None:
    assert find_changes(values, kind=kind) == []


@pytest.mark.parametrize("level", [1e-300, 1e-5, 1e300])
def test_extreme_magnitudes_are_levels_as_any_other(level: float) -> None:
    assert indices(find_changes([level] * 50 + [1.2 * level] * 50)) == [50]


@given(levels=SOME_LEVELS, seed=st.integers(0, 9), power=st.integers(-60, 60))
@settings(max_examples=50)
def test_scaling_of_positive_values_changes_nothing(
    levels: list[tuple[int, float]], seed: int, power: int
) -> None:
    values = noisy_levels(levels, seed)
    found, scaled = find_changes(values), find_changes(values * 2.0**power)
    assert indices(found) == indices(scaled)
    assert [change.ratio for change in found] == pytest.approx([change.ratio for change in scaled])


def test_shift_and_sign_of_values_that_are_not_all_positive_change_nothing() -> None:
    values = noisy_levels([(60, 10), (60, 11), (60, 10.5)], seed=7) - 10
    found = indices(find_changes(values))
    assert len(found) == 2
    assert found == indices(find_changes(-values)) == indices(find_changes(values - 5))


def test_time_reversed_has_the_same_changes() -> None:
    values = noisy_levels([(80, 100), (60, 110), (90, 104), (70, 99)], seed=8)
    backwards = [len(values) - index for index in indices(find_changes(values[::-1]))]
    assert np.abs(np.subtract(sorted(backwards), indices(find_changes(values)))).max() <= 1


def test_gaps_move_indices_and_nothing_else() -> None:
    values = noisy_levels([(60, 100), (60, 110)], seed=9)
    with_gaps = np.insert(values, [10, 30, 60, 60], [math.nan, math.inf, math.nan, -math.inf])
    kept = np.flatnonzero(np.isfinite(with_gaps))
    assert indices(find_changes(with_gaps)) == [kept[index] for index in indices(find_changes(values))]


@given(lengths=st.lists(st.integers(0, 1200), min_size=1, max_size=4), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_many_series_at_once_have_the_changes_of_each(lengths: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    series = [random.normal(0, 1, length) + 4 * np.cumsum(random.random(length) < 0.02) for length in lengths]
    assert find_changes_in_many(series) == [find_changes(values) for values in series]


def series_of(kind: Kind, random: np.random.Generator, length: int) -> Floats:
    level = np.cumsum(random.random(length) < 0.01).astype(np.float64)
    if kind is Kind.NUMBER:
        values = 100 + 3 * level + random.normal(0, 1, length)
    elif kind is Kind.COUNT:
        values = 100 + 3.0 * level + (random.random(length) < 0.3) * (level % 3 == 2)
    elif kind is Kind.STATUS:
        values = (level % 2) + (random.random(length) < 0.02)
    else:
        passed = random.binomial(50, np.where(level % 2, 0.8, 0.95))
        return np.stack([passed.astype(np.float64), np.full(length, 50.0)], axis=1)
    values[random.random(length) < 0.05] = math.nan
    return values


@pytest.mark.parametrize("kind", list(Kind))
@given(seed=st.integers(0, 999), cuts=st.lists(st.integers(0, 1700), max_size=6))
@settings(max_examples=8, deadline=None)
def test_values_that_arrive_bit_by_bit_have_the_changes_of_the_whole_series(
    kind: Kind, seed: int, cuts: list[int]
) -> None:
    values = series_of(kind, np.random.default_rng(seed), 1700)
    decided = Decided()
    for stop in [*sorted(cuts), len(values)]:
        before = decided
        result = update(before, values[before.needed_from : stop], kind=kind)
        decided = result.decided
        assert list(result.changes) == find_changes(values[:stop], kind=kind)
        assert decided.changes[: len(before.changes)] == before.changes  # what is decided stays
        assert decided.needed_from >= before.needed_from
    assert decided.needed_from >= len(values) - 700


def test_an_update_needs_a_few_hundred_points_of_a_long_series() -> None:
    values = noisy_levels([(2000, 100), (2000, 104)], seed=10)
    decided = update(Decided(), values).decided
    assert len(values) - decided.needed_from <= 512
    (first,) = decided.changes
    assert abs(first.index - 2000) <= 1
    assert update(decided, values[decided.needed_from :]).changes == decided.changes


def test_many_updates_at_once_are_those_of_each() -> None:
    series = [noisy_levels([(300, 100), (400, 100 + step)], seed=step) for step in range(5)]
    states = [update(Decided(), values[:650]).decided for values in series]
    pairs = [(state, values[state.needed_from :]) for state, values in zip(states, series, strict=True)]
    assert update_many(pairs) == [update(state, values) for state, values in pairs]


def test_one_point_is_enough_for_a_count_that_never_varied() -> None:
    (change,) = find_changes([1000] * 20 + [1001], kind=Kind.COUNT)
    assert (change.index, change.before, change.after, change.provisional) == (20, 1000, 1001, True)
    (change,) = find_changes([1000] * 20 + [1001, 1001], kind=Kind.COUNT)
    assert (change.index, change.provisional) == (20, False)
    assert change.certainty > 0.99


def test_a_count_that_returns_at_once_has_not_changed() -> None:
    assert find_changes([1000] * 20 + [1001] + [1000] * 20, kind=Kind.COUNT) == []


def test_a_count_that_varies_is_judged_by_its_noise() -> None:
    random = np.random.default_rng(11)
    steady = random.integers(100, 104, 300)
    assert find_changes(steady, kind=Kind.COUNT) == []
    (change,) = find_changes(np.concatenate([steady, steady + 10]), kind=Kind.COUNT)
    assert abs(change.index - 300) <= 1


def test_a_count_that_begins_to_vary_changes_once() -> None:
    random = np.random.default_rng(12)
    values = [100] * 60 + random.integers(108, 112, 60).tolist()
    assert indices(find_changes(values, kind=Kind.COUNT)) == [60]


def test_a_status_changes_with_one_point_and_a_flaky_one_with_several() -> None:
    assert indices(find_changes_in_statuses(["pass"] * 10 + ["timeout"])) == [10]
    assert find_changes_in_statuses((["pass"] * 6 + ["timeout"]) * 4) == []
    flaky = (["pass"] * 6 + ["timeout"]) * 4
    assert find_changes_in_statuses([*flaky, "timeout"]) == []
    assert indices(find_changes_in_statuses(flaky + ["timeout"] * 9)) == [27]


def test_a_pass_rate_that_drops_is_found_and_one_bad_night_is_not() -> None:
    random = np.random.default_rng(13)
    good, bad = random.binomial(200, 0.97, 60), random.binomial(200, 0.90, 30)
    night = np.array([60])
    for passed, expected in (
        (np.concatenate([good, bad]), [60]),
        (np.concatenate([good, night, good]), []),
        (np.concatenate([good, good]), []),
    ):
        pairs = np.stack([passed, np.full(len(passed), 200)], axis=1)
        assert indices(find_changes(pairs, kind=Kind.PASS_RATE)) == expected


def test_the_newest_pass_rate_is_provisional() -> None:
    (change,) = find_changes([(198, 200)] * 20 + [(199, 200)] * 20 + [(150, 200)], kind=Kind.PASS_RATE)
    assert (change.index, change.provisional) == (40, True)
    assert change.after == 0.75


def test_numpy_is_loaded_only_when_changes_are_looked_for() -> None:
    code = "import sys, torchstone.analyze.changepoints; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_level_that_returns_is_two_changes_of_a_short_series(seed: int) -> None:
    assert indices(find_changes(noisy_levels([(12, 30), (13, 45), (13, 30)], seed, 0.03))) == [12, 25]
