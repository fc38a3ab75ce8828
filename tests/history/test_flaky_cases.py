"""Flaky cases: what is one, what is not, and since when a case is stable."""

from __future__ import annotations

import pytest

from comparison_files import case_of
from torchstone.core.records import Case
from torchstone.core.vocabulary import ACCURACY, METRICS
from torchstone.history.flaky_cases import Reliability, find_flaky, group_by_benchmark, measure_reliability
from torchstone.store.stored import Series, SeriesKey, SeriesPoint

NET = case_of("net")


def statuses(text: str, case: Case = NET) -> Series:
    """A series of statuses: ``.`` passed, ``t`` timed out, ``f`` failed, ``-`` has no outcome."""
    names = {".": "pass", "t": "timeout", "f": "fail_accuracy", "-": None}
    points = tuple(
        SeriesPoint(n, f"run{n}", f"rev{n}", "", "main", n, names[letter]) for n, letter in enumerate(text)
    )
    return Series(0, SeriesKey(case, ACCURACY), METRICS[ACCURACY], points)


def rate_of(text: str) -> Reliability:
    found = measure_reliability(statuses(text))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "is_flaky"),
    [
        ("....t.....t....", True),
        ("....tt....t....", True),
        ("...............", False),
        ("....t..........", False),  # once: nobody knows yet
        ("......ttttttttt", False),  # a regression
        ("...ttttttttt....", False),  # a regression, and its fix
        ("....t....t" + "." * 60, False),  # stable since
        ("t.tttt.tttttttttttt.ttttttttttttttttttt", False),  # it nearly always fails: broken
        ("..-..t..-..t...", True),
    ],
)
def test_a_case_is_flaky_if_failures_come_and_go(text: str, is_flaky: bool) -> None:
    assert bool(find_flaky([statuses(text)])) == is_flaky


def test_the_pass_rate_has_an_interval_and_flips_both_ways() -> None:
    rate = rate_of("....t....f.....tt...")
    assert (rate.runs, rate.passed, rate.to_fail, rate.to_pass, rate.streak) == (20, 16, 3, 3, 3)
    assert rate.low == pytest.approx(0.5634, abs=1e-4)  # Clopper and Pearson, two-sided
    assert rate.high == pytest.approx(0.9427, abs=1e-4)
    assert rate.statuses == (("timeout", 3), ("fail_accuracy", 1))
    assert rate.last_failure is not None
    assert rate.last_failure.revision == "rev16"


def test_only_the_newest_points_count() -> None:
    assert measure_reliability(statuses("t.t.t" + "." * 30), most=30) is not None
    assert not find_flaky([statuses("t.t.t.." + "." * 12)], most=12)


def test_a_case_without_any_status_has_no_rate() -> None:
    assert measure_reliability(statuses("---")) is None


def test_a_rare_failure_needs_more_passes_before_a_case_is_stable() -> None:
    often, rarely = rate_of("t.t.t.t." + "." * 20), rate_of("t" + "." * 25 + "t" + "." * 25)
    assert often.is_stable
    assert not rarely.is_stable
    assert rarely.needed_streak > often.needed_streak


def test_a_benchmark_is_named_only_if_all_its_cases_are_flaky() -> None:
    cases = [
        case_of("net"),
        case_of("net", dtype="bfloat16"),
        case_of("mlp"),
        case_of("mlp", dtype="bfloat16"),
    ]
    flaky = [rate_of("..t..t..")] * 3
    rates = [
        Reliability(case, *[getattr(rate, name) for name in rate.__struct_fields__[1:]])
        for case, rate in zip(cases, flaky, strict=False)
    ]
    spreads = list(group_by_benchmark(rates, cases))
    assert [each.pattern for each in spreads] == ["net", case_of("mlp").id]
