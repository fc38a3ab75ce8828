"""Judge one metric of one result: find its rule, see what prevents a comparison, weigh, judge, and make the row."""

from __future__ import annotations

from msgspec import Struct

from torchstone.analyze.evidence import Comparison, Evidence
from torchstone.core.cautions import Caution
from torchstone.core.errors import printable
from torchstone.core.records import Case, Measurement, Number, Outcome, Rule
from torchstone.core.vocabulary import ACCURACY, PASSED, SKIPPED, Verdict
from torchstone.gate.baseline import is_single_count, measurement_of
from torchstone.gate.blocking_policy import UPSTREAM_COUNTS
from torchstone.gate.checking.near_edges import NearEdge, find_near_limit, near_edge_cautions
from torchstone.gate.checking.tally import Tally
from torchstone.gate.comparable import Comparability, EnvironmentGap
from torchstone.gate.judge import judge
from torchstone.gate.judgement import Conditions, Row, Ruling
from torchstone.gate.rules import (
    NEEDS_NO_BASELINE,
    SHARES,
    decide_status,
    is_our_ratio,
    numbers_count,
    use_own_margin,
)
from torchstone.gate.weigh import value_of, weigh


class CheckedCase(Struct, frozen=True, gc=False):
    """A result, its expected outcome, and what holds for all its metrics.

    ``status_explains`` says that a failed status explains a missing number; ``numbers_count`` that its numbers belong to the expected row.
    """

    outcome: Outcome
    expected: Outcome | None = None
    gap: EnvironmentGap | None = None
    status_explains: bool = True
    numbers_count: bool = True


class JudgedNumber(Struct, frozen=True, gc=False):
    """A weighed and judged number, and the limit it is close to, if any."""

    comparison: Comparison
    ruling: Ruling
    near_limit: float | None = None


class MetricRows:
    """Makes the rows of metrics. Equal counts under the same rule are weighed and judged once: results have many of them."""

    def __init__(self, conditions: Conditions, tally: Tally, comparability: Comparability) -> None:
        self._policy = conditions.policy
        self._rules = conditions.rules
        self._upstream = conditions.policy.is_upstream
        self._tally = tally
        self._comparability = comparability
        self._judged_counts: dict[tuple[int, str, Number, Number], JudgedNumber] = {}
        self._near_edges: list[NearEdge] = []

    def checked(
        self, outcome: Outcome, expected: Outcome, gap: EnvironmentGap | None, *, status_explains: bool
    ) -> CheckedCase:
        """Return a result with its expected outcome, ready to be judged."""
        counts = self._upstream or numbers_count(outcome, expected.status)
        return CheckedCase(outcome, expected, gap, status_explains, counts)

    def row(self, checked: CheckedCase, metric: str, rule: Rule | None) -> Row | None:
        """Return the row of a metric; None if its number is missing or meaningless, and the status of the case says so already."""
        outcome, expected = checked.outcome, checked.expected
        if metric == ACCURACY and rule:
            verdict = decide_status(rule, outcome.status, expected.status if expected else "")
            return self._tally.make_row(verdict, outcome.case, metric, outcome, expected, rule)
        wanted, found = measurement_of(expected, metric), measurement_of(outcome, metric)
        rule = self._with_own_margin(rule, metric, wanted)
        if rule is None:
            detail = f"no rule for {metric}"
            return self._tally.make_row(
                Verdict.INCONCLUSIVE, outcome.case, metric, outcome, expected, None, detail
            )
        if (
            self._upstream
            and metric in UPSTREAM_COUNTS
            and (not found or outcome.value("unique_graphs") == 0)
        ):
            detail = "nothing was compiled, which the original lets pass"
            return self._tally.make_row(Verdict.PASS, outcome.case, metric, outcome, expected, rule, detail)
        if found is None:
            return self._row_without_number(checked, metric, rule)
        if wanted is not None and not checked.numbers_count:
            return None
        return self._number_row(checked, rule, found, wanted)

    def rule_of(self, metric: str, case: Case, wanted: Measurement | None) -> Rule | None:
        """Return the rule for a metric, with the margin of its baseline row where that has one."""
        return self._with_own_margin(self._rules.find(metric, case), metric, wanted)

    def _with_own_margin(self, rule: Rule | None, metric: str, wanted: Measurement | None) -> Rule | None:
        """Return the rule with the margin of the baseline row. Upstream states a margin only for speedups."""
        if wanted is None or wanted.details is None:
            return rule
        if rule and (not is_our_ratio(rule) or (self._upstream and metric != "speedup")):
            return rule
        return use_own_margin(rule, wanted.margin)

    def _row_without_number(self, checked: CheckedCase, metric: str, rule: Rule) -> Row | None:
        """Return the row of a number that the result lacks; None if the status of the case explains it."""
        outcome, expected = checked.outcome, checked.expected
        if outcome.status not in {PASSED, ""} and checked.status_explains:
            return None
        if left_out := outcome.why_left_out(metric):
            detail = f"not measured: {left_out}"
            return self._tally.make_row(
                Verdict.INCONCLUSIVE, outcome.case, metric, outcome, expected, rule, detail
            )
        why = f"it was skipped{failure_reason(outcome)}: " if outcome.status == SKIPPED else ""
        detail = f"{why}the result has no {metric}{_counter_used(outcome)}"
        return self._tally.make_row(Verdict.MISSING, outcome.case, metric, outcome, expected, rule, detail)

    def _number_row(
        self, checked: CheckedCase, rule: Rule, found: Measurement, wanted: Measurement | None
    ) -> Row:
        """Return the row of a number."""
        outcome, metric = checked.outcome, found.metric
        if (
            wanted is not None
            and rule.kind == "count"
            and checked.gap is None
            and is_single_count(found)
            and is_single_count(wanted)
        ):
            key = id(rule), metric, found.samples[0], wanted.samples[0]
            judged = self._judged_counts.get(key)
            if judged is None:
                judged = self._judged_counts[key] = self._judge_number(rule, found, wanted, None)
        else:
            judged = self._judge_number(rule, found, wanted, checked.gap)
        if judged.near_limit is not None and wanted is not None:
            near = NearEdge(outcome.case, metric, found.value, wanted.value, judged.near_limit)
            self._near_edges.append(near)
        ruling = judged.ruling
        return self._tally.make_row(
            ruling.verdict,
            outcome.case,
            metric,
            outcome,
            checked.expected,
            rule,
            ruling.detail,
            comparison=judged.comparison,
        )

    def _judge_number(
        self, rule: Rule, found: Measurement, wanted: Measurement | None, gap: EnvironmentGap | None
    ) -> JudgedNumber:
        """Weigh a number against the expected one, and judge it."""
        base, new = value_of(wanted), value_of(found)
        obstacle = ""
        if wanted is not None and rule.kind not in NEEDS_NO_BASELINE:
            obstacle = self._no_share(rule, base, new)
            if not obstacle and (why := self._comparability.obstacle(gap, found.metric, found, wanted)):
                obstacle = f"not comparable: {why}"
        comparison = weigh(base, new, obstacle=obstacle)
        margin = wanted.margin if wanted else None
        ruling = judge(comparison, rule, self._policy, found.metric, margin)
        near_limit = None
        if ruling.verdict is Verdict.PASS and not self._upstream:
            near_limit = find_near_limit(comparison, rule, margin)
        return JudgedNumber(comparison, ruling, near_limit)

    def _no_share(self, rule: Rule, base: Evidence, new: Evidence) -> str:
        """Say why a rule about a share of the expected value cannot be applied; empty if it can."""
        expected = base.values[0]
        if rule.kind in SHARES and expected <= 0 and new.values[0] != expected and not self._upstream:
            return "the expected value is not positive, so a share of it means nothing"
        return ""

    def near_edge_cautions(self) -> list[Caution]:
        """Return the cautions about values that passed, but are close to their limit."""
        return near_edge_cautions(self._near_edges)


def failure_reason(outcome: Outcome) -> str:
    """Return the message of a failure, after a colon; empty if there is none."""
    return f": {outcome.failure.message}" if outcome.failure and outcome.failure.message else ""


def _counter_used(outcome: Outcome) -> str:
    """Name the counter of a result, which may be why it lacks what another counter counts."""
    counters = {measurement.counter for measurement in outcome.measurements} - {""}
    return f": it was counted by the {printable(min(counters), 40)} counter" if counters else ""
