"""Two sets of trials: effect, interval, and how many more would settle it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.analyze.evidence import EXACT, MOST_MORE, PAIRED, WELCH, Comparison, Evidence
from torchstone.analyze.ratio_interval import (
    compare_pairs,
    compare_trials,
    mean_effect,
    more_trials,
)


def side(*values: float) -> Evidence:
    return Evidence(values, 10 * len(values))


def compare(base: Evidence, new: Evidence, *, counted: bool = False, repeats: bool = False) -> Comparison:
    return compare_trials(base, new, alpha=0.01, counted=counted, repeats=repeats)


def more(found: Comparison, margin: float = 0.02) -> int | None:
    return more_trials(found, margin=margin, alpha=0.01)


def noisy(chance: random.Random, level: float, count: int, spread: float = 0.01) -> Evidence:
    return side(*(level * math.exp(chance.gauss(0, spread)) for _ in range(count)))


def test_the_effect_is_the_ratio_of_geometric_means() -> None:
    found = compare(side(10.0, 10.2, 9.8), side(20.0, 20.4, 19.6))
    assert found.method == WELCH
    assert found.ratio == pytest.approx(2)
    assert found.low < 2 < found.high


def test_effect_and_p_value_are_those_of_scipy_on_logarithms() -> None:
    stats = pytest.importorskip("scipy.stats")
    base, new = side(10.0, 10.4, 9.7, 10.1, 10.9), side(10.8, 11.0, 10.9, 11.4, 10.7)
    found = compare(base, new)
    theirs = stats.ttest_ind(
        [math.log(v) for v in new.values], [math.log(v) for v in base.values], equal_var=False
    )
    interval = theirs.confidence_interval(0.99)
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert [found.low, found.high] == pytest.approx([math.exp(interval.low), math.exp(interval.high)])


def test_base_and_new_in_the_other_order_give_the_inverse() -> None:
    base, new = side(10.0, 10.4, 9.7), side(10.8, 11.0, 10.9, 11.4)
    there, back = compare(base, new), compare(new, base)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)
    assert there.p_value == pytest.approx(back.p_value)


def test_without_a_difference_few_are_found_certain() -> None:
    chance = random.Random(3)  # noqa: S311  (noise, not secrets)
    found = [compare(noisy(chance, 5, 5), noisy(chance, 5, 5)) for _ in range(3000)]
    false_alarms = sum((each.p_value or 0) <= 0.01 for each in found)
    assert false_alarms <= 45  # 30 are allowed at 1 %, and this is chance
    outside = sum(not each.low <= 1 <= each.high for each in found)
    assert outside == false_alarms


def test_sides_that_scatter_differently_keep_the_promise() -> None:
    chance = random.Random(4)  # noqa: S311  (noise, not secrets)
    found = [compare(noisy(chance, 5, 4, 0.002), noisy(chance, 5, 8, 0.03)) for _ in range(3000)]
    assert sum((each.p_value or 0) <= 0.01 for each in found) <= 45


@pytest.mark.parametrize(
    ("few", "many", "spread"), [(2, 20, 0.01), (3, 20, 0.01), (3, 20, 0.04), (5, 50, 0.02)]
)
def test_few_trials_against_many_keep_the_promise_far_out_too(few: int, many: int, spread: float) -> None:
    chance = random.Random(7)  # noqa: S311  (noise, not secrets)
    found = [compare(noisy(chance, 5, few, spread), noisy(chance, 5, many)) for _ in range(3000)]
    assert sum((each.p_value or 0) <= 0.01 for each in found) <= 45
    assert sum((each.p_value or 0) <= 0.0001 for each in found) <= 2  # on these, a table of many rows relies


LAST_BIT = side(1000.0, math.nextafter(1000.0, math.inf))  # of which logarithms know nothing


@pytest.mark.parametrize(
    ("base", "new", "said"),
    [
        (side(5.0), side(6.0), "one trial a side cannot tell"),
        (side(5.0), side(6.0, 6.1), "one trial of BASE cannot tell"),
        (side(5.0, 5.1), side(6.0), "one trial of NEW cannot tell"),
        (side(5.0, 5.0, 5.0), side(6.0, 6.1), "all trials of BASE have exactly the same value"),
        (side(5.0, 5.0), side(5.0, 5.0), "all trials of BASE and NEW have exactly the same value"),
        (LAST_BIT, LAST_BIT, "all trials of BASE and NEW have exactly the same value"),
    ],
)
def test_too_thin_data_is_told_and_not_tested(base: Evidence, new: Evidence, said: str) -> None:
    found = compare(base, new)
    assert said in found.obstacle
    assert found.p_value is None
    assert (found.low, found.high) == (0, math.inf)
    assert found.ratio == pytest.approx(new.middle / base.middle)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("counted", [False, True])
def test_values_that_no_ratio_can_be_made_of_are_told(bad: float, counted: bool) -> None:
    found = compare(side(5.0, 5.1, 5.2), side(5.0, bad, 5.2), counted=counted)
    assert found.obstacle or (counted and bad == 0)  # a count of 0 is one as any other
    assert found.p_value is None
    assert found.wrong == (not math.isfinite(bad))


def test_counts_that_do_not_scatter_are_compared_exactly() -> None:
    found = compare(side(100, 100), side(103), counted=True)
    assert found.method == EXACT
    assert (found.low, found.ratio, found.high) == (1.03, 1.03, 1.03)


def test_a_count_that_varies_on_one_side_has_the_range_of_all_ratios() -> None:
    found = compare(side(100), side(99, 103), counted=True)
    assert (found.low, found.high) == (0.99, 1.03)


def test_counts_of_zero_are_no_division_by_zero() -> None:
    assert compare(side(0), side(0), counted=True).ratio == 1
    assert compare(side(0), side(3), counted=True).ratio == math.inf
    assert compare(side(3), side(0), counted=True).ratio == 0


@pytest.mark.parametrize(
    ("base", "new", "method"),
    [
        ((1, 1, 1), (1, 3, 1), WELCH),  # more trials may tell
        ((7, 7, 7), (8, 8, 9), EXACT),  # none is as any of the others
        ((0, 1, 0), (50, 51, 50), EXACT),
        ((0, 1, 0), (0, 1, 1), EXACT),  # of a 0 there is no logarithm
    ],
)
def test_counts_that_scatter_are_tested_where_they_overlap(
    base: tuple[int, ...], new: tuple[int, ...], method: str
) -> None:
    found = compare(side(*base), side(*new), counted=True)
    assert found.method == method
    assert not found.obstacle


def test_what_may_repeat_is_compared_as_it_is_but_not_from_one_trial() -> None:
    twice = compare(side(2.0, 2.0, 2.0), side(4.0, 4.0), repeats=True)
    assert (twice.method, twice.low, twice.high) == (EXACT, 2, 2)
    assert "one trial of NEW" in compare(side(2.0, 2.0), side(4.0), repeats=True).obstacle
    tested = compare(side(2.0, 2.0, 2.0), side(4.0, 4.0, 4.01), repeats=True)
    assert tested.method == WELCH
    assert tested.low > 1.9


def test_counts_that_scatter_on_both_sides_are_tested() -> None:
    assert compare(side(100, 101, 99), side(100, 102, 101), counted=True).method == WELCH


def test_more_trials_settle_it_when_they_are_added() -> None:
    chance = random.Random(5)  # noqa: S311  (noise, not secrets)
    base, new = noisy(chance, 5, 3, 0.02), noisy(chance, 5, 3, 0.02)
    number = more(compare(base, new))
    assert number
    assert 0 < number <= MOST_MORE

    def settled(extra: int) -> bool:
        again = compare(_stretched(base, 3 + extra), _stretched(new, 3 + extra))
        return more(again) is None

    assert settled(number + 3)
    assert not settled(max(0, number // 4))


def _stretched(short: Evidence, count: int) -> Evidence:
    """The same middle and spread, of more trials."""
    logs = [math.log(value) for value in short.values]
    mean = math.fsum(logs) / len(logs)
    spread = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (len(logs) - 1))
    signs = (
        [(-1) ** n for n in range(count)] if count % 2 == 0 else [0, *((-1) ** n for n in range(count - 1))]
    )
    scale = math.sqrt((count - 1) / sum(sign * sign for sign in signs))
    return side(*(math.exp(mean + spread * scale * sign) for sign in signs))


def test_what_is_settled_needs_no_more_trials() -> None:
    assert more(compare(side(5.0, 5.01, 5.02), side(9.0, 9.01, 9.02))) is None
    assert more(compare(side(5.0, 5.001, 4.999), side(5.0, 5.001, 5.0005))) is None


def test_what_would_take_more_than_two_hundred_trials_is_not_counted_further() -> None:
    found = compare(side(5.0, 9.0, 2.0), side(5.1, 8.5, 2.2))
    assert more(found, margin=0.001) == MOST_MORE + 1
    assert more(compare(side(5.0), side(5.1, 5.2))) is None


def test_to_be_certain_among_many_takes_more_trials() -> None:
    chance = random.Random(9)  # noqa: S311  (noise, not secrets)
    found = compare(noisy(chance, 5, 4, 0.04), noisy(chance, 5.4, 4, 0.04))
    alone, among = (more_trials(found, margin=0.02, alpha=0.01, certain_at=level) for level in (0.01, 0.0001))
    assert alone
    assert among
    assert alone < among


def test_pairs_that_drift_together_need_no_more_than_pairs_do() -> None:
    chance = random.Random(10)  # noqa: S311  (noise, not secrets)
    levels = [5 * math.exp(chance.gauss(0, 0.3)) for _ in range(10)]
    found = paired([(level, level * 1.05 * math.exp(chance.gauss(0, 0.01))) for level in levels])
    among = more_trials(found, margin=0.02, alpha=0.01, certain_at=0.0001)
    assert among
    assert among <= 15


def trials(pairs: Sequence[tuple[float, float]]) -> tuple[list[tuple[float, ...]], list[tuple[float, ...]]]:
    return [(a,) for a, _ in pairs], [(b,) for _, b in pairs]


def paired(values: Sequence[tuple[float, float]]) -> Comparison:
    base, new = side(*(a for a, _ in values)), side(*(b for _, b in values))
    return compare_pairs(base, new, trials(values), alpha=0.01)


def test_pairs_see_through_a_drift_that_hits_both() -> None:
    chance = random.Random(6)  # noqa: S311  (noise, not secrets)
    levels = [5 * math.exp(chance.gauss(0, 0.2)) for _ in range(25)]
    found = paired([(level, level * 1.05 * math.exp(chance.gauss(0, 0.005))) for level in levels])
    assert found.method == PAIRED
    assert found.low > 1.02
    assert found.p_value is not None
    assert found.p_value <= 0.001
    by_trial = compare(found.base, found.new)
    assert by_trial.low < 1 < by_trial.high


def test_pairs_without_a_difference_are_open() -> None:
    chance = random.Random(8)  # noqa: S311  (noise, not secrets)
    found = paired([(5.0, 5.0 * math.exp(chance.gauss(0, 0.01))) for _ in range(6)])
    assert found.p_value is not None
    assert found.p_value > 0.01
    assert more(found, margin=0.001)


def test_the_p_value_of_pairs_is_where_a_decision_turns() -> None:
    chance = random.Random(12)  # noqa: S311  (noise, not secrets)
    found = paired([(5.0, 5.2 * math.exp(chance.gauss(0, 0.01))) for _ in range(12)])
    assert found.p_value is not None
    for alpha, certain in ((found.p_value * 1.001, True), (found.p_value * 0.999, False)):
        again = compare_pairs(
            found.base,
            found.new,
            trials(list(zip(found.base.values, found.new.values, strict=True))),
            alpha=alpha,
        )
        assert (again.low > 1) is certain


def test_one_pair_says_nothing() -> None:
    found = paired([(1.0, 2.0)])
    assert "one pair says nothing" in found.obstacle
    assert found.p_value is None


def test_a_pair_says_the_median_over_its_rounds() -> None:
    base, new = side(1.0, 1.0), side(1.1, 1.1)
    rounds = ([(1.0, 2.0, 4.0)] * 2, [(1.1, 2.2, 40.0)] * 2)
    assert compare_pairs(base, new, rounds, alpha=0.01).ratio == pytest.approx(1.1)


def test_a_pair_with_a_time_of_zero_is_invalid() -> None:
    assert paired([(0.0, 1.0), (1.0, 1.0)]).wrong


def test_the_mean_over_cases_has_an_interval_from_two_cases_on() -> None:
    one, two = mean_effect([1.1], 0.01), mean_effect([1.1, 1.2, 1.15], 0.01)
    assert (one.cases, one.low, one.high) == (1, 0, math.inf)
    assert one.ratio == pytest.approx(1.1)
    assert two.low < two.ratio < two.high
    assert two.ratio == pytest.approx((1.1 * 1.2 * 1.15) ** (1 / 3))


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=6),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=6),
    st.booleans(),
)
def test_any_numbers_give_a_comparison_and_no_exception(
    base: list[float], new: list[float], counted: bool
) -> None:
    found = compare(side(*base), side(*new), counted=counted)
    assert found.obstacle or found.method
    if found.method == WELCH:
        assert found.low <= found.high
