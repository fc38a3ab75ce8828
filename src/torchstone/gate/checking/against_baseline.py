"""Check results against a baseline.

Every case that was planned, expected or measured gets its rows, and all rules run even if one fails.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Outcome, Reading, Rule, matches_metric
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
from torchstone.gate.baseline import (
    Baseline,
    ExpectedRow,
    expects_status,
    has_numbers,
    main_metric,
    measurement_of,
    with_status,
)
from torchstone.gate.blocking_policy import upstream_metrics
from torchstone.gate.checking.metric_rows import CheckedCase, CheckedFiles, MetricRows, failure_reason
from torchstone.gate.checking.tally import Tally
from torchstone.gate.comparable import NOT_COMPARABLE, Comparability
from torchstone.gate.criteria import looks_of
from torchstone.gate.judgement import Conditions, Judgement, Row
from torchstone.gate.rules import BY_OWN_MARGIN, NEEDS_NO_BASELINE, statuses_agree
from torchstone.gate.sanity import find_inconsistencies
from torchstone.gate.trial_statuses import find_disagreement
from torchstone.gate.weigh_metric import was_measured

_NOT_FAILED = frozenset({PASSED, SKIPPED, ""})


def check_against_baseline(results: Results, baseline: Baseline, conditions: Conditions) -> Judgement:
    """Judge plan, baseline and results together, so that nothing can vanish and stay green."""
    check = _Check(results, baseline, structs.replace(conditions, looks=looks_of(results.readings)))
    tally = check.tally
    for number, (reading, index, outcome) in enumerate(results, 1):
        rows = check.rows_of(outcome, reading, index, number)
        if invalid := check.invalid_rows(outcome, reading, index):
            wrong = {row.metric for row in invalid}
            rows = [row for row in rows if row.metric not in wrong] + invalid
        tally.add(rows, planned=reading.kind == "run")
    for reading, case in results.unmeasured():
        tally.add([check.unmeasured_row(case, reading)], planned=True)
    for row in baseline.unclaimed():
        if (
            row.outcome.status != NOT_AVAILABLE or conditions.policy.is_upstream
        ):  # else nothing is expected of it
            tally.add(check.missing_rows(row))
    cautions = [*check.comparability.cautions(), *check.metric_rows.cautions()]
    return tally.finish(results, baseline, cautions)


class _Check:
    """The state of a check."""

    def __init__(self, results: Results, baseline: Baseline, conditions: Conditions) -> None:
        self._results = results
        self._baseline = baseline
        self._conditions = conditions
        self._rules = conditions.rules
        self._rules.learn_from((*results.readings, *baseline.readings))
        self._upstream = conditions.policy.is_upstream
        self._rules_without_baseline = bool(conditions.rules.metrics_without_baseline())
        self._consistent: set[int] = set()  # ids of checked measurements: many results share them
        self._chosen = self._chosen_metrics()
        self._judged = self._chosen
        if self._upstream and self._chosen is None:
            self._judged = upstream_metrics(self._expected_metrics())
        self._main_metrics: list[str] | None = None
        self._file_pairs: dict[tuple[int, int], CheckedFiles] = {}
        self.tally = Tally(conditions, results)
        self.comparability = Comparability(conditions)
        self.metric_rows = MetricRows(conditions, self.tally, self.comparability)

    def _expected_metrics(self) -> dict[str, None]:
        """Return the metrics that the baselines have, in their order."""
        known = dict.fromkeys([ACCURACY] if Probe.ACCURACY in self._baseline.probes else [])
        for reading in self._baseline.whole:
            for outcome in reading.run.outcomes:
                known.update(dict.fromkeys(m.metric for m in outcome.measurements))
        return known

    def _chosen_metrics(self) -> set[str] | None:
        """Return the metrics that ``--metric`` selects; None without it."""
        patterns = self._conditions.metrics
        if not patterns:
            return None
        measured = {m.metric for _, _, outcome in self._results for m in outcome.measurements}
        known = [*self._expected_metrics(), *sorted(measured), ACCURACY]
        chosen = {metric for metric in known if any(matches_metric(pattern, metric) for pattern in patterns)}
        for pattern in patterns:
            if not any(matches_metric(pattern, metric) for metric in chosen):
                advice = f"there are: {', '.join(dict.fromkeys(known))}"
                raise UsageError(f"--metric {pattern}: neither results nor baseline have it", advice=advice)
        return chosen

    def rows_of(self, outcome: Outcome, reading: Reading, index: int, number: int) -> list[Row]:
        """Return all rows of one result."""
        anyway = self._conditions.compare_anyway
        match = self._baseline.find(outcome.case, by_name_only=self._upstream or anyway)
        if match is None:
            rows = self._rows_without_baseline(outcome, reading)
            return [self.tally.locate(row, reading, index, None) for row in rows]
        expected = match.row
        if match.differences and not anyway:
            self._baseline.touch(expected)
            metric = main_metric(expected.outcome)
            reasons = (each.against("expected") for each in match.differences)
            detail = f"{NOT_COMPARABLE}{'; '.join(reasons)}"
            row = self.tally.make_row(
                Verdict.INCONCLUSIVE, outcome.case, metric, outcome, expected.outcome, detail=detail
            )
            return [self.tally.locate(row, reading, index, expected)]
        if before := self._baseline.claim(expected, number):
            self._refuse_second(expected, reading, index, before)
        files = self._files(reading, expected.reading)
        self.comparability.note_counters(reading, outcome, expected.reading, expected.outcome)
        return [
            row if row.is_quiet else self.tally.locate(row, reading, index, expected)
            for row in self._without_impossible(
                self._expected_rows(outcome, expected.outcome, files), expected.outcome
            )
        ]

    def _without_impossible(self, rows: list[Row], expected: Outcome) -> list[Row]:
        """Return the rows; those that would be compared with an impossible number of the baseline are invalid."""
        shared = id(expected.measurements)
        if self._upstream or shared in self._consistent or not has_numbers(expected):
            return rows
        wrong = dict(find_inconsistencies(expected.measurements))
        if not wrong:
            self._consistent.add(shared)
            return rows
        return [
            self.tally.make_row(
                Verdict.INVALID, row.case, row.metric, row.new, row.base, row.rule, f"the baseline: {why}"
            )
            if (why := wrong.get(row.metric))
            and measurement_of(row.new, row.metric)
            and row.new
            and not (row.rule and row.rule.kind in NEEDS_NO_BASELINE)
            else row
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

    def _files(self, reading: Reading, baseline: Reading) -> CheckedFiles:
        """Return what holds for a file of results and a baseline; found once for each pair of them."""
        pair = id(reading), id(baseline)
        found = self._file_pairs.get(pair)
        if found is None:
            gap = self.comparability.between(reading, baseline)
            found = self._file_pairs[pair] = CheckedFiles(
                gap, was_measured(reading), was_measured(baseline), reading.run.settings
            )
        return found

    def _expected_rows(self, outcome: Outcome, expected: Outcome, files: CheckedFiles) -> list[Row]:
        """Return the rows of a result that the baseline has: one for each metric, or a single one if the case failed before it could be measured."""
        unavailable = expected.status == NOT_AVAILABLE and outcome.status != NOT_AVAILABLE
        if unavailable or (not expected.status and not expected.measurements):
            detail = "its baseline row expects nothing"
            detail += ": it was not available there" if unavailable else ""
            metric = self._main_metric(outcome)
            return [self._new_row(outcome, metric, None, detail)]
        rules = self._rules_of(outcome, expected)
        if not self._upstream and (row := self._disagreeing_row(outcome, expected)):
            return [row]
        as_expected = statuses_agree(outcome.status, expected.status)
        failed = outcome.status not in _NOT_FAILED and not as_expected
        of_accuracy = outcome.case.probe == Probe.ACCURACY
        if failed and (not of_accuracy or not (self._upstream or has_numbers(outcome))):
            return [self._failed_row(outcome, expected, next(iter(rules.items()), None))]
        explains = as_expected or ACCURACY in rules or self._upstream
        checked = self.metric_rows.checked(outcome, expected, files, status_explains=explains)
        make_row = self.metric_rows.row
        rows = [row for metric, rule in rules.items() if (row := make_row(checked, metric, rule))]
        if outcome.case.probe == Probe.INSTRUCTIONS:
            rows += self._unexpected_counts(outcome, expected)
        return rows

    def _disagreeing_row(self, outcome: Outcome, expected: Outcome | None) -> Row | None:
        """Return the row of a case whose trials ended differently; None if they did not."""
        found = find_disagreement(expected, outcome)
        if found is None:
            return None
        rule = self._rules.find(ACCURACY, outcome.case)
        new, base = with_status(outcome), with_status(expected) if expected else None
        return self.tally.make_row(found.verdict, outcome.case, ACCURACY, new, base, rule, found.detail)

    def _failed_row(
        self, outcome: Outcome, expected: Outcome | None, main: tuple[str, Rule | None] | None
    ) -> Row:
        """Return the row of a case that failed unexpectedly, for its ``main`` metric; its numbers, if any, mean nothing.

        A case that cannot be measured here did not fail: it is missing, which is neither green nor a regression.
        """
        metric, rule = main or (ACCURACY, self._rules.find(ACCURACY, outcome.case))
        if outcome.status == NOT_AVAILABLE:
            verdict, detail = Verdict.MISSING, f"not available here{failure_reason(outcome)}"
        else:
            verdict, detail = Verdict.REGRESSION, ""
            if metric != ACCURACY:
                unknown = outcome.status == FAILED
                detail = "the file does not say why" if unknown else f"the case failed: {outcome.status}"
        shown = structs.replace(outcome, measurements=()) if outcome.measurements else outcome
        return self.tally.make_row(
            verdict, outcome.case, metric, shown, expected, rule, detail, covered_as=ACCURACY
        )

    def _rules_of(self, outcome: Outcome, expected: Outcome) -> dict[str, Rule | None]:
        """Return the rule of each metric to judge of one result: those expected, and those whose rule needs no baseline."""
        metrics = [ACCURACY] if expects_status(expected) else []
        metrics += [measurement.metric for measurement in expected.measurements]
        if self._judged is not None:
            metrics = [metric for metric in metrics if metric in self._judged]
        rules = {metric: self._rules.find(metric, outcome.case) for metric in metrics}
        if self._rules_without_baseline:
            rules |= self._rules_without_baseline_of(outcome)
        return {metric: rule for metric, rule in rules.items() if rule is None or rule.kind != "ignore"}

    def _rules_without_baseline_of(self, outcome: Outcome) -> dict[str, Rule]:
        """Return the rule of each metric of a result whose rule needs no baseline."""
        case = outcome.case
        measured = {m.metric for m in outcome.measurements} | {ACCURACY}
        due = {name for name, metric in METRICS.items() if case.probe in metric.probes}
        rules = ((metric, self._rules.find(metric, case)) for metric in sorted(measured | due))
        return {
            metric: rule
            for metric, rule in rules
            if rule and rule.kind in NEEDS_NO_BASELINE and (self._chosen is None or metric in self._chosen)
        }

    def _unexpected_counts(self, outcome: Outcome, expected: Outcome) -> Iterator[Row]:
        """Yield a row for each instruction count that has no baseline row: in such baselines each metric has its own."""
        known = {measurement.metric for measurement in expected.measurements}
        known |= self._rules_without_baseline_of(outcome).keys()
        for measurement in outcome.measurements:
            metric = measurement.metric
            if metric in known or not (self._judged is None or metric in self._judged):
                continue
            rule = self._rules.find(metric, outcome.case) or BY_OWN_MARGIN
            if rule.kind != "ignore":
                detail = "no baseline row for this metric"
                yield self.tally.make_row(Verdict.NEW, outcome.case, metric, outcome, None, rule, detail)

    def _rows_without_baseline(self, outcome: Outcome, reading: Reading) -> list[Row]:
        """Return the rows of a result that no baseline row is for."""
        rules = self._rules_without_baseline_of(outcome) if self._rules_without_baseline else {}
        if outcome.status == NOT_AVAILABLE and not rules:
            self.tally.note_unavailable(outcome)
            return []
        rows: list[Row] = []
        if rules and (row := self._disagreeing_row(outcome, None)):
            rows.append(row)
        elif rules and outcome.status not in _NOT_FAILED and outcome.case.probe != Probe.ACCURACY:
            rows.append(self._failed_row(outcome, None, next(iter(rules.items()))))
        else:
            files = CheckedFiles(is_measured=was_measured(reading))
            checked, make_row = CheckedCase(outcome, files=files), self.metric_rows.row
            rows += [row for metric, rule in rules.items() if (row := make_row(checked, metric, rule))]
        if outcome.case.probe in self._baseline.probes or "" in self._baseline.probes:
            metric = self._main_metric(outcome)
            rule = self._rules.find(metric, outcome.case)
            rows.append(self._new_row(outcome, metric, rule, "no baseline row"))
        elif not rules and self._is_unexpected_failure(outcome):
            detail = "it failed, and no baseline says that it does"
            rows.append(self._new_row(outcome, ACCURACY, None, detail))
        return rows

    def _new_row(self, outcome: Outcome, metric: str, rule: Rule | None, detail: str) -> Row:
        """Return the row of a new case."""
        return self.tally.make_row(Verdict.NEW, outcome.case, metric, outcome, None, rule, detail)

    def _is_unexpected_failure(self, outcome: Outcome) -> bool:
        """Return whether a case failed whose probe no baseline has, unless a baseline expects its accuracy to fail."""
        if outcome.status in _NOT_FAILED or self._upstream or self._chosen is not None:
            return False
        of_accuracy = self._baseline.find(structs.replace(outcome.case, probe=Probe.ACCURACY.value))
        return of_accuracy is None or of_accuracy.row.outcome.status in _NOT_FAILED

    def _main_metric(self, outcome: Outcome) -> str:
        """Return the metric that represents a result without a baseline row: one that the baselines have, else its own first."""
        if self._main_metrics is None:
            chosen = self._expected_metrics() if self._judged is None else sorted(self._judged)
            self._main_metrics = [*chosen]
        known = self._main_metrics
        metrics = [ACCURACY] if outcome.case.probe == Probe.ACCURACY else []
        metrics += [measurement.metric for measurement in outcome.measurements]
        common = next((metric for metric in metrics if metric in known), None)
        if common is not None:
            return common
        has_others = outcome.measurements and self._chosen is None
        return main_metric(outcome) if has_others or not known else known[0]

    def invalid_rows(self, outcome: Outcome, reading: Reading, index: int) -> list[Row]:
        """Return the rows of numbers that contradict each other; the policy ``upstream`` has no such check."""
        shared = id(outcome.measurements)
        if self._upstream or shared in self._consistent:
            return []
        rows = []
        for metric, why in find_inconsistencies(outcome.measurements):
            row = self.tally.make_row(Verdict.INVALID, outcome.case, metric, outcome, None, None, why)
            rows.append(self.tally.locate(row, reading, index, None))
        if not rows:
            self._consistent.add(shared)
        return rows

    def unmeasured_row(self, case: Case, reading: Reading) -> Row:
        """Return the row of a case that was planned, but has no outcome."""
        match = self._baseline.find(case, by_name_only=self._upstream)
        expected = match.row if match else None
        if expected:
            self._baseline.touch(expected)
        outcome = expected.outcome if expected else None
        metric = main_metric(outcome) if outcome else ACCURACY
        rule = self._rules.find(metric, case)
        detail = "planned, but the run has no outcome of it"
        row = self.tally.make_row(Verdict.MISSING, case, metric, None, outcome, rule, detail)
        return self.tally.locate(row, reading, None, expected)

    def missing_rows(self, expected: ExpectedRow) -> list[Row]:
        """Return the rows of a case that is expected, but has no result: one for each instruction count, else a single one."""
        outcome = expected.outcome
        metrics = [main_metric(outcome)]
        if outcome.case.probe == Probe.INSTRUCTIONS and outcome.measurements:
            metrics = [measurement.metric for measurement in outcome.measurements]
        rows = []
        for metric in metrics:
            wanted = measurement_of(outcome, metric)
            rule = self.metric_rows.rule_of(metric, outcome.case, wanted)
            rule = rule or (BY_OWN_MARGIN if wanted else None)
            row = self.tally.make_row(Verdict.MISSING, outcome.case, metric, None, outcome, rule)
            rows.append(self.tally.locate(row, None, None, expected))
        return rows
