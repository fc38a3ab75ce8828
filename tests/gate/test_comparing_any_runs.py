"""Whatever two runs hold, comparing them ends in a report or in a clear error, in every format."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from comparison_files import case_of, passed, times
from record_strategies import accuracy_runs, ddp_runs, full_runs, performance_runs, pr_time_runs, v3_runs
from torchstone.core.errors import TorchstoneError
from torchstone.core.records import TRIALS, Measurement, Outcome, Reading, Run
from torchstone.core.vocabulary import Verdict
from torchstone.gate.comparing import compare_files
from torchstone.gate.criteria import CompareSettings
from torchstone.gate.policy import comparison_policy
from torchstone.gate.rules import RuleBook
from torchstone.gate.trials_of_sides import Files
from torchstone.gate.verdicts import Judgement
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
    sides = Files([reading_of("base.jsonl", base)]), Files([reading_of("new.jsonl", new)])
    return compare_files(*sides, settings)


def expect_readable(compared: Judgement) -> None:
    report = CompareReport(compared, ("base.jsonl",), ("new.jsonl",))
    document = json.loads(render_json(report))
    assert sum(document["summary"].values()) == len(document["rows"])
    assert document["exit_code"] == int(any(row["blocks"] for row in document["rows"]))
    assert render_text(report)
    assert render_github(report)
    assert render_junit(report)
    assert len(render_markdown(report).encode()) <= GITHUB_LIMIT


@settings(max_examples=60, deadline=None)
@given(RUNS, RUNS)
def test_any_two_runs_can_be_compared_or_are_refused_clearly(base: Run, new: Run) -> None:
    with suppress(TorchstoneError):
        expect_readable(compare(base, new))


@settings(max_examples=60, deadline=None)
@given(RUNS)
def test_a_run_compared_with_itself_has_neither_regressions_nor_improvements(run: Run) -> None:
    try:
        compared = compare(run, run)
    except TorchstoneError:
        return
    assert {row.verdict for row in compared.rows} <= {
        Verdict.SAME,
        Verdict.EXPECTED_FAILURE,
        Verdict.INCONCLUSIVE,
        Verdict.INVALID,
        Verdict.MISSING,
        Verdict.NEW,
    }
    expect_readable(compared)


@settings(max_examples=150, deadline=None)
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
        extra = {TRIALS: [1] * len(values)} | ({"pairs": "session"} if paired else {})
        outcome = Outcome(case_of("a"), "pass", (Measurement(metric, tuple(values), extra),))
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
