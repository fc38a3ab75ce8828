"""Compare the files of two sides: every case of either side gets its rows, and all of them are judged together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import structs

from torchstone.analyze.evidence import Comparison
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Number, Outcome, Rule
from torchstone.core.vocabulary import ACCURACY, NOT_AVAILABLE, PASSED, SKIPPED, Probe, Verdict
from torchstone.gate.baseline import has_ended_well, has_numbers, is_single_count
from torchstone.gate.comparable import Comparability, EnvironmentGap
from torchstone.gate.comparing.overview import (
    environment_differences,
    file_cautions,
    mean_effects,
    no_common_case,
    no_common_metric,
    only_new_cautions,
    refuse_unknown_patterns,
)
from torchstone.gate.comparing.side_files import (
    CaseOfSide,
    SideFiles,
    count_passing,
    find_invalid_metrics,
)
from torchstone.gate.criteria import CompareSettings, Criteria, MetricCriteria
from torchstone.gate.judge import judge_together
from torchstone.gate.judgement import Conditions, Judgement, Overview, Remarks, Row, Ruling
from torchstone.gate.rules import decide_status
from torchstone.gate.weigh import are_paired, evidence_of, weigh

_NOT_JUDGED_YET = Ruling(Verdict.INCONCLUSIVE)
_STATUS_RULE = Rule("status_equal")
_PASSING = frozenset({PASSED, SKIPPED, ""})


def compare_files(base: SideFiles, new: SideFiles, settings: CompareSettings) -> Judgement:
    """Compare all cases of two sides."""
    return _Comparing(base, new, settings).finish()


class _Comparing:
    """The state of a comparison."""

    def __init__(self, base: SideFiles, new: SideFiles, settings: CompareSettings) -> None:
        self._base, self._new, self._settings = base, new, settings
        conditions = Conditions(
            settings.policy,
            settings.rules,
            compare_anyway=settings.compare_anyway,
            cross_environment=settings.cross_environment,
        )
        self._comparability = Comparability(conditions)
        # Only for cautions about counters: the report shows environments separately.
        self._counters = Comparability(conditions)
        self._seen: set[str] = set()
        self._only_new: Counter[str] = Counter()
        self._pairs: list[tuple[CaseOfSide, CaseOfSide]] = []
        self._claimed: dict[int, Case] = {}
        self._is_held_back = False
        self._in_both = frozenset(base.cases) & frozenset(new.cases)
        self._criteria: dict[str, MetricCriteria] = {}
        self._weighed_counts: dict[tuple[str, Number, Number], tuple[Comparison, Criteria]] = {}

    def finish(self) -> Judgement:
        """Return all rows, judged together, with the overview."""
        drafts = [row for case in self._new.cases for row in self._rows_of(case)]
        drafts += self._missing()
        self._refuse_nothing_compared(drafts)
        policy, alpha = self._settings.policy, self._settings.alpha
        rows = judge_together(drafts, policy, alpha)
        overview = Overview(
            alpha,
            len(self._pairs),
            tuple(mean_effects(rows, alpha)),
            count_passing(self._pairs),
            tuple(environment_differences(self._base, self._new)),
            self._is_held_back,
        )
        cautions = [
            *file_cautions(self._base, self._new),
            *self._counters.cautions(),
            *only_new_cautions(self._only_new),
        ]
        return Judgement(policy, rows, cautions, overview=overview)

    def _refuse_nothing_compared(self, drafts: Sequence[Row]) -> None:
        """Raise UsageError if the sides have no case in common, no metric in common, or no metric that was asked for."""
        is_selection = self._new.is_selection  # in a selection, a missing case is a result too
        if not self._pairs and all(row.verdict is Verdict.NEW or not is_selection for row in drafts):
            raise no_common_case(self._base, self._new)
        refuse_unknown_patterns(self._settings, self._seen, self._base, self._new)
        if all(row.verdict is Verdict.NEW for row in drafts):
            raise no_common_metric(len(self._pairs), self._only_new)

    def _rows_of(self, case: Case) -> list[Row]:
        """Return the rows of one case of the new side."""
        new, anyway = self._new.of(case), self._settings.compare_anyway
        match = self._base.table.find(case, by_name_only=anyway)
        if match is not None and (found := match.row.outcome.case) != case and found in self._in_both:
            match = None  # another case of NEW matches it exactly
        if match is None:
            return [self._new_row(case, new)]
        base = self._base.of(match.row.outcome.case)
        if match.differences and not anyway:
            self._base.table.touch(match.row)
            why = "; ".join(each.against("in BASE") for each in match.differences)
            metric = _main_metric(new)
            return [self._row(Verdict.INCONCLUSIVE, metric, base, new, f"not comparable: {why}")]
        self._claim(match.row.number, base, new)
        self._base.table.claim(match.row, 1)
        self._pairs.append((base, new))
        return [*self._status_rows(base, new), *self._number_rows(base, new)]

    def _new_row(self, case: Case, new: CaseOfSide) -> Row:
        """Return the row of a case that only the new side has an outcome of."""
        planned = case in self._base.unmeasured
        detail = "BASE planned it, but has no outcome of it" if planned else "only NEW has this case"
        if not has_ended_well(new.outcome):
            detail += f", and it failed: {new.outcome.status}{_failure_reason(new)}"
        metric = _main_metric(new)
        ruling, remarks = Ruling(Verdict.NEW, detail=detail), Remarks(new_place=new.place_of(metric))
        return Row(ruling, case, metric, _with_status(new.outcome), remarks=remarks)

    def _claim(self, number: int, base: CaseOfSide, new: CaseOfSide) -> None:
        first = self._claimed.setdefault(number, new.outcome.case)
        if first != new.outcome.case:
            place = new.place_of()
            raise InputError(
                f"{new.outcome.case.name}: {base.place_of()} would have to be compared with two cases, {first.id} too",
                path=place.path,
                line=place.line,
                advice="compare one of them with --only, or state the axis that tells them apart with --set",
            )

    def _row(
        self,
        verdict: Verdict,
        metric: str,
        base: CaseOfSide,
        new: CaseOfSide,
        detail: str = "",
    ) -> Row:
        outcomes = new.outcome, base.outcome
        if metric == ACCURACY:
            outcomes = _with_status(new.outcome), _with_status(base.outcome)
        remarks = Remarks(new.place_of(metric), base.place_of(metric))
        return Row(Ruling(verdict, detail=detail), new.outcome.case, metric, *outcomes, remarks=remarks)

    def _criteria_of(self, metric: str, case: Case) -> MetricCriteria:
        """Return the criteria for a metric; looked up once, unless its rule depends on the case."""
        found = self._criteria.get(metric)
        if found is None:
            found = self._settings.criteria_of_metric(metric, case)
            if not self._settings.rules.depends_on_case(metric):
                self._criteria[metric] = found
        return found

    def _status_rows(self, base: CaseOfSide, new: CaseOfSide) -> Iterator[Row]:
        """Yield a row for a case whose status changed, or that failed both times; for accuracy, always."""
        was, now = base.outcome.status or PASSED, new.outcome.status or PASSED
        of_accuracy = new.outcome.case.probe == Probe.ACCURACY
        self._seen |= {ACCURACY} if of_accuracy else set()
        is_news = was != PASSED or now != PASSED or ACCURACY in self._settings.metrics
        if not is_news and not (of_accuracy and self._criteria_of(ACCURACY, new.outcome.case).is_compared):
            return
        if now == NOT_AVAILABLE != was:
            why = f"not available in NEW{_failure_reason(new)}"
            yield self._row(Verdict.MISSING, ACCURACY, base, new, why)
        elif was == NOT_AVAILABLE != now:
            failed = "" if has_ended_well(new.outcome) else f", and it fails in NEW{_failure_reason(new)}"
            yield self._row(Verdict.NEW, ACCURACY, base, new, f"it was not available in BASE{failed}")
        elif now == SKIPPED and was not in _PASSING:
            yield self._row(Verdict.INCONCLUSIVE, ACCURACY, base, new, "it failed, and is skipped now")
        else:
            detail = "" if now in {PASSED, SKIPPED} else f"the case failed{_failure_reason(new)}"
            detail = "not available on either side" if now == NOT_AVAILABLE else detail
            verdict = decide_status(_STATUS_RULE, now, was)
            verdict = Verdict.SAME if verdict is Verdict.PASS else verdict
            yield self._row(verdict, ACCURACY, base, new, detail)

    def _number_rows(self, base: CaseOfSide, new: CaseOfSide) -> Iterator[Row]:
        """Yield a row for each metric of BASE; none if NEW failed."""
        if not has_numbers(new.outcome):
            return
        if not has_numbers(base.outcome):
            yield from self._numbers_of_failed(base, new)
            return
        case = new.outcome.case
        wrong = find_invalid_metrics(base, "BASE") | find_invalid_metrics(new, "NEW")
        for metric, why in wrong.items():
            yield self._row(Verdict.INVALID, metric, base, new, why)
        gap = self._environment_gap(base, new)
        there = {measurement.metric: measurement for measurement in new.outcome.measurements}
        before = {measurement.metric: measurement for measurement in base.outcome.measurements}
        self._seen.update(there, before)
        if not there.keys() <= before.keys():
            self._only_new.update(
                m for m in there if m not in before and self._criteria_of(m, case).is_compared
            )
        for metric, measured in before.items():
            if metric in wrong or not self._criteria_of(metric, case).is_compared:
                continue
            if metric not in there:
                left_out = new.outcome.why_left_out(metric)
                verdict = Verdict.INCONCLUSIVE if left_out else Verdict.MISSING
                why = f"not measured in NEW: {left_out}" if left_out else f"NEW has no {metric}"
                yield self._row(verdict, metric, base, new, why)
                continue
            yield self._compare(base, new, measured, there[metric], gap)
        self._counters.note_counters(new.readings[0], new.outcome, base.readings[0], base.outcome)

    def _numbers_of_failed(self, base: CaseOfSide, new: CaseOfSide) -> Iterator[Row]:
        """Yield rows for the metrics that BASE measured before it failed: they are not comparable, but must not vanish."""
        there = {measurement.metric for measurement in new.outcome.measurements}
        self._seen |= there
        for measured in base.outcome.measurements:
            if measured.metric in there and self._criteria_of(measured.metric, new.outcome.case).is_compared:
                why = f"not comparable: BASE ended as {base.outcome.status}"
                yield self._row(Verdict.INCONCLUSIVE, measured.metric, base, new, why)

    def _environment_gap(self, base: CaseOfSide, new: CaseOfSide) -> EnvironmentGap | None:
        """Return how the environments differ of any two files that have trials of this case."""
        files = (*new.readings, *base.readings)
        for index, other in enumerate(files):
            for one in files[:index]:
                if gap := self._comparability.between(one, other):
                    return gap
        return None

    def _compare(
        self,
        base: CaseOfSide,
        new: CaseOfSide,
        before: Measurement,
        after: Measurement,
        gap: EnvironmentGap | None,
    ) -> Row:
        """Return a row with its comparison, not judged yet."""
        metric = after.metric
        criteria = self._criteria_of(metric, new.outcome.case)
        if gap is None and is_single_count(before) and is_single_count(after) and metric in self._criteria:
            key = metric, before.samples[0], after.samples[0]
            if key not in self._weighed_counts:
                self._weighed_counts[key] = self._weigh(criteria, before, after, gap)
            weighed = self._weighed_counts[key]
        else:
            weighed = self._weigh(criteria, before, after, gap)
        remarks = Remarks(new.place_of(metric), base.place_of(metric))
        outcomes = new.outcome, base.outcome
        return Row(_NOT_JUDGED_YET, new.outcome.case, metric, *outcomes, criteria.rule, remarks, *weighed)

    def _weigh(
        self, criteria: MetricCriteria, before: Measurement, after: Measurement, gap: EnvironmentGap | None
    ) -> tuple[Comparison, Criteria]:
        """Return the comparison of two measurements, and the criteria to judge it by."""
        # Trials that took turns on one machine differ only in what is compared.
        gap = None if are_paired(before, after) else gap
        why = self._comparability.obstacle(gap, after.metric, after, before)
        self._is_held_back = self._is_held_back or bool(gap and why == gap.why)
        why = why or self._mixed_methods(before) or self._mixed_methods(after)
        obstacle = f"not comparable: {why}" if why else ""
        found = weigh(*evidence_of(before, after), alpha=self._settings.alpha, obstacle=obstacle)
        return found, self._settings.criteria_of(criteria, before)

    def _mixed_methods(self, measurement: Measurement) -> str:
        """Say how the trials of one side were measured differently; different counters matter even with --compare-anyway."""
        mixed = measurement.details.mixed if measurement.details else None
        for key, why in (mixed or {}).items():
            if key == "counter" or not self._settings.compare_anyway:
                return why
        return ""

    def _missing(self) -> Iterator[Row]:
        """Yield the rows of cases that NEW should have: those of BASE, and those that NEW planned itself."""
        unmeasured = set(self._new.unmeasured)
        planned = "planned, but NEW has no outcome of it"
        for row in self._base.table.unclaimed():
            if row.outcome.status == NOT_AVAILABLE:
                continue
            base = self._base.of(row.outcome.case)
            detail = planned if row.outcome.case in unmeasured else "only BASE has this case"
            unmeasured.discard(row.outcome.case)
            metric = _main_metric(base)
            ruling = Ruling(Verdict.MISSING, detail=detail)
            outcome, remarks = _with_status(base.outcome), Remarks(base_place=base.place_of(metric))
            yield Row(ruling, row.outcome.case, metric, base=outcome, remarks=remarks)
        for case in sorted(unmeasured, key=lambda case: case.id):
            yield Row(Ruling(Verdict.MISSING, detail=planned), case, ACCURACY)


def _main_metric(found: CaseOfSide) -> str:
    """Return the metric that represents a case that only one side has."""
    outcome = found.outcome
    return outcome.measurements[0].metric if outcome.measurements and outcome.status in _PASSING else ACCURACY


def _with_status(outcome: Outcome) -> Outcome:
    """Return the outcome with a status: cases of a file without statuses passed."""
    return outcome if outcome.status else structs.replace(outcome, status=PASSED)


def _failure_reason(found: CaseOfSide) -> str:
    """Return the message of a failure, after a colon; empty if there is none."""
    failure = found.outcome.failure
    return f": {failure.message}" if failure and failure.message else ""
