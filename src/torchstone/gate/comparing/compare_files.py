"""Compare the files of two sides: every case of either side gets its rows, and all of them are judged together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from msgspec import structs

from torchstone.analyze.evidence import Comparison
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Number, Rule
from torchstone.core.vocabulary import ACCURACY, NOT_AVAILABLE, PASSED, SKIPPED, Probe, Verdict
from torchstone.gate.baseline import has_ended_well, has_numbers, is_single_count, with_status
from torchstone.gate.comparable import NOT_COMPARABLE, Comparability, EnvironmentGap, depends_on_environment
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
from torchstone.gate.criteria import CompareSettings, Criteria, looks_of
from torchstone.gate.judge import judge_together
from torchstone.gate.judgement import DRAFT, Conditions, Judgement, Overview, Remarks, Row, Ruling
from torchstone.gate.rules import decide_status, numbers_count, statuses_agree
from torchstone.gate.trial_statuses import find_disagreement
from torchstone.gate.weigh_metric import MeasuredSide, MetricWeigher, was_measured

_STATUS_RULE = Rule("status_equal")
_PASSING = frozenset({PASSED, SKIPPED, ""})


def compare_files(base: SideFiles, new: SideFiles, settings: CompareSettings) -> Judgement:
    """Compare all cases of two sides."""
    return _Comparing(base, new, structs.replace(settings, looks=looks_of(new.readings))).finish()


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
        self._weigher = MetricWeigher(settings, self._comparability)
        # Only for cautions about counters: the report shows environments separately.
        self._counters = Comparability(conditions)
        settings.rules.learn_from((*base.readings, *new.readings))
        self._seen: set[str] = set()
        self._only_new: Counter[str] = Counter()
        self._only_new_probes: Counter[str] = Counter()
        self._pairs: list[tuple[CaseOfSide, CaseOfSide]] = []
        self._claimed: dict[int, Case] = {}
        self._in_both = frozenset(base.cases) & frozenset(new.cases)
        self._weighed_counts: dict[tuple[str, Number, Number], tuple[Comparison, Criteria]] = {}

    def finish(self) -> Judgement:
        """Return all rows, judged together, with the overview."""
        drafts = [row for case in self._new.cases for row in self._valid_rows_of(case)]
        drafts += self._missing()
        self._refuse_nothing_compared(drafts)
        policy, alpha = self._settings.policy, self._settings.level
        rows = judge_together(drafts, policy, alpha)
        means, left_out = mean_effects(rows, alpha)
        overview = Overview(
            alpha,
            len(self._pairs),
            tuple(means),
            left_out,
            count_passing(self._pairs),
            tuple(environment_differences(self._base, self._new)),
            self._weigher.is_held_back,
        )
        cautions = [
            *file_cautions(self._base, self._new),
            *self._counters.cautions(),
            *self._weigher.recorded_cautions(),
            *only_new_cautions(self._only_new, self._only_new_probes),
        ]
        return Judgement(policy, rows, cautions, overview=overview)

    def _refuse_nothing_compared(self, drafts: Sequence[Row]) -> None:
        """Raise UsageError if the sides have no case in common, no metric in common, or no metric that was asked for."""
        is_selection = self._new.is_selection  # in a selection, a missing case is a result too
        if not self._pairs and all(row.verdict is Verdict.NEW or not is_selection for row in drafts):
            raise no_common_case(self._base, self._new)
        refuse_unknown_patterns(self._settings, self._seen, self._base, self._new)
        if all(row.verdict is Verdict.NEW and (row.new is None or has_ended_well(row.new)) for row in drafts):
            raise no_common_metric(len(self._pairs), self._only_new)

    def _valid_rows_of(self, case: Case) -> list[Row]:
        """Return the rows of one case of the new side; those of impossible numbers say so, whatever they are compared with."""
        rows, new = self._rows_of(case), self._new.of(case)
        wrong = find_invalid_metrics(new, "NEW")
        if not wrong:
            return rows
        bases = {row.metric: row.base for row in rows}
        return [row for row in rows if row.metric not in wrong] + [
            Row(
                Ruling(Verdict.INVALID, detail=why),
                case,
                metric,
                new.outcome,
                bases.get(metric),
                remarks=Remarks(new.place_of(metric)),
            )
            for metric, why in wrong.items()
        ]

    def _rows_of(self, case: Case) -> list[Row]:
        """Return the rows of one case of the new side."""
        new, anyway = self._new.of(case), self._settings.compare_anyway
        match = self._base.table.find(case, by_name_only=anyway)
        if match is not None and (found := match.row.outcome.case) != case and found in self._in_both:
            match = None  # another case of NEW matches it exactly
        if match is None:
            return self._rows_without_base(case, new)
        base = self._base.of(match.row.outcome.case)
        if match.differences and not anyway:
            self._base.table.touch(match.row)
            why = "; ".join(each.against("in BASE") for each in match.differences)
            metric = _main_metric(new)
            return [self._row(Verdict.INCONCLUSIVE, metric, base, new, f"{NOT_COMPARABLE}{why}")]
        self._claim(match.row.number, base, new)
        self._base.table.claim(match.row, 1)
        if not base.outcome.status and not base.outcome.measurements:
            return [self._row(Verdict.NEW, _main_metric(new), base, new, "BASE states nothing of this case")]
        self._pairs.append((base, new))
        if disagree := find_disagreement(base.outcome, new.outcome):
            self._seen.update(each.metric for side in (base, new) for each in side.outcome.measurements)
            return [self._row(disagree.verdict, ACCURACY, base, new, disagree.detail)]
        return [*self._status_rows(base, new), *self._number_rows(base, new)]

    def _rows_without_base(self, case: Case, new: CaseOfSide) -> list[Row]:
        """Return the row of a case that only the new side has; none if it cannot be measured, or if BASE has no results of its probe and it did not fail."""
        if new.outcome.status == NOT_AVAILABLE:
            return []
        probes = self._base.table.probes
        if case.probe in probes or "" in probes or not has_ended_well(new.outcome):
            return [self._new_row(case, new)]
        self._only_new_probes[case.probe] += 1
        return []

    def _new_row(self, case: Case, new: CaseOfSide) -> Row:
        """Return the row of a case that only the new side has an outcome of."""
        planned = case in self._base.unmeasured
        detail = "BASE planned it, but has no outcome of it" if planned else "only NEW has this case"
        if not has_ended_well(new.outcome):
            detail += f", and it failed: {new.outcome.status}{_failure_reason(new)}"
        metric = _main_metric(new)
        ruling, remarks = Ruling(Verdict.NEW, detail=detail), Remarks(new_place=new.place_of(metric))
        return Row(ruling, case, metric, with_status(new.outcome), remarks=remarks)

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
            outcomes = with_status(new.outcome), with_status(base.outcome)
        remarks = Remarks(new.place_of(metric), base.place_of(metric))
        return Row(Ruling(verdict, detail=detail), new.outcome.case, metric, *outcomes, remarks=remarks)

    def _status_rows(self, base: CaseOfSide, new: CaseOfSide) -> Iterator[Row]:
        """Yield a row for a case whose status changed, or that failed both times; for accuracy, always."""
        was, now = base.outcome.status or PASSED, new.outcome.status or PASSED
        of_accuracy = new.outcome.case.probe == Probe.ACCURACY
        self._seen |= {ACCURACY} if of_accuracy else set()
        is_news = was != PASSED or now != PASSED or ACCURACY in self._settings.metrics
        if not is_news and not (
            of_accuracy and self._weigher.criteria_of(ACCURACY, new.outcome.case).is_compared
        ):
            return
        if now == NOT_AVAILABLE != was:
            why = f"not available in NEW{_failure_reason(new)}"
            yield self._row(Verdict.MISSING, ACCURACY, base, new, why)
        elif was == NOT_AVAILABLE != now:
            failed = "" if has_ended_well(new.outcome) else f", and it fails in NEW{_failure_reason(new)}"
            yield self._row(Verdict.NEW, ACCURACY, base, new, f"it was not available in BASE{failed}")
        else:
            detail = "" if now in {PASSED, SKIPPED} else f"the case failed{_failure_reason(new)}"
            detail = "it failed, and is skipped now" if now == SKIPPED and was not in _PASSING else detail
            detail = "not available on either side" if now == NOT_AVAILABLE else detail
            verdict = decide_status(_STATUS_RULE, now, was)
            verdict = Verdict.SAME if verdict is Verdict.PASS else verdict
            yield self._row(verdict, ACCURACY, base, new, detail)

    def _number_rows(self, base: CaseOfSide, new: CaseOfSide) -> Iterator[Row]:
        """Yield a row for each metric of BASE; none if NEW failed, unless both failed alike: then their numbers count up to the failure."""
        was = base.outcome.status
        if was == NOT_AVAILABLE or not numbers_count(new.outcome, was or PASSED):
            return
        is_whole, failed_alike = has_numbers(base.outcome), statuses_agree(new.outcome.status, was)
        ended_as = "" if is_whole or failed_alike else was
        case = new.outcome.case
        wrong = find_invalid_metrics(base, "BASE") if is_whole else {}
        gap = self._environment_gap(base, new)
        there = {measurement.metric: measurement for measurement in new.outcome.measurements}
        before = {measurement.metric: measurement for measurement in base.outcome.measurements}
        self._seen.update(there, before)
        if not there.keys() <= before.keys():
            yield from self._metrics_of_new(new, before)
        for metric, measured in before.items():
            explained = metric not in there and failed_alike and not is_whole
            if explained or not self._weigher.criteria_of(metric, case).is_compared:
                continue
            if metric not in there:
                left_out = new.outcome.why_left_out(metric)
                verdict = Verdict.INCONCLUSIVE if left_out else Verdict.MISSING
                why = f"not measured in NEW: {left_out}" if left_out else f"NEW has no {metric}"
                yield self._row(verdict, metric, base, new, why)
            elif ended_as and depends_on_environment(metric):
                yield self._row(
                    Verdict.INCONCLUSIVE, metric, base, new, f"{NOT_COMPARABLE}BASE ended as {ended_as}"
                )
            elif metric in wrong:
                yield self._row(Verdict.INVALID, metric, base, new, wrong[metric])
            else:
                yield self._compare(base, new, measured, there[metric], gap)
        self._counters.note_counters(new.readings[0], new.outcome, base.readings[0], base.outcome)

    def _metrics_of_new(self, new: CaseOfSide, before: Collection[str]) -> Iterator[Row]:
        """Yield a row for each instruction count that BASE lacks, of which each counts by itself; other metrics get a caution."""
        case = new.outcome.case
        for metric in (each.metric for each in new.outcome.measurements if each.metric not in before):
            if not self._weigher.criteria_of(metric, case).is_compared:
                continue
            if case.probe == Probe.INSTRUCTIONS:
                remarks = Remarks(new_place=new.place_of(metric))
                ruling = Ruling(Verdict.NEW, detail="only NEW has this metric")
                yield Row(ruling, case, metric, new.outcome, remarks=remarks)
            else:
                self._only_new[metric] += 1

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
        criteria = self._weigher.criteria_of(metric, new.outcome.case)
        if (
            gap is None
            and is_single_count(before)
            and is_single_count(after)
            and self._weigher.is_for_all_cases(metric)
        ):
            key = metric, before.samples[0], after.samples[0]
            if key not in self._weighed_counts:
                self._weighed_counts[key] = self._weigh(base, new, before, after, gap)
            weighed = self._weighed_counts[key]
        else:
            weighed = self._weigh(base, new, before, after, gap)
        remarks = Remarks(new.place_of(metric), base.place_of(metric))
        outcomes = new.outcome, base.outcome
        return Row(DRAFT, new.outcome.case, metric, *outcomes, criteria.rule, remarks, *weighed)

    def _weigh(
        self,
        base: CaseOfSide,
        new: CaseOfSide,
        before: Measurement,
        after: Measurement,
        gap: EnvironmentGap | None,
    ) -> tuple[Comparison, Criteria]:
        """Return the comparison of two measurements, and the criteria to judge it by."""
        criteria = self._weigher.criteria_of(after.metric, new.outcome.case)
        return self._weigher.weigh(
            _measured_side(base, before),
            _measured_side(new, after),
            criteria,
            gap,
            new.readings[0].run.settings,
        )

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
            outcome, remarks = with_status(base.outcome), Remarks(base_place=base.place_of(metric))
            yield Row(ruling, row.outcome.case, metric, base=outcome, remarks=remarks)
        for case in sorted(unmeasured, key=lambda case: case.id):
            yield Row(Ruling(Verdict.MISSING, detail=planned), case, ACCURACY)


def _main_metric(found: CaseOfSide) -> str:
    """Return the metric that represents a case that only one side has."""
    outcome = found.outcome
    return outcome.measurements[0].metric if outcome.measurements and outcome.status in _PASSING else ACCURACY


def _failure_reason(found: CaseOfSide) -> str:
    """Return the message of a failure, after a colon; empty if there is none."""
    failure = found.outcome.failure
    return f": {failure.message}" if failure and failure.message else ""


def _measured_side(side: CaseOfSide, measurement: Measurement) -> MeasuredSide:
    return MeasuredSide(side.outcome, measurement, any(map(was_measured, side.readings)))
