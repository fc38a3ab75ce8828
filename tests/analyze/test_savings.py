"""What one sum of times saves of another, and how sure a few repeats can be of it."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.analyze.savings import STUDENT_T, Saving, estimate_saving

times = st.floats(min_value=1e-3, max_value=1e4)
repeats = st.lists(st.tuples(times, times), min_size=1, max_size=12)
Pairs = list[tuple[float, float]]


def saving_of(pairs: Pairs) -> Saving:
    saving = estimate_saving([before for before, _ in pairs], [after for _, after in pairs])
    assert saving is not None
    return saving


def bounds_of(saving: Saving) -> tuple[float, float]:
    assert saving.low is not None
    assert saving.high is not None
    return saving.low, saving.high


def test_by_hand() -> None:
    # Sums 30 and 12: 60 % are saved. What is left over, after - 0.4 * before, is 3 - 4 = -1, 5 - 4 = 1, 4 - 4 = 0: variance (1 + 1) / 2 = 1, so the
    # standard error of the mean is sqrt(1 / 3) = 0.57735. Student's t for two degrees of freedom is 4.303, the mean before is 10:
    # 100 * 4.303 * 0.57735 / 10 = 24.843.
    saving = saving_of([(10.0, 3.0), (10.0, 5.0), (10.0, 4.0)])
    assert saving == pytest.approx((60.0, 60 - 24.843, 60 + 24.843), abs=1e-3)


def test_sums_are_compared_and_not_the_mean_of_the_shares() -> None:
    assert saving_of([(10.0, 1.0), (90.0, 79.0)]).percent == pytest.approx(20.0)  # the shares' mean is 51.1


def test_a_start_that_takes_longer_saves_less_than_nothing() -> None:
    assert saving_of([(2.0, 3.0)]).percent == pytest.approx(-50.0)


def test_one_repeat_has_a_value_and_no_interval() -> None:
    assert saving_of([(8.0, 2.0)]) == (75.0, None, None)


def test_repeats_that_are_not_paired_have_no_interval() -> None:
    assert estimate_saving([8.0, 8.0], [4.0]) == (75.0, None, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], []),
        ([0.0], [0.0]),
        ([0.0, 0.0], [1.0, 1.0]),
        ([-1.0], [1.0]),
        ([math.nan], [1.0]),
        ([1.0], [math.inf]),
    ],
)
def test_nothing_is_saved_of_nothing(before: list[float], after: list[float]) -> None:
    assert estimate_saving(before, after) is None


@pytest.mark.parametrize(("repeats", "t"), [(2, 12.706), (3, 4.303), (9, 2.306), (30, 2.306)])
def test_student_t_is_that_of_the_repeats_and_never_too_small(repeats: int, t: float) -> None:
    # After is 1 and 3 in turns (of 4 each): half is saved; each is 1 off, so the variance is n / (n - 1). An odd one in the middle is not off at all.
    after = [1.0 + 2 * (number % 2) for number in range(repeats)]
    if repeats % 2:
        after[-1] = 2.0
    variance = sum((each - 2) ** 2 for each in after) / (repeats - 1)
    saving = saving_of([(4.0, each) for each in after])
    assert saving.percent == pytest.approx(50)
    assert 50 - bounds_of(saving)[0] == pytest.approx(100 * t * math.sqrt(variance / repeats) / 4)
    assert list(STUDENT_T[1:]) == sorted(STUDENT_T[1:], reverse=True)


@given(repeats)
def test_value_lies_within_its_interval_and_is_at_most_everything(pairs: Pairs) -> None:
    saving = saving_of(pairs)
    assert saving.percent <= 100
    if len(pairs) > 1:
        low, high = bounds_of(saving)
        assert low <= saving.percent <= high
        assert high == pytest.approx(min(100, 2 * saving.percent - low), rel=1e-6, abs=1e-6)


@given(repeats, st.floats(min_value=0.1, max_value=10.0))
def test_unit_does_not_matter(pairs: Pairs, factor: float) -> None:
    scaled = saving_of([(before * factor, after * factor) for before, after in pairs])
    ours = saving_of(pairs)
    assert scaled.percent == pytest.approx(ours.percent, rel=1e-6, abs=1e-6)
    if len(pairs) > 1:
        assert bounds_of(scaled) == pytest.approx(bounds_of(ours), rel=1e-6, abs=1e-6)


@given(repeats, st.randoms())
def test_order_of_the_repeats_does_not_matter(pairs: Pairs, chance: random.Random) -> None:
    shuffled = list(pairs)
    chance.shuffle(shuffled)
    assert saving_of(shuffled).percent == pytest.approx(saving_of(pairs).percent, rel=1e-6, abs=1e-6)


@given(times, st.floats(min_value=0.0, max_value=3.0), st.lists(times, min_size=2, max_size=9))
def test_the_same_share_every_time_is_known_exactly(first: float, share: float, more: list[float]) -> None:
    saving = saving_of([(each, each * share) for each in (first, *more)])
    assert saving == pytest.approx((100 * (1 - share),) * 3, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("repeats", [3, 5, 9])
def test_interval_covers_the_truth_about_as_often_as_it_says(repeats: int) -> None:
    chance = random.Random(repeats)  # noqa: S311
    covered = 0
    for _ in range(1000):
        pairs = [(10 * chance.gauss(1, 0.05), 3 * chance.gauss(1, 0.1)) for _ in range(repeats)]
        low, high = bounds_of(saving_of(pairs))
        covered += low <= 70 <= high
    assert 0.92 <= covered / 1000 <= 0.98
