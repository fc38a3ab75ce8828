"""Compare the files of two sides: every case of either side gets its rows, and all of them are judged together."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import structs

from torchstone.analyze.evidence import Comparison
from torchstone.analyze.two_samples import mean_effect
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import InputError, UsageError
from torchstone.core.fingerprint import differences, unknowns
from torchstone.core.records import Case, Measurement, Number, Outcome, Rule, matches_metric
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import ACCURACY, NOT_AVAILABLE, PASSED, SKIPPED, Probe, Verdict
from torchstone.formats.merge import is_same_run
from torchstone.gate.baseline import has_ended_well, has_numbers
from torchstone.gate.comparable import Apart, Comparability
from torchstone.gate.criteria import CompareSettings, Criteria, Standard
from torchstone.gate.judge import judge_together
from torchstone.gate.rules import decide_status
from torchstone.gate.trials_of_sides import (
    Files,
    Gathered,
    count_passing,
    find_contradictions,
    is_count,
)
from torchstone.gate.verdicts import Conditions, Judgement, MetricMean, Overview, Remarks, Row, Ruling
from torchstone.gate.weigh import are_paired, evidence_of, weigh

_OPEN = Ruling(Verdict.INCONCLUSIVE)
_STATUS_RULE = Rule("status_equal")
_PASSED = frozenset({PASSED, ""})
_PASSING = _PASSED | {SKIPPED}


def compare_files(base: Files, new: Files, settings: CompareSettings) -> Judgement:
    """Compare all cases of two sides."""
    return _Comparing(base, new, settings).finish()


class _Comparing:
    """State while cases are compared."""

    def __init__(self, base: Files, new: Files, settings: CompareSettings) -> None:
        self._base, self._new, self._settings = base, new, settings
        conditions = Conditions(
            settings.policy,
            settings.rules,
            compare_anyway=settings.compare_anyway,
            cross_environment=settings.cross_environment,
        )
        self._comparability = Comparability(conditions)
        # Another one, for cautions about counters alone: environments have a place of their own in the report.
        self._counters = Comparability(conditions)
        self._seen: set[str] = set()
        self._only_new: Counter[str] = Counter()
        self._pairs: list[tuple[Gathered, Gathered]] = []
        self._claimed: dict[int, Case] = {}
        self._is_held_back = False
        self._exactly = frozenset(base.cases) & frozenset(new.cases)
        self._standards: dict[str, Standard] = {}
        self._counts: dict[tuple[str, Number, Number], tuple[Comparison, Criteria]] = {}

    def finish(self) -> Judgement:
        """All rows, judged together; and what they come to."""
        drafts = [row for case in self._new.cases for row in self._rows_of(case)]
        drafts += self._missing()
        self._refuse_nothing_compared(drafts)
        policy, alpha = self._settings.policy, self._settings.alpha
        rows = judge_together(drafts, policy, alpha)
        overview = Overview(
            alpha,
            len(self._pairs),
            tuple(self._means(rows)),
            count_passing(self._pairs),
            tuple(self._environment()),
            self._is_held_back,
        )
        return Judgement(policy, rows, self._cautions(), overview=overview)

    def _rows_of(self, case: Case) -> list[Row]:
        """The rows of one case of the new side."""
        new, anyway = self._new.of(case), self._settings.compare_anyway
        match = self._base.table.find(case, by_name_only=anyway)
        if match is not None and (found := match.row.outcome.case) != case and found in self._exactly:
            match = None  # another case of NEW is the very one
        if match is None:
            planned = case in self._base.unmeasured
            detail = "BASE planned it, but has no outcome of it" if planned else "only NEW has this case"
            if not has_ended_well(new.outcome):
                detail += f", and it failed: {new.outcome.status}{_told_by(new)}"
            metric = _main_metric(new)
            ruling, remarks = Ruling(Verdict.NEW, detail=detail), Remarks(new_place=new.place_of(metric))
            return [Row(ruling, case, metric, _with_status(new.outcome), remarks=remarks)]
        base = self._base.of(match.row.outcome.case)
        if match.differences and not anyway:
            self._base.table.touch(match.row)
            told = "; ".join(match.differences).replace(", expected ", ", in BASE ")
            row = self._row(Verdict.INCONCLUSIVE, _main_metric(new), base, new, f"not comparable: {told}")
            return [row]
        self._claim(match.row.number, base, new)
        self._base.table.claim(match.row, 1)
        self._pairs.append((base, new))
        return [*self._status_rows(base, new), *self._number_rows(base, new)]

    def _claim(self, number: int, base: Gathered, new: Gathered) -> None:
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
        base: Gathered,
        new: Gathered,
        detail: str = "",
    ) -> Row:
        outcomes = new.outcome, base.outcome
        if metric == ACCURACY:
            outcomes = _with_status(new.outcome), _with_status(base.outcome)
        remarks = Remarks(new.place_of(metric), base.place_of(metric))
        return Row(Ruling(verdict, detail=detail), new.outcome.case, metric, *outcomes, remarks=remarks)

    def _standard(self, metric: str, case: Case) -> Standard:
        """What a metric is held to; looked up once, unless rules are for some cases only."""
        found = self._standards.get(metric)
        if found is None:
            found = self._settings.standard_of(metric, case)
            if not self._settings.rules.depends_on_case(metric):
                self._standards[metric] = found
        return found

    def _status_rows(self, base: Gathered, new: Gathered) -> Iterator[Row]:
        """One row for a case that ended otherwise than before, or that failed both times; of accuracy, always one."""
        was, now = base.outcome.status or PASSED, new.outcome.status or PASSED
        of_accuracy = new.outcome.case.probe == Probe.ACCURACY
        self._seen |= {ACCURACY} if of_accuracy else set()
        is_news = was != PASSED or now != PASSED or ACCURACY in self._settings.metrics
        if not is_news and not (of_accuracy and self._standard(ACCURACY, new.outcome.case).is_wanted):
            return
        if now == NOT_AVAILABLE != was:
            why = f"not available in NEW{_told_by(new)}"
            yield self._row(Verdict.MISSING, ACCURACY, base, new, why)
        elif was == NOT_AVAILABLE != now:
            failed = "" if has_ended_well(new.outcome) else f", and it fails in NEW{_told_by(new)}"
            yield self._row(Verdict.NEW, ACCURACY, base, new, f"it was not available in BASE{failed}")
        elif now == SKIPPED and was not in _PASSING:
            yield self._row(Verdict.INCONCLUSIVE, ACCURACY, base, new, "it failed, and is skipped now")
        else:
            detail = "" if now in {PASSED, SKIPPED} else f"the case failed{_told_by(new)}"
            detail = "not available on either side" if now == NOT_AVAILABLE else detail
            verdict = decide_status(_STATUS_RULE, now, was)
            verdict = Verdict.SAME if verdict is Verdict.PASS else verdict
            yield self._row(verdict, ACCURACY, base, new, detail)

    def _number_rows(self, base: Gathered, new: Gathered) -> Iterator[Row]:
        """A row for each metric that both sides have, or only the base; none where the new side failed."""
        if not has_numbers(new.outcome):
            return
        if not has_numbers(base.outcome):
            yield from self._numbers_of_failed(base, new)
            return
        case = new.outcome.case
        wrong = find_contradictions(base, "BASE") | find_contradictions(new, "NEW")
        for metric, why in wrong.items():
            yield self._row(Verdict.INVALID, metric, base, new, why)
        apart = self._apart(base, new)
        there = {measurement.metric: measurement for measurement in new.outcome.measurements}
        before = {measurement.metric: measurement for measurement in base.outcome.measurements}
        self._seen.update(there, before)
        if not there.keys() <= before.keys():
            self._only_new.update(m for m in there if m not in before and self._standard(m, case).is_wanted)
        for metric, measured in before.items():
            if metric in wrong or not self._standard(metric, case).is_wanted:
                continue
            if metric not in there:
                left_out = new.outcome.why_left_out(metric)
                verdict = Verdict.INCONCLUSIVE if left_out else Verdict.MISSING
                why = f"not measured in NEW: {left_out}" if left_out else f"NEW has no {metric}"
                yield self._row(verdict, metric, base, new, why)
                continue
            yield self._compare(base, new, measured, there[metric], apart)
        self._counters.note_counters(new.readings[0], new.outcome, base.readings[0], base.outcome)

    def _numbers_of_failed(self, base: Gathered, new: Gathered) -> Iterator[Row]:
        """The rows of what a base measured before it failed: too little to compare with, and too much to say nothing of."""
        there = {measurement.metric for measurement in new.outcome.measurements}
        self._seen |= there
        for measured in base.outcome.measurements:
            if measured.metric in there and self._standard(measured.metric, new.outcome.case).is_wanted:
                why = f"not comparable: BASE ended as {base.outcome.status}"
                yield self._row(Verdict.INCONCLUSIVE, measured.metric, base, new, why)

    def _apart(self, base: Gathered, new: Gathered) -> Apart | None:
        """How the environments of any two of the files differ that have trials of this case."""
        files = (*new.readings, *base.readings)
        for index, other in enumerate(files):
            for one in files[:index]:
                if apart := self._comparability.between(one, other):
                    return apart
        return None

    def _compare(
        self, base: Gathered, new: Gathered, before: Measurement, after: Measurement, apart: Apart | None
    ) -> Row:
        """A row with its comparison, without a verdict as yet."""
        standard = self._standard(after.metric, new.outcome.case)
        if apart is None and is_count(before) and is_count(after) and after.metric in self._standards:
            key = after.metric, before.samples[0], after.samples[0]
            if key not in self._counts:
                self._counts[key] = self._weigh(standard, before, after, apart)
            comparison, criteria = self._counts[key]
        else:
            comparison, criteria = self._weigh(standard, before, after, apart)
        return Row(
            _OPEN,
            new.outcome.case,
            after.metric,
            new.outcome,
            base.outcome,
            standard.rule,
            Remarks(new.place_of(after.metric), base.place_of(after.metric)),
            comparison,
            criteria,
        )

    def _weigh(
        self, standard: Standard, before: Measurement, after: Measurement, apart: Apart | None
    ) -> tuple[Comparison, Criteria]:
        """The comparison of two measurements, and what it is judged by."""
        # What took turns on one machine differs in what is compared, and in nothing else.
        why = self._comparability.obstacle(
            None if are_paired(before, after) else apart, after.metric, after, before
        )
        self._is_held_back = self._is_held_back or bool(apart and why == apart.why)
        why = why or self._mixed(before) or self._mixed(after)
        obstacle = f"not comparable: {why}" if why else ""
        found = weigh(*evidence_of(before, after), alpha=self._settings.alpha, obstacle=obstacle)
        return found, self._settings.criteria_of(standard, before)

    def _mixed(self, measurement: Measurement) -> str:
        """How the trials of one side were measured in different ways; of counters that matters whatever is asked for."""
        mixed = measurement.details.mixed if measurement.details else None
        for way, why in (mixed or {}).items():
            if way == "counter" or not self._settings.compare_anyway:
                return why
        return ""

    def _missing(self) -> Iterator[Row]:
        """The rows of cases that the new side should have: those of the base, and those that it planned itself."""
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

    def _means(self, rows: Sequence[Row]) -> list[MetricMean]:
        """The geometric mean of each metric that scatters, over the cases that passed on both sides."""
        ratios: dict[str, list[float]] = {}
        better: dict[str, str] = {}
        for row in rows:
            if row.comparison is None or row.criteria is None or self._is_exact(row):
                continue
            ratio = row.ratio
            if ratio and ratio > 0 and _both_passed(row):
                ratios.setdefault(row.metric, []).append(ratio)
                better.setdefault(row.metric, row.criteria.better)
        return [
            MetricMean(metric, better[metric], mean_effect(found, self._settings.alpha))
            for metric, found in ratios.items()
        ]

    def _is_exact(self, row: Row) -> bool:
        return row.rule is not None and row.rule.kind == "count"

    def _environment(self) -> list[str]:
        """In what the environments of the two sides differ, and then those of the files of one side."""
        found = {
            difference: None
            for new in self._new.readings
            for base in self._base.readings
            for difference in differences(new.run.environment, base.run.environment)
        }
        for name, side in (("BASE", self._base), ("NEW", self._new)):
            for one, other in itertools.combinations(side.readings, 2):
                told = differences(other.run.environment, one.run.environment)
                found |= {f"{difference} (both are {name})": None for difference in told}
        return list(found)

    def _unknown_variables(self) -> list[Caution]:
        """The variables that are set in the environments of several files, and whose values not all of these show."""
        files = (*self._base.readings, *self._new.readings)
        return unknowns(*(reading.run.environment for reading in files))

    def _cautions(self) -> list[Caution]:
        files = (*self._base.readings, *self._new.readings)
        cautions = [caution for reading in files for caution in reading.cautions]
        cautions += [
            make_caution(CautionKind.COMPARED_WITH_ITSELF, new=new.path, base=base.path)
            for base in self._base.readings
            for new in self._new.readings
            if is_same_run(base, new)
        ]
        cautions += self._unknown_variables()
        cautions += self._counters.cautions()
        if self._only_new:
            named = ", ".join(f"{metric} ({count_of(n, 'case')})" for metric, n in self._only_new.items())
            cautions.append(make_caution(CautionKind.ONLY_IN_NEW, metrics=named))
        return cautions

    def _refuse_nothing_compared(self, drafts: Sequence[Row]) -> None:
        """No case in common, or a metric that nobody has, is a mistake rather than a result; of a selection, what is missing is a result too."""
        if not self._pairs and all(
            row.verdict is Verdict.NEW or not self._new.is_selection for row in drafts
        ):
            for side in (self._base, self._new):
                if not side.cases and side.unmeasured:
                    raise _no_outcome(side)
            ours, theirs = ((*side.cases, *side.unmeasured) for side in (self._base, self._new))
            examples = f"BASE has {_example(ours)}, NEW has {_example(theirs)}"
            advice = f"{examples}; name, probe and all axes that both state have to agree, unless --compare-anyway is given"
            raise UsageError("no case can be compared: none stands in both", advice=advice)
        named = (name for name, _ in (*self._settings.margins, *self._settings.better))
        for pattern in dict.fromkeys((*self._settings.metrics, *named)):
            if not any(matches_metric(pattern, metric) for metric in self._seen):
                self._refuse_pattern(pattern)
        if all(row.verdict is Verdict.NEW for row in drafts):
            only_new = f"; only NEW has {', '.join(self._only_new)}" if self._only_new else ""
            raise UsageError(
                f"nothing can be compared: in {count_of(len(self._pairs), 'common case')} no metric that is compared stands on both sides{only_new}",
                advice="name others with --metric, or measure the same ones on both sides",
            )

    def _refuse_pattern(self, pattern: str) -> None:
        """Refuse a metric that nobody has; one that only a case has which could not be compared is none of these."""
        files = (*self._base.readings, *self._new.readings)
        outcomes = [outcome for reading in files for outcome in reading.run.outcomes]
        there = {ACCURACY, *(m.metric for outcome in outcomes for m in outcome.measurements)}
        if not any(matches_metric(pattern, metric) for metric in there):
            advice = f"there are: {', '.join(sorted(there))}"
            raise UsageError(f"'{pattern}': neither BASE nor NEW has such a metric", advice=advice)


def _no_outcome(side: Files) -> UsageError:
    """What is wrong with files that only say what was to be measured."""
    paths = " and ".join(reading.path for reading in side.readings)
    cautions = "; ".join(caution.text for reading in side.readings for caution in reading.cautions)
    planned = count_of(len(side.unmeasured), "planned case")
    return UsageError(
        f"nothing can be compared: no outcome of {planned} is in {paths}{f' ({cautions})' if cautions else ''}",
        advice=f"torchstone run --resume {side.readings[0].path} goes on with it",
    )


def _both_passed(row: Row) -> bool:
    return bool(row.base and row.base.status in _PASSED and row.new and row.new.status in _PASSED)


def _main_metric(found: Gathered) -> str:
    """The metric that stands for a case that only one side has."""
    outcome = found.outcome
    return outcome.measurements[0].metric if outcome.measurements and outcome.status in _PASSING else ACCURACY


def _with_status(outcome: Outcome) -> Outcome:
    """The outcome with the status it stands for: a file that states none has cases that passed."""
    return outcome if outcome.status else structs.replace(outcome, status=PASSED)


def _example(cases: Sequence[Case]) -> str:
    return cases[0].id if cases else "none"


def _told_by(found: Gathered) -> str:
    """The reason that a failure gives, after a colon."""
    failure = found.outcome.failure
    return f": {failure.message}" if failure and failure.message else ""
