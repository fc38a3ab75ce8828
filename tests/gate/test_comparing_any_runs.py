"""Whatever two runs hold, comparing them ends in a report or in a clear error, in every format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from comparison_files import case_of, passed, times
from record_strategies import (
    STATUS_WORDS,
    accuracy_runs,
    ddp_runs,
    full_runs,
    performance_runs,
    pr_time_runs,
    v3_runs,
)
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import InputError, TorchstoneError
from torchstone.core.records import Case, Measurement, Outcome, Reading, Run
from torchstone.core.vocabulary import NOT_AVAILABLE, PASSED, Verdict
from torchstone.gate.baseline import has_ended_well
from torchstone.gate.blocking_policy import comparison_policy
from torchstone.gate.comparing.compare_files import compare_files
from torchstone.gate.comparing.side_files import SideFiles
from torchstone.gate.criteria import CompareSettings
from torchstone.gate.judgement import Judgement
from torchstone.gate.rules import RuleBook
from torchstone.reporting.dialects.github_annotations import render_github
from torchstone.reporting.dialects.json_report import render_json
from torchstone.reporting.dialects.junit_xml import render_junit
from torchstone.reporting.dialects.markdown_report import GITHUB_LIMIT, render_markdown
from torchstone.reporting.dialects.text_report import render_text
from torchstone.reporting.views.comparison_rows import CompareReport

RUNS = st.one_of(
    full_runs(), performance_runs(), accuracy_runs(), pr_time_runs(margins=False), v3_runs(), ddp_runs()
)
NUMBERS = st.floats() | st.integers(-5, 10**18) | st.sampled_from([0, 0.0, 1, 1.0, 5e-324, 1.7e308])


def reading_of(path: str, run: Run) -> Reading:
    return Reading(path, "run", run, tuple(range(2, 2 + len(run.outcomes))))


def compare(base: Run, new: Run) -> Judgement:
    settings = CompareSettings(
        comparison_policy(), RuleBook(), metrics=("*",), compare_anyway=True, cross_environment=True
    )
    sides = SideFiles([reading_of("base.jsonl", base)]), SideFiles([reading_of("new.jsonl", new)])
    return compare_files(*sides, settings)


def matched_in(compared: Judgement) -> int:
    assert compared.overview is not None
    return compared.overview.matched


def expect_readable(compared: Judgement) -> None:
    report = CompareReport(compared, ("base.jsonl",), ("new.jsonl",))
    document = json.loads(render_json(report))
    assert sum(document["summary"].values()) == len(document["rows"])
    assert document["exit_code"] == int(any(row["blocks"] for row in document["rows"]))
    assert render_text(report)
    assert render_github(report)
    assert render_junit(report)
    assert len(render_markdown(report).encode()) <= GITHUB_LIMIT


def cases_of(run: Run) -> set[Case]:
    return {outcome.case for outcome in run.outcomes}


def refusal_of(base: Run, new: Run) -> TorchstoneError | None:
    try:
        compare(base, new)
    except TorchstoneError as error:
        return error
    return None


def says_something(outcome: Outcome) -> bool:
    """Whether there is anything to compare: a case that passed and measured nothing is refused."""
    return bool(outcome.measurements) or outcome.status not in {PASSED, ""}


def with_outcomes(run: Run, outcomes: Iterable[Outcome]) -> Run:
    kept = tuple(outcomes)
    return structs.replace(run, plan=tuple(outcome.case for outcome in kept), outcomes=kept)


TELLING_RUNS = RUNS.filter(lambda run: any(map(says_something, run.outcomes)))


@st.composite
def comparable_runs(draw: st.DrawFn) -> tuple[Run, Run]:
    """Two runs with one case a name: some cases are in both, with other numbers and statuses, some only in one."""
    base, other = draw(TELLING_RUNS), draw(RUNS)
    outcomes = {outcome.case.benchmark: outcome for outcome in base.outcomes if says_something(outcome)}
    shared = draw(st.sets(st.sampled_from(sorted(outcomes)), min_size=1))
    changed = [_changed(draw, outcomes[name]) for name in sorted(shared)]
    named = {f"only here: {outcome.case.benchmark}": outcome for outcome in other.outcomes}
    added = [
        structs.replace(outcome, case=structs.replace(outcome.case, benchmark=name))
        for name, outcome in named.items()
    ]
    return with_outcomes(base, outcomes.values()), with_outcomes(
        other, draw(st.permutations(changed + added))
    )


def _changed(draw: st.DrawFn, outcome: Outcome) -> Outcome:
    """The same case with another end, or with other samples of some of its metrics."""
    samples = st.lists(NUMBERS, min_size=1, max_size=4).map(tuple)
    measured = [
        structs.replace(each, samples=draw(st.just(each.samples) | samples)) for each in outcome.measurements
    ]
    status = draw(st.just(outcome.status) | STATUS_WORDS)
    return structs.replace(outcome, status=status, measurements=tuple(measured))


@settings(deadline=None)
@given(comparable_runs())
def test_runs_that_share_cases_are_compared_whatever_is_in_them(runs: tuple[Run, Run]) -> None:
    base, new = runs
    compared = compare(base, new)
    expect_readable(compared)
    rows = {(row.case, row.metric): row for row in compared.rows}
    assert len(rows) == len(compared.rows)
    assert matched_in(compared) == len(cases_of(base) & cases_of(new))
    absent = {each.case for run in runs for each in run.outcomes if each.status == NOT_AVAILABLE}
    probes = {case.probe for case in base.plan}
    uncovered = {each.case for each in new.outcomes if each.case.probe not in probes and has_ended_well(each)}
    for verdict, alone in (
        (Verdict.MISSING, cases_of(base) - cases_of(new) - absent),
        (Verdict.NEW, cases_of(new) - cases_of(base) - absent - uncovered),
    ):
        assert {row.case for row in compared.rows if not (row.base and row.new)} >= alone
        assert all(
            {row.verdict for row in compared.rows if row.case == case} <= {verdict, Verdict.INVALID}
            for case in alone
        )
    before = {outcome.case: outcome for outcome in base.outcomes}
    for outcome in new.outcomes:
        was = before.get(outcome.case)
        if was and was.status == outcome.status == PASSED:
            assert {each.metric for each in outcome.measurements} <= {
                metric for case, metric in rows if case == outcome.case
            }


@settings(deadline=None)
@given(RUNS, RUNS)
def test_any_two_runs_can_be_compared_or_are_refused_for_a_reason_that_holds(base: Run, new: Run) -> None:
    refused = refusal_of(base, new)
    if not refused:
        names = [{case.benchmark for case in cases_of(run)} for run in (base, new)]
        assert names[0] & names[1]
        expect_readable(compare(base, new))
        return
    shared = cases_of(base) & cases_of(new)
    if "two cases" in refused.message:  # which differ in what the other side leaves open
        assert any(len({each.benchmark for each in run.plan}) < len(run.plan) for run in (base, new))
    elif isinstance(refused, InputError):
        assert "is already in" in refused.message
        assert any(len(cases_of(run)) < len(run.outcomes) for run in (base, new))
    else:
        assert re.match("nothing can be compared: (no outcome|in)|no case can be compared", refused.message)
        assert not any(
            says_something(each) for run in (base, new) for each in run.outcomes if each.case in shared
        )
    assert refused.advice


@settings(deadline=None)
@given(TELLING_RUNS)
def test_a_run_compared_with_itself_has_neither_regressions_nor_improvements(run: Run) -> None:
    run = with_outcomes(run, {outcome.case: outcome for outcome in run.outcomes}.values())
    compared = compare(run, run)
    assert matched_in(compared) == len(run.outcomes)
    assert {row.verdict for row in compared.rows} <= {
        Verdict.SAME,
        Verdict.EXPECTED_FAILURE,
        Verdict.INCONCLUSIVE,
        Verdict.INVALID,
    }
    expect_readable(compared)


@settings(deadline=None)
@given(
    st.lists(NUMBERS, min_size=1, max_size=5),
    st.lists(NUMBERS, min_size=1, max_size=5),
    st.sampled_from(
        ["abs_latency", "graph_breaks", "instruction_count", "speedup", "throughput", "warm_saved"]
    ),
    st.booleans(),
)
def test_any_numbers_end_in_a_verdict(base: list[float], new: list[float], metric: str, paired: bool) -> None:
    def run_of(values: list[float]) -> Run:
        details = MeasurementDetails(trials=(1,) * len(values), pairs="session" if paired else None)
        outcome = Outcome(case_of("a"), "pass", (Measurement(metric, tuple(values), details),))
        return Run("r", (outcome.case,), (outcome,))

    expect_readable(compare(run_of(base), run_of(new)))


def test_a_case_that_two_others_could_mean_is_refused() -> None:
    vague = passed("a", times(5), case=case_of("a", device="cpu"))
    two = [
        passed("a", times(5), case=case_of("a", device="cpu", dtype=dtype)) for dtype in ("amp", "float32")
    ]
    base = Run("base", (vague.case,), (vague,))
    new = Run("new", tuple(outcome.case for outcome in two), tuple(two))
    with pytest.raises(TorchstoneError, match="would have to be compared with two cases"):
        compare(base, new)
