"""Judge one metric of one result: find its rule, see what prevents a comparison, weigh, judge, and make the row."""

from __future__ import annotations

from msgspec import Struct, structs

from torchstone.analyze.evidence import Comparison
from torchstone.core.cautions import Caution
from torchstone.core.errors import printable
from torchstone.core.records import Case, Measurement, Number, Outcome, Rule, unit_of
from torchstone.core.run_settings import Settings
from torchstone.core.vocabulary import ACCURACY, PASSED, SKIPPED, Verdict
from torchstone.gate.baseline import has_numbers, is_single_count, measurement_of
from torchstone.gate.blocking_policy import UPSTREAM_COUNTS
from torchstone.gate.checking.near_edges import NearEdge, find_near_limit, near_edge_cautions
from torchstone.gate.checking.tally import Tally
from torchstone.gate.comparable import NOT_COMPARABLE, Comparability, EnvironmentGap, depends_on_environment
from torchstone.gate.criteria import CompareSettings, Criteria
from torchstone.gate.disturbance import steady_part, tell_disturbances
from torchstone.gate.judge import judge, judge_alone
from torchstone.gate.judgement import DRAFT, Conditions, Row, Ruling
from torchstone.gate.rules import (
    NEEDS_NO_BASELINE,
    decide_status,
    is_our_ratio,
    numbers_count,
    statuses_agree,
    use_own_margin,
)
from torchstone.gate.weigh import evidence_of, value_of, weigh
from torchstone.gate.weigh_metric import MeasuredSide, MetricWeigher


class CheckedFiles(Struct, frozen=True, gc=False):
    """Facts about the files of a result and its expected outcome: differences of their environments, which of them torchstone measured, and the settings of the results."""

    gap: EnvironmentGap | None = None
    is_measured: bool = False
    is_baseline_measured: bool = False
    settings: Settings | None = None


NO_FILES = CheckedFiles()
_PASSES = Ruling(Verdict.PASS)


class CheckedCase(Struct, frozen=True, gc=False):
    """A result, its expected outcome, and what holds for all its metrics.

    ``status_explains`` says that a failed status explains a missing number; ``numbers_count`` that its numbers belong to the expected row.
    ``ended_as`` is how the baseline failed, if its numbers are only those up to a failure that the result does not have.
    """

    outcome: Outcome
    expected: Outcome | None = None
    files: CheckedFiles = NO_FILES
    status_explains: bool = True
    numbers_count: bool = True
    ended_as: str = ""


class JudgedNumber(Struct, frozen=True, gc=False):
    """A weighed and judged number, its criteria, and the limit it is close to, if any."""

    comparison: Comparison
    ruling: Ruling
    criteria: Criteria | None = None
    near_limit: float | None = None


class MetricRows:
    """Makes the rows of metrics. Equal counts under the same rule are weighed and judged once: results have many of them."""

    def __init__(self, conditions: Conditions, tally: Tally, comparability: Comparability) -> None:
        self._policy = conditions.policy
        self._rules = conditions.rules
        self._upstream = conditions.policy.is_upstream
        self._tally = tally
        self._comparability = comparability
        self._settings = CompareSettings(
            conditions.policy,
            conditions.rules,
            compare_anyway=conditions.compare_anyway,
            cross_environment=conditions.cross_environment,
            looks=conditions.looks,
        )
        self._weigher = MetricWeigher(self._settings, comparability)
        self._judged_counts: dict[tuple[int, str, Number, Number], JudgedNumber] = {}
        self._near_edges: list[NearEdge] = []

    def checked(
        self, outcome: Outcome, expected: Outcome, files: CheckedFiles, *, status_explains: bool
    ) -> CheckedCase:
        """Return a result with its expected outcome, ready to be judged."""
        counts = self._upstream or numbers_count(outcome, expected.status)
        ended_as = ""
        if outcome.status != expected.status and not self._upstream and not has_numbers(expected):
            ended_as = "" if statuses_agree(outcome.status, expected.status) else expected.status
        return CheckedCase(outcome, expected, files, status_explains, counts, ended_as)

    def row(self, checked: CheckedCase, metric: str, rule: Rule | None) -> Row | None:
        """Return the row of a metric; None if its number is missing or meaningless, and the status of the case says so already."""
        outcome, expected = checked.outcome, checked.expected
        if metric == ACCURACY and rule:
            verdict = decide_status(rule, outcome.status, expected.status if expected else "")
            return self._tally.make_row(verdict, outcome.case, metric, outcome, expected, rule)
        wanted, found = measurement_of(expected, metric), measurement_of(outcome, metric)
        rule = self._with_own_margin(rule, metric, wanted)
        if rule is None and self._upstream:
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
        if checked.ended_as and self._needs_whole(metric, rule):
            detail = f"{NOT_COMPARABLE}the baseline ended as {checked.ended_as}"
            return self._tally.make_row(
                Verdict.INCONCLUSIVE, outcome.case, metric, outcome, expected, rule, detail
            )
        return self._number_row(checked, rule, found, wanted)

    def _needs_whole(self, metric: str, rule: Rule | None) -> bool:
        """Return whether a number means nothing if it is compared with one up to a failure: counts are exact as far as they go."""
        return depends_on_environment(metric) and not (rule and rule.kind in NEEDS_NO_BASELINE)

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

    def _row_without_number(self, checked: CheckedCase, metric: str, rule: Rule | None) -> Row | None:
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
        self, checked: CheckedCase, rule: Rule | None, found: Measurement, wanted: Measurement | None
    ) -> Row:
        """Return the row of a number. One with a p-value is a draft: it is judged together with all others."""
        outcome, metric = checked.outcome, found.metric
        judged = self._judge_number(checked, rule, found, wanted)
        comparison = judged.comparison
        if comparison.p_value is not None:
            return Row(
                DRAFT,
                outcome.case,
                metric,
                outcome,
                checked.expected,
                rule,
                comparison=comparison,
                criteria=judged.criteria,
            )
        if judged.near_limit is not None and wanted is not None:
            unit = unit_of(metric, found)
            near = NearEdge(outcome.case, metric, found.value, wanted.value, judged.near_limit, unit)
            self._near_edges.append(near)
        ruling = judged.ruling
        row = self._tally.make_row(
            ruling.verdict,
            outcome.case,
            metric,
            outcome,
            checked.expected,
            rule,
            ruling.detail,
            comparison=comparison,
        )
        if ruling.levels is None:
            return row
        return structs.replace(row, ruling=structs.replace(row.ruling, levels=ruling.levels))

    def _judge_number(
        self, checked: CheckedCase, rule: Rule | None, found: Measurement, wanted: Measurement | None
    ) -> JudgedNumber:
        """Weigh a number against the expected one, and judge it; equal counts only once."""
        if rule is not None and (wanted is None or rule.kind in NEEDS_NO_BASELINE):
            return self._judge_alone(checked, rule, found, wanted)
        if wanted is None:
            raise RuntimeError(f"{found.metric} has neither a rule nor an expected value")
        is_count = rule is not None and rule.kind == "count" and checked.files.gap is None
        if not (is_count and is_single_count(found) and is_single_count(wanted)):
            return self._weigh_and_judge(checked, rule, found, wanted)
        key = id(rule), found.metric, found.samples[0], wanted.samples[0]
        judged = self._judged_counts.get(key)
        if judged is None:
            judged = self._judged_counts[key] = self._weigh_and_judge(checked, rule, found, wanted)
        return judged

    def _judge_alone(
        self, checked: CheckedCase, rule: Rule, found: Measurement, wanted: Measurement | None
    ) -> JudgedNumber:
        """Judge a number by a rule that needs no baseline."""
        comparison = weigh(value_of(wanted), value_of(found))
        if self._upstream:
            return JudgedNumber(comparison, judge(comparison, rule, self._policy, found.metric))
        steady, caution = steady_part(checked.outcome, found)
        if steady is None and caution is not None:
            why = tell_disturbances({"it": caution})
            return JudgedNumber(comparison, Ruling(Verdict.INCONCLUSIVE, detail=why))
        side, _ = evidence_of(steady or found, steady or found, measured=checked.files.is_measured)
        return JudgedNumber(comparison, judge_alone(side, rule, self._policy, self._settings.level))

    def _weigh_and_judge(
        self, checked: CheckedCase, rule: Rule | None, found: Measurement, wanted: Measurement
    ) -> JudgedNumber:
        """Weigh a number against the expected one; judge it unless it has a p-value."""
        if self._upstream and rule is not None:
            return self._judge_as_upstream(rule, found, wanted)
        files, metric = checked.files, found.metric
        comparison, criteria = self._weigher.weigh(
            MeasuredSide(checked.expected or checked.outcome, wanted, files.is_baseline_measured),
            MeasuredSide(checked.outcome, found, files.is_measured),
            self._weigher.criteria_of(metric, checked.outcome.case),
            files.gap,
            files.settings,
        )
        ruling = judge(comparison, criteria, self._policy, metric)
        near_limit = None
        if ruling.verdict is Verdict.SAME:
            ruling = _PASSES  # the tally asks the policy whether it blocks
            near_limit = find_near_limit(comparison, rule, wanted.margin) if rule else None
        return JudgedNumber(comparison, ruling, criteria, near_limit)

    def _judge_as_upstream(self, rule: Rule, found: Measurement, wanted: Measurement) -> JudgedNumber:
        """Judge a single value by the limits of its rule, as PyTorch's own scripts do."""
        why = self._comparability.obstacle(None, found.metric, found, wanted)
        obstacle = f"{NOT_COMPARABLE}{why}" if why else ""
        comparison = weigh(value_of(wanted), value_of(found), obstacle=obstacle, comparable=not why)
        return JudgedNumber(comparison, judge(comparison, rule, self._policy, found.metric, wanted.margin))

    def cautions(self) -> list[Caution]:
        """Return the cautions about values that passed, but are close to their limit, and about recorded criteria."""
        return [*near_edge_cautions(self._near_edges), *self._weigher.recorded_cautions()]


def failure_reason(outcome: Outcome) -> str:
    """Return the message of a failure, after a colon; empty if there is none."""
    return f": {outcome.failure.message}" if outcome.failure and outcome.failure.message else ""


def _counter_used(outcome: Outcome) -> str:
    """Name the counter of a result, which may be why it lacks what another counter counts."""
    counters = {measurement.counter for measurement in outcome.measurements} - {""}
    return f": it was counted by the {printable(min(counters), 40)} counter" if counters else ""
