"""Weighing and judging: each kind of evidence by its own method, and the same answer to every command."""

from __future__ import annotations

import math

import pytest

from torchstone.analyze.evidence import COUNT, EXACT, PAIRED, VALUE, WELCH, Evidence
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Rule
from torchstone.core.vocabulary import Verdict
from torchstone.gate.blocking_policy import Policy, comparison_policy
from torchstone.gate.criteria import Criteria
from torchstone.gate.judge import judge
from torchstone.gate.weigh import NO_VALUE, evidence_of, value_of, weigh
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.measure.ab.pair import PairResult

CASE = Case("steps", "performance")


def trials(*values: float, session: str = "") -> Measurement:
    details = MeasurementDetails(trials=(1,) * len(values), pairs=session or None)
    return Measurement("abs_latency", values, details)


def test_single_values_have_a_ratio_and_no_interval() -> None:
    found = weigh(value_of(trials(2.0)), value_of(trials(3.0)))
    assert (found.method, found.ratio, found.low, found.high) == (VALUE, 1.5, 0.0, math.inf)
    assert math.isnan(weigh(NO_VALUE, value_of(trials(3.0))).ratio)


def test_trials_scatter_counts_are_exact_and_trials_that_took_turns_are_pairs() -> None:
    slow, fast = trials(2.0, 2.1, 2.05), trials(1.0, 1.1, 1.05)
    assert weigh(*evidence_of(fast, slow), alpha=0.01).method == WELCH
    taking_turns = (trials(*each.samples, session="s") for each in (fast, slow))
    assert weigh(*evidence_of(*taking_turns), alpha=0.01).method == PAIRED
    counts = weigh(Evidence((3,), 1, COUNT), Evidence((4,), 1, COUNT), alpha=0.01)
    assert (counts.method, counts.low, counts.high) == (EXACT, 4 / 3, 4 / 3)


def test_what_cannot_be_compared_has_no_effect_and_is_inconclusive() -> None:
    found = weigh(value_of(trials(2.0)), value_of(trials(9.0)), obstacle="not comparable: another machine")
    assert math.isnan(found.ratio)
    for rule, policy in ((Rule("ratio_ceiling", ratio=1.1), Policy()), (Criteria(0.02), comparison_policy())):
        ruling = judge(found, rule, policy, "abs_latency")
        assert (ruling.verdict, ruling.detail) == (Verdict.INCONCLUSIVE, "not comparable: another machine")


@pytest.mark.parametrize(
    ("new", "verdict", "blocks"),
    [(1.0, "pass", False), (1.2, "regression", True), (0.8, "improvement", False)],
)
def test_a_rule_decides_on_values(new: float, verdict: str, blocks: bool) -> None:
    found = weigh(value_of(trials(1.0)), value_of(trials(new)))
    ruling = judge(found, Rule("ratio_ceiling", ratio=1.1), Policy(), "abs_latency")
    assert (ruling.verdict, ruling.blocks) == (verdict, blocks)


@pytest.mark.parametrize(("ratio", "verdict"), [(1.0, "same"), (1.1, "regression"), (0.9, "improvement")])
def test_pairs_are_judged_alike_while_they_are_measured_and_when_they_are_read(
    ratio: float, verdict: str
) -> None:
    settings = AbSettings(session="s")
    contest = Contest(CASE, (CASE, CASE), 0, settings)
    passed = Outcome(CASE, "pass")
    for number in range(30):
        if not contest.verdict:
            noise = 1 + 0.001 * (number % 3)
            contest.take(PairResult(((1.0, 1.01), (ratio * noise, ratio * noise * 1.01)), (passed, passed)))
    assert contest.verdict == verdict
    (base,), (new,) = (contest.outcome(side, "").measurements for side in (0, 1))
    found = weigh(*evidence_of(base, new), alpha=settings.alpha)
    assert found == contest.comparison
    assert judge(found, settings.criteria, comparison_policy(), "abs_latency").verdict == contest.verdict
