"""Judging: every case that was planned, expected or measured gets its verdicts, and all rules run even when one fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.baseline import Baseline, ExpectedRow, expects_status, main_metric
from torchstone.errors import InputError, UsageError
from torchstone.gate.policy import UPSTREAM_COUNTS, upstream_metrics
from torchstone.gate.rules import NEEDS_NO_BASELINE, decide_number, decide_status, limits_of
from torchstone.gate.sanity import contradictions
from torchstone.gate.verdicts import QUIET, Conditions, Counts, Judgement, Release, Remarks, Row
from torchstone.model import Case, Measurement, Outcome, QuarantineEntry, Reading, Rule, Run, matches_name
from torchstone.results import Results
from torchstone.units import count_of
from torchstone.vocabulary import ACCURACY, FAILED, METRICS, PASSED, SKIPPED, Probe, Verdict

_BY_OWN_MARGIN = Rule("margin")
_NEVER_COVERED = frozenset({Verdict.MISSING, Verdict.INVALID})


def judge(results: Results, baseline: Baseline, conditions: Conditions) -> Judgement:
    """Judge plan, baseline and results together, so that nothing can vanish and stay green."""
    judging = _Judging(results, baseline, conditions)
    for number, (reading, index, outcome) in enumerate(results, 1):
        judging.take(
            [
                *judging.rows_of(outcome, reading, index, number),
                *judging.invalid_rows(outcome, reading, index),
            ]
        )
    for reading, case in results.unmeasured():
        judging.take([judging.unmeasured_row(case, reading)])
    for row in baseline.unclaimed():
        judging.take(judging.missing_rows(row))
    return judging.finish()


class _Judging:
    """The state of one judgement."""

    def __init__(self, results: Results, baseline: Baseline, conditions: Conditions) -> None:
        self._results = results
        self._baseline = baseline
        self._conditions = conditions
        self._upstream = conditions.policy.is_upstream
        entries, today = conditions.quarantine, conditions.today
        self._expired = (
            {} if self._upstream else dict.fromkeys((e for e in entries if e.is_expired(today)), False)
        )
        self._active = [entry for entry in entries if self._upstream or entry.is_active(today)]
        self._counts = Counts(planned=baseline.size)
        self._rows: list[Row] = []
        self._ignored: list[Row] = []
        self._releases: dict[tuple[str, Case], Release] = {}
        self._unruled: dict[str, int] = {}
        self._alone = conditions.rules.metrics_without_baseline()
        self._sane: set[int] = set()  # ids of measurements, which many results share, already looked at
        self._wanted = self._wanted_metrics()
        alone = len(results.readings) == 1
        self._only_reading = results.readings[0] if alone else Reading("", "", Run("", (), ()), ())

    def _wanted_metrics(self) -> set[str] | None:
        """The metrics to judge, where not simply all that are expected."""
        asked = self._conditions.metrics
        if not asked and not self._upstream:
            return None
        known = dict.fromkeys([ACCURACY] if Probe.ACCURACY in self._baseline.probes else [])
        for reading in self._baseline.readings:
            for outcome in reading.run.outcomes:
                known.update(dict.fromkeys(m.metric for m in outcome.measurements))
        if not asked:
            return upstream_metrics(known)
        measured = {m.metric for _, _, outcome in self._results for m in outcome.measurements} | {ACCURACY}
        chosen = {
            metric
            for metric in [*known, *measured]
            if any(matches_name(pattern, metric) for pattern in asked)
        }
        for pattern in asked:
            if not any(matches_name(pattern, metric) for metric in chosen):
                raise UsageError(
                    f"--metric {pattern}: neither results nor baseline have it",
                    advice=f"there are: {', '.join(known)}",
                )
        return chosen

    def _is_wanted(self, metric: str) -> bool:
        return self._wanted is None or metric in self._wanted

    def rows_of(self, outcome: Outcome, reading: Reading, index: int, number: int) -> list[Row]:
        """All rows of one result."""
        match = self._baseline.find(
            outcome.case, by_name_only=self._upstream or self._conditions.compare_anyway
        )
        if match is None:
            return self._rows_without_baseline(outcome, reading, index)
        if match.differences and not self._conditions.compare_anyway:
            self._baseline.touch(match.row)
            row = self._row(
                Verdict.INCONCLUSIVE, outcome.case, main_metric(match.row.outcome), outcome, match.row.outcome
            )
            detail = "not comparable: " + "; ".join(match.differences)
            return [self._place(row, reading, index, match.row, detail=detail)]
        if before := self._baseline.claim(match.row, number):
            self._reject_second(match.row, reading, index, before)
        if not match.row.outcome.status and not match.row.outcome.measurements:
            return [self._new_row(outcome, reading, index, match.row, "its baseline row expects nothing")]
        rows = []
        for metric in self._metrics_of(outcome, match.row):
            judged = self._judge_metric(outcome, match.row.outcome, metric)
            if judged is not None:
                rows.append(
                    judged if judged.verdict in QUIET else self._place(judged, reading, index, match.row)
                )
        return rows

    def _reject_second(self, expected: ExpectedRow, reading: Reading, index: int, before: int) -> None:
        first = next((r, i) for number, (r, i, _) in enumerate(self._results, 1) if number == before)
        name = expected.outcome.case.name
        raise InputError(
            f"{name}: a second result for the baseline row {expected.place}; the first is in {first[0].place(first[1])}",
            path=reading.path,
            line=reading.lines[index],
            column="name",
            advice="judge one of them with --only, or use a baseline that tells them apart",
        )

    def _metrics_of(self, outcome: Outcome, row: ExpectedRow) -> list[str]:
        """The metrics to judge of one result: those expected, and those whose rule needs no baseline."""
        expected, wanted = row.outcome, self._wanted
        metrics = [ACCURACY] if expects_status(expected) else []
        metrics += [measurement.metric for measurement in expected.measurements]
        if not outcome.measurements and outcome.status not in {PASSED, SKIPPED, ""}:
            metrics = (
                metrics[:1] if wanted is None else metrics
            )  # a case that failed is red once, not for every number
        if wanted is not None:
            metrics = [metric for metric in metrics if metric in wanted]
        if self._alone:
            metrics += [metric for metric in self._metrics_alone(outcome) if metric not in metrics]
        return metrics

    def _metrics_alone(self, outcome: Outcome) -> Iterator[str]:
        """The metrics of a result that some rule judges without a baseline."""
        probe = outcome.case.probe
        has = {m.metric for m in outcome.measurements} | {ACCURACY}
        due = {name for name, metric in METRICS.items() if probe in metric.probes}
        for metric in sorted(has | due):
            rule = self._conditions.rules.find(metric, outcome.case)
            if rule is not None and rule.kind in NEEDS_NO_BASELINE and self._is_wanted(metric):
                yield metric

    def _rows_without_baseline(self, outcome: Outcome, reading: Reading, index: int) -> list[Row]:
        rows = [self._judge_metric(outcome, None, metric) for metric in self._metrics_alone(outcome)]
        placed = [self._place(row, reading, index, None) for row in rows if row is not None]
        if outcome.case.probe in self._baseline.probes or "" in self._baseline.probes:
            placed.append(self._new_row(outcome, reading, index, None, "no baseline row"))
        return placed

    def _new_row(
        self, outcome: Outcome, reading: Reading, index: int, expected: ExpectedRow | None, detail: str
    ) -> Row:
        metric = self._main_metric_without_baseline(outcome)
        rule = self._conditions.rules.find(metric, outcome.case)
        row = self._row(Verdict.NEW, outcome.case, metric, outcome, None, rule)
        return self._place(row, reading, index, expected, detail=detail)

    def _main_metric_without_baseline(self, outcome: Outcome) -> str:
        of_case = [ACCURACY, *(m.metric for m in outcome.measurements)]
        if self._wanted is not None:
            return next(
                (metric for metric in of_case if metric in self._wanted), next(iter(self._wanted), ACCURACY)
            )
        return main_metric(outcome)

    def _judge_metric(self, outcome: Outcome, expected: Outcome | None, metric: str) -> Row | None:
        rule = self._conditions.rules.find(metric, outcome.case)
        measurement = None if metric == ACCURACY else _measurement(expected, metric)
        if rule is None and measurement is not None and measurement.margin is not None:
            rule = _BY_OWN_MARGIN
        if rule is None:
            self._unruled[metric] = self._unruled.get(metric, 0) + 1
            return self._row(
                Verdict.INCONCLUSIVE, outcome.case, metric, outcome, expected, None, f"no rule for {metric}"
            )
        if rule.kind == "ignore":
            return None
        if metric == ACCURACY:
            verdict = decide_status(rule, outcome.status, expected.status if expected else "")
            return self._row(verdict, outcome.case, metric, outcome, expected, rule)
        return self._judge_number(outcome, expected, metric, rule, measurement)

    def _judge_number(
        self,
        outcome: Outcome,
        expected: Outcome | None,
        metric: str,
        rule: Rule,
        measurement: Measurement | None,
    ) -> Row | None:
        found = _measurement(outcome, metric)
        actual = found.value if found else None
        not_compiled = actual is None or outcome.value("unique_graphs") == 0
        if self._upstream and metric in UPSTREAM_COUNTS and not_compiled:
            detail = "nothing was compiled, which the original lets pass"
            return self._row(Verdict.PASS, outcome.case, metric, outcome, expected, rule, detail)
        if actual is None:
            return self._judge_absent(outcome, expected, metric, rule)
        value = measurement.value if measurement else None
        if actual == value and rule.kind == "count":
            return self._row(Verdict.PASS, outcome.case, metric, outcome, expected, rule)
        limits = limits_of(rule, value, measurement.margin if measurement else None)
        verdict = decide_number(rule, actual, value, limits)
        if self._upstream and verdict is Verdict.IMPROVEMENT and rule.kind.startswith("ratio"):
            verdict = Verdict.PASS
        return self._row(verdict, outcome.case, metric, outcome, expected, rule)

    def _judge_absent(
        self, outcome: Outcome, expected: Outcome | None, metric: str, rule: Rule
    ) -> Row | None:
        """A metric that should be there and is not.

        A case that failed as expected need not have it; one that failed otherwise is red already by its status, if that is judged.
        """
        if outcome.status in {PASSED, SKIPPED, ""}:
            detail = f"the result has no {metric}"
            return self._row(Verdict.MISSING, outcome.case, metric, outcome, expected, rule, detail)
        if expected is not None and (
            expected.status == outcome.status or expected.case.probe == Probe.ACCURACY
        ):
            return None
        known = "" if outcome.status == FAILED else f": {outcome.status}"
        return self._row(
            Verdict.REGRESSION, outcome.case, metric, outcome, expected, rule, f"the case failed{known}"
        )

    def invalid_rows(self, outcome: Outcome, reading: Reading, index: int) -> list[Row]:
        """The rows of a result that contradicts itself; the original does not look."""
        shared = id(outcome.measurements)
        if self._upstream or shared in self._sane:
            return []
        rows = []
        for metric, why in contradictions(outcome.measurements):
            row = self._row(Verdict.INVALID, outcome.case, metric, outcome, None, None, why)
            rows.append(self._place(row, reading, index, None))
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
        rule = self._conditions.rules.find(metric, case)
        row = self._row(Verdict.MISSING, case, metric, None, expected.outcome if expected else None, rule)
        if not expected:
            self._counts.planned += 1
        return self._place(row, reading, None, expected, detail="planned, but the run has no outcome of it")

    def missing_rows(self, expected: ExpectedRow) -> list[Row]:
        """The rows of a case that is expected, but has no result."""
        case, outcome = expected.outcome.case, expected.outcome
        every = (
            [m.metric for m in outcome.measurements]
            if outcome.case.probe == Probe.INSTRUCTIONS
            else [main_metric(outcome)]
        )
        rows = []
        for metric in every:
            rule = self._conditions.rules.find(metric, case)
            if rule is None and _measurement(outcome, metric):
                rule = _BY_OWN_MARGIN
            row = self._row(Verdict.MISSING, case, metric, None, outcome, rule)
            rows.append(self._place(row, None, None, expected))
        return rows

    def _row(
        self,
        verdict: Verdict,
        case: Case,
        metric: str,
        actual: Outcome | None,
        expected: Outcome | None,
        rule: Rule | None = None,
        detail: str = "",
    ) -> Row:
        """A row, with quarantine and policy applied."""
        if not self._conditions.quarantine and verdict in QUIET and not detail:
            return Row(
                verdict, case, metric, actual, expected, rule, verdict in self._conditions.policy.block
            )
        entry = self._covering(case, metric)
        if entry is not None:
            self._note_covered(entry, case, verdict, metric)
            if verdict not in QUIET and (verdict not in _NEVER_COVERED or entry.allow_missing):
                detail = detail or f"would be: {verdict}"
                verdict = Verdict.QUARANTINED
            elif verdict is Verdict.MISSING:
                detail = (
                    f"{detail}; " * bool(detail)
                    + f"its quarantine ({entry.place}) does not say allow_missing"
                )
        blocks = self._conditions.policy.blocks(verdict, rule)
        return Row(verdict, case, metric, actual, expected, rule, blocks, Remarks(detail, quarantine=entry))

    def _note_covered(self, entry: QuarantineEntry, case: Case, verdict: Verdict, metric: str) -> None:
        """A case could be released if every row of it that the entry covers is as it should be."""
        passed = verdict is Verdict.PASS or (verdict is Verdict.IMPROVEMENT and metric == ACCURACY)
        key = (entry.place, case)
        before = self._releases.get(key)
        self._releases[key] = Release(entry, case, int(passed and (before is None or before.passed == 1)), 1)

    def _covering(self, case: Case, metric: str) -> QuarantineEntry | None:
        platforms = self._conditions.platforms
        for expired in self._expired:
            if not self._expired[expired] and expired.covers(case, metric, platforms):
                self._expired[expired] = True
        return next((entry for entry in self._active if entry.covers(case, metric, platforms)), None)

    def _place(
        self,
        row: Row,
        reading: Reading | None,
        index: int | None,
        expected: ExpectedRow | None,
        detail: str = "",
    ) -> Row:
        """The same row, with the places that a person will look for."""
        place = "" if reading is None else reading.path if index is None else reading.place(index)
        told = row.remarks
        source = reading or self._only_reading
        repro = source.repro if row.case.probe in {"", source.kind} else ""
        remarks = Remarks(
            told.detail or detail, place, expected.place if expected else "", told.quarantine, repro
        )
        return Row(row.verdict, row.case, row.metric, row.actual, row.expected, row.rule, row.blocks, remarks)

    def take(self, rows: Sequence[Row]) -> None:
        """Count the rows of one case, and keep them."""
        counts = self._counts
        counts.cases += bool(rows)
        if rows and all(row.verdict in QUIET and not row.blocks for row in rows):
            if self._conditions.keep_quiet:
                self._rows += rows
            counts.rows += len(rows)
            counts.judged += 1
            return
        verdicts = {row.verdict for row in rows}
        if self._upstream and verdicts == {Verdict.MISSING} and not any(row.blocks for row in rows):
            self._ignored += rows
            return
        self._rows += rows
        counts.rows += len(rows)
        counts.judged += any(row.actual is not None for row in rows)
        counts.red += any(row.blocks for row in rows)
        counts.improved += Verdict.IMPROVEMENT in verdicts
        counts.quarantined += Verdict.QUARANTINED in verdicts
        counts.missing += Verdict.MISSING in verdicts
        counts.new += Verdict.NEW in verdicts

    def finish(self) -> Judgement:
        """The whole judgement."""
        for rule in self._conditions.rules.unused():
            there = dict.fromkeys(
                metric for _, _, outcome in self._results for metric in _metrics_in(outcome)
            )
            raise UsageError(
                f"the rule for '{rule.metric}'{'' if rule.case == '*' else f' of {rule.case}'} applies to nothing",
                advice=f"the results have: {', '.join(there)}",
            )
        if not self._rows and not self._counts.judged:
            raise UsageError(
                "nothing was judged: neither a baseline nor a rule speaks of these results",
                advice="look at --baseline, --metric, --only and the rules in torchstone.toml",
            )
        cautions = [caution for reading in self._results.readings for caution in reading.cautions]
        for metric, times in self._unruled.items():
            cautions.append(
                f"nothing says how to judge '{metric}' ({count_of(times, 'row')}): add --rule '{metric}=ratio_ceiling:1.05', or '{metric}=ignore'"
            )
        if unseen := self._baseline.unmeasured_dtypes():
            cautions.append(
                f"no result has the dtype {', '.join(unseen)}, which the baseline has a column for"
            )
        if self._ignored:
            cautions.append(
                f"{count_of(len(self._ignored), 'expected row')} without a result; this policy ignores that, as the original does"
            )
        expired = [entry for entry, matched in self._expired.items() if matched]
        return Judgement(
            self._conditions.policy,
            self._rows,
            self._counts,
            expired,
            [release for release in self._releases.values() if release.passed],
            cautions,
            self._ignored,
        )


def _measurement(outcome: Outcome | None, metric: str) -> Measurement | None:
    if outcome is not None:
        for measurement in outcome.measurements:
            if measurement.metric == metric:
                return measurement
    return None


def _metrics_in(outcome: Outcome) -> list[str]:
    status = [ACCURACY] if outcome.case.probe == Probe.ACCURACY else []
    return status + [measurement.metric for measurement in outcome.measurements]
