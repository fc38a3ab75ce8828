"""Check results against a baseline: every case that was planned, expected or measured gets its rows, and all rules run even when one fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from torchstone.core.cautions import Caution
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Measurement, Number, Outcome, Reading, Rule, matches_metric
from torchstone.core.vocabulary import (
    ACCURACY,
    FAILED,
    METRICS,
    NOT_AVAILABLE,
    PASSED,
    SKIPPED,
    Probe,
    Verdict,
)
from torchstone.formats.merge import Results
from torchstone.gate.baseline import Baseline, ExpectedRow, expects_status, has_numbers, main_metric
from torchstone.gate.checking.tally import Tally, counted_instead, measurement_of, told_by
from torchstone.gate.comparable import Apart, Comparability
from torchstone.gate.judge import find_near_edge, judge
from torchstone.gate.policy import UPSTREAM_COUNTS, upstream_metrics
from torchstone.gate.rules import (
    BY_OWN_MARGIN,
    NEEDS_NO_BASELINE,
    SHARES,
    decide_status,
    ended_alike,
    is_our_ratio,
    numbers_count,
    use_own_margin,
)
from torchstone.gate.sanity import contradictions
from torchstone.gate.verdicts import QUIET, Conditions, Judgement, Row
from torchstone.gate.weigh import value_of, weigh

_NOT_FAILED = frozenset({PASSED, SKIPPED, ""})


def check_against_baseline(results: Results, baseline: Baseline, conditions: Conditions) -> Judgement:
    """Judge plan, baseline and results together, so that nothing can vanish and stay green."""
    judging = _Checking(results, baseline, conditions)
    tally = judging.tally
    for number, (reading, index, outcome) in enumerate(results, 1):
        rows = judging.rows_of(outcome, reading, index, number)
        if invalid := judging.invalid_rows(outcome, reading, index):
            wrong = {row.metric for row in invalid}
            rows = [row for row in rows if row.metric not in wrong] + invalid
        tally.take(rows, planned=reading.kind == "run")
    for reading, case in results.unmeasured():
        tally.take([judging.unmeasured_row(case, reading)], planned=True)
    for row in baseline.unclaimed():
        tally.take(judging.missing_rows(row))
    return tally.finish(results, baseline, [*judging.comparability.cautions(), *judging.near_edges()])


class _Checking:
    """State while results are checked."""

    def __init__(self, results: Results, baseline: Baseline, conditions: Conditions) -> None:
        self._results = results
        self._baseline = baseline
        self._conditions = conditions
        self._rules = conditions.rules
        self._upstream = conditions.policy.is_upstream
        self._alone = conditions.rules.metrics_without_baseline()
        self._sane: set[int] = set()  # ids of measurements, which many results share, already looked at
        self._asked = self._asked_metrics()
        self._wanted = (
            upstream_metrics(self._expected_metrics())
            if self._upstream and self._asked is None
            else self._asked
        )
        self._spoken_of: list[str] | None = None
        self._near: list[tuple[Case, str, Number, Number, float]] = []  # what passed, but only just
        self.tally = Tally(conditions, results)
        self.comparability = Comparability(conditions)

    def _expected_metrics(self) -> dict[str, None]:
        """The metrics that the baselines speak of, in their order."""
        known = dict.fromkeys([ACCURACY] if Probe.ACCURACY in self._baseline.probes else [])
        for reading in self._baseline.whole:
            for outcome in reading.run.outcomes:
                known.update(dict.fromkeys(m.metric for m in outcome.measurements))
        return known

    def _asked_metrics(self) -> set[str] | None:
        """The metrics that ``--metric`` chooses; None where it was not given."""
        asked = self._conditions.metrics
        if not asked:
            return None
        measured = {m.metric for _, _, outcome in self._results for m in outcome.measurements}
        known = [*self._expected_metrics(), *sorted(measured), ACCURACY]
        chosen = {metric for metric in known if any(matches_metric(pattern, metric) for pattern in asked)}
        for pattern in asked:
            if not any(matches_metric(pattern, metric) for metric in chosen):
                advice = f"there are: {', '.join(dict.fromkeys(known))}"
                raise UsageError(f"--metric {pattern}: neither results nor baseline have it", advice=advice)
        return chosen

    def rows_of(self, outcome: Outcome, reading: Reading, index: int, number: int) -> list[Row]:
        """All rows of one result."""
        anyway = self._conditions.compare_anyway
        match = self._baseline.find(outcome.case, by_name_only=self._upstream or anyway)
        if match is None:
            return self._rows_without_baseline(outcome, reading, index)
        if match.differences and not anyway:
            self._baseline.touch(match.row)
            metric = main_metric(match.row.outcome)
            detail = "not comparable: " + "; ".join(match.differences)
            row = self.tally.make_row(
                Verdict.INCONCLUSIVE, outcome.case, metric, outcome, match.row.outcome, detail=detail
            )
            return [self.tally.place(row, reading, index, match.row)]
        if before := self._baseline.claim(match.row, number):
            self._refuse_second(match.row, reading, index, before)
        apart = self.comparability.between(reading, match.row.reading)
        self.comparability.note_counters(reading, outcome, match.row.reading, match.row.outcome)
        rows = self._judge_expected(outcome, match.row.outcome, apart)
        return [
            row
            if row.verdict in QUIET and not row.blocks
            else self.tally.place(row, reading, index, match.row)
            for row in rows
        ]

    def _refuse_second(self, expected: ExpectedRow, reading: Reading, index: int, before: int) -> None:
        first = next((r, i) for number, (r, i, _) in enumerate(self._results, 1) if number == before)
        name = expected.outcome.case.name
        raise InputError(
            f"{name}: a second result for the baseline row {expected.place}; the first is in {first[0].place(first[1])}",
            path=reading.path,
            line=reading.lines[index],
            column="name",
            advice="judge one of them with --only, or use a baseline that tells them apart",
        )

    def _judge_expected(self, outcome: Outcome, expected: Outcome, apart: Apart | None) -> list[Row]:
        """The rows of a result with an expected one: each metric, or one for a case that failed before it could be measured."""
        unavailable = expected.status == NOT_AVAILABLE and outcome.status != NOT_AVAILABLE
        if unavailable or (not expected.status and not expected.measurements):
            detail = "its baseline row expects nothing"
            detail += ": it was not available there" if unavailable else ""
            return [
                self.tally.make_row(
                    Verdict.NEW, outcome.case, self._main_metric(outcome), outcome, None, detail=detail
                )
            ]
        metrics = self._metrics_of(outcome, expected)
        alike = ended_alike(outcome.status, expected.status)
        failed = outcome.status not in _NOT_FAILED and not alike
        of_accuracy = outcome.case.probe == Probe.ACCURACY
        if failed and (not of_accuracy or not (self._upstream or has_numbers(outcome))):
            return [self._failed_row(outcome, expected, metrics)]
        told = alike or ACCURACY in metrics or self._upstream
        rows = [
            row
            for metric in metrics
            if (row := self._judge_metric(outcome, expected, metric, apart, told=told))
        ]
        return [*rows, *self._unexpected_counts(outcome, expected)]

    def _failed_row(self, outcome: Outcome, expected: Outcome | None, metrics: Sequence[str]) -> Row:
        """One row for a case that failed otherwise than expected: its numbers, if it has any, mean nothing.

        What cannot be measured here did not fail: it is missing, and so stays neither green nor a regression.
        """
        metric = metrics[0] if metrics else ACCURACY
        rule = self._rules.find(metric, outcome.case)
        if outcome.status == NOT_AVAILABLE:
            why = f"not available here{told_by(outcome)}"
            return self.tally.make_row(
                Verdict.MISSING, outcome.case, metric, outcome, expected, rule, why, of=ACCURACY
            )
        why = (
            "the file does not say why" if outcome.status == FAILED else f"the case failed: {outcome.status}"
        )
        detail = "" if metric == ACCURACY else why
        return self.tally.make_row(
            Verdict.REGRESSION, outcome.case, metric, outcome, expected, rule, detail, of=ACCURACY
        )

    def _metrics_of(self, outcome: Outcome, expected: Outcome) -> list[str]:
        """The metrics to judge of one result: those expected, and those whose rule needs no baseline."""
        metrics = [ACCURACY] if expects_status(expected) else []
        metrics += [measurement.metric for measurement in expected.measurements]
        if self._wanted is not None:
            metrics = [metric for metric in metrics if metric in self._wanted]
        if self._alone:
            metrics += [metric for metric in self._metrics_alone(outcome) if metric not in metrics]
        return [metric for metric in metrics if not self._rules.ignores(metric, outcome.case)]

    def _metrics_alone(self, outcome: Outcome) -> list[str]:
        """The metrics of a result that some rule judges without a baseline."""
        probe = outcome.case.probe
        has = {m.metric for m in outcome.measurements} | {ACCURACY}
        due = {name for name, metric in METRICS.items() if probe in metric.probes}
        found = {metric: self._rules.find(metric, outcome.case) for metric in sorted(has | due)}
        alone = [metric for metric, rule in found.items() if rule and rule.kind in NEEDS_NO_BASELINE]
        return [metric for metric in alone if self._asked is None or metric in self._asked]

    def _unexpected_counts(self, outcome: Outcome, expected: Outcome) -> Iterator[Row]:
        """Of instruction counts each metric is a row of the baseline: one that has none is new."""
        if outcome.case.probe == Probe.INSTRUCTIONS:
            known = {measurement.metric for measurement in expected.measurements} | set(
                self._metrics_alone(outcome)
            )
            for measurement in outcome.measurements:
                if (
                    measurement.metric not in known
                    and (self._wanted is None or measurement.metric in self._wanted)
                    and not self._rules.ignores(measurement.metric, outcome.case)
                ):
                    rule = self._rules.find(measurement.metric, outcome.case) or BY_OWN_MARGIN
                    detail = "no baseline row for this metric"
                    yield self.tally.make_row(
                        Verdict.NEW, outcome.case, measurement.metric, outcome, None, rule, detail
                    )

    def _rows_without_baseline(self, outcome: Outcome, reading: Reading, index: int) -> list[Row]:
        alone = self._metrics_alone(outcome) if self._alone else []
        if outcome.status == NOT_AVAILABLE and not alone:
            self.tally.note_unavailable(outcome)
            return []
        rows: list[Row | None] = []
        if alone and outcome.status not in _NOT_FAILED and outcome.case.probe != Probe.ACCURACY:
            rows.append(self._failed_row(outcome, None, alone))
        else:
            rows += [self._judge_metric(outcome, None, metric) for metric in alone]
        if outcome.case.probe in self._baseline.probes or "" in self._baseline.probes:
            metric = self._main_metric(outcome)
            rule = self._rules.find(metric, outcome.case)
            row = self.tally.make_row(
                Verdict.NEW, outcome.case, metric, outcome, None, rule, "no baseline row"
            )
            rows.append(self._refuse_failure(row, outcome))
        elif not rows and self._is_unexpected_failure(outcome):
            detail = "it failed, and no baseline says that it does"
            row = self.tally.make_row(Verdict.NEW, outcome.case, ACCURACY, outcome, None, None, detail)
            rows.append(self._refuse_failure(row, outcome))
        return [self.tally.place(row, reading, index, None) for row in rows if row is not None]

    def _refuse_failure(self, row: Row, outcome: Outcome) -> Row:
        """What is new and failed blocks as any failure does, whoever lets new cases pass."""
        fails = row.verdict is Verdict.NEW and outcome.status not in _NOT_FAILED and not self._upstream
        policy = self._conditions.policy
        if not fails:
            return row
        ruling = structs.replace(row.ruling, blocks=policy.blocks(Verdict.REGRESSION, row.rule))
        return structs.replace(row, ruling=ruling)

    def _is_unexpected_failure(self, outcome: Outcome) -> bool:
        """Whether a case of a probe that no baseline speaks of failed, unless its accuracy is expected to fail anyway."""
        if outcome.status in _NOT_FAILED or self._upstream or self._asked is not None:
            return False
        of_accuracy = self._baseline.find(structs.replace(outcome.case, probe=Probe.ACCURACY.value))
        return of_accuracy is None or of_accuracy.row.outcome.status in _NOT_FAILED

    def _main_metric(self, outcome: Outcome) -> str:
        """The metric that stands for a result without a baseline: one that the baselines speak of, else one that it has."""
        if self._spoken_of is None:
            self._spoken_of = [*(self._expected_metrics() if self._wanted is None else sorted(self._wanted))]
        of_case = [ACCURACY] * (outcome.case.probe == Probe.ACCURACY) + [
            m.metric for m in outcome.measurements
        ]
        known = [metric for metric in of_case if metric in self._spoken_of]
        if known:
            return known[0]
        has_others = outcome.measurements and self._asked is None
        return main_metric(outcome) if has_others or not self._spoken_of else self._spoken_of[0]

    def _judge_metric(
        self,
        outcome: Outcome,
        expected: Outcome | None,
        metric: str,
        apart: Apart | None = None,
        *,
        told: bool = True,
    ) -> Row | None:
        """The row of one metric; None where it is not there, and the status says why: as expected, or in a row of its own (``told``)."""
        rule = self._rules.find(metric, outcome.case)
        if metric == ACCURACY and rule:
            verdict = decide_status(rule, outcome.status, expected.status if expected else "")
            return self.tally.make_row(verdict, outcome.case, metric, outcome, expected, rule)
        wanted, found = measurement_of(expected, metric), measurement_of(outcome, metric)
        rule = self._with_own_margin(rule, metric, wanted)
        if rule is None:
            detail = f"no rule for {metric}"
            return self.tally.make_row(
                Verdict.INCONCLUSIVE, outcome.case, metric, outcome, expected, None, detail
            )
        if (
            self._upstream
            and metric in UPSTREAM_COUNTS
            and (not found or outcome.value("unique_graphs") == 0)
        ):
            detail = "nothing was compiled, which the original lets pass"
            return self.tally.make_row(Verdict.PASS, outcome.case, metric, outcome, expected, rule, detail)
        if found is None:
            if outcome.status not in {PASSED, ""} and told:
                return None
            if left_out := outcome.why_left_out(metric):
                detail = f"not measured: {left_out}"
                return self.tally.make_row(
                    Verdict.INCONCLUSIVE, outcome.case, metric, outcome, expected, rule, detail
                )
            why = f"it was skipped{told_by(outcome)}: " if outcome.status == SKIPPED else ""
            detail = f"{why}the result has no {metric}{counted_instead(outcome)}"
            return self.tally.make_row(Verdict.MISSING, outcome.case, metric, outcome, expected, rule, detail)
        if wanted and expected and not self._upstream and not numbers_count(outcome, expected.status):
            return None
        obstacle = self._obstacle(rule, metric, found, wanted, apart)
        comparison = weigh(value_of(wanted), value_of(found), obstacle=obstacle)
        margin = wanted.margin if wanted else None
        ruling = judge(comparison, rule, self._conditions.policy, metric, margin)
        if ruling.verdict is Verdict.PASS and not self._upstream:
            edge = find_near_edge(comparison, rule, margin)
            if edge is not None and wanted is not None:
                self._near.append((outcome.case, metric, found.value, wanted.value, edge))
        return self.tally.make_row(
            ruling.verdict,
            outcome.case,
            metric,
            outcome,
            expected,
            rule,
            ruling.detail,
            comparison=comparison,
        )

    def _with_own_margin(self, rule: Rule | None, metric: str, wanted: Measurement | None) -> Rule | None:
        """The rule for a number of which the baseline may state a margin. Of the original's ratios only that of speedups is stated with the target."""
        if wanted is None or (rule and (not is_our_ratio(rule) or (self._upstream and metric != "speedup"))):
            return rule
        return use_own_margin(rule, wanted.margin)

    def _obstacle(
        self, rule: Rule, metric: str, found: Measurement, wanted: Measurement | None, apart: Apart | None
    ) -> str:
        """Why a number cannot be held against the expected one; empty where it can, or need not be."""
        if wanted is None or rule.kind in NEEDS_NO_BASELINE:
            return ""
        if rule.kind in SHARES and wanted.value <= 0 and found.value != wanted.value and not self._upstream:
            return "nothing can be a share of what is expected"
        why = self.comparability.obstacle(apart, metric, found, wanted)
        return f"not comparable: {why}" if why else ""

    def near_edges(self) -> list[Caution]:
        """The cautions about values that passed, but only just."""
        if not self._near:
            return []
        from torchstone.gate.checking.near_misses import tell_near  # noqa: PLC0415  (most values are nowhere near)

        return tell_near(self._near)

    def invalid_rows(self, outcome: Outcome, reading: Reading, index: int) -> list[Row]:
        """The rows of a result that contradicts itself; the original does not look."""
        shared = id(outcome.measurements)
        if self._upstream or shared in self._sane:
            return []
        rows = []
        for metric, why in contradictions(outcome.measurements):
            row = self.tally.make_row(Verdict.INVALID, outcome.case, metric, outcome, None, None, why)
            rows.append(self.tally.place(row, reading, index, None))
        if not rows:
            self._sane.add(shared)
        return rows

    def unmeasured_row(self, case: Case, reading: Reading) -> Row:
        """The row of a case that was planned, but has no outcome."""
        match = self._baseline.find(case, by_name_only=self._upstream)
        expected = match.row if match else None
        if expected:
            self._baseline.touch(expected)
        metric = main_metric(expected.outcome) if expected else ACCURACY
        rule = self._rules.find(metric, case)
        detail = "planned, but the run has no outcome of it"
        row = self.tally.make_row(
            Verdict.MISSING, case, metric, None, expected.outcome if expected else None, rule, detail
        )
        return self.tally.place(row, reading, None, expected)

    def missing_rows(self, expected: ExpectedRow) -> list[Row]:
        """The rows of a case that is expected, but has no result."""
        case, outcome = expected.outcome.case, expected.outcome
        each = case.probe == Probe.INSTRUCTIONS
        metrics = [m.metric for m in outcome.measurements] * each or [main_metric(outcome)]
        rows = []
        for metric in metrics:
            wanted = measurement_of(outcome, metric)
            rule = self._with_own_margin(self._rules.find(metric, case), metric, wanted)
            rule = rule or (BY_OWN_MARGIN if wanted else None)
            row = self.tally.make_row(Verdict.MISSING, case, metric, None, outcome, rule)
            rows.append(self.tally.place(row, None, None, expected))
        return rows
