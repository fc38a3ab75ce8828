"""Read one side of a comparison from one or more files.

The same case in several files is one case with more trials.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct, structs

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import merged
from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, FilePlace, Measurement, Outcome, Reading
from torchstone.core.vocabulary import NOT_AVAILABLE, PASSED
from torchstone.formats.merge import merge, no_match, select
from torchstone.gate.baseline import Baseline, select_pair
from torchstone.gate.disturbance import mark_disturbed
from torchstone.gate.judgement import PassRate
from torchstone.gate.sanity import find_inconsistencies
from torchstone.gate.trial_statuses import count_statuses, disagreement_caution

_PASSED = frozenset({PASSED, ""})


class CaseOfSide(Struct, frozen=True):
    """A case of one side: one outcome with all trials, their files, and the index of the first trial in the first file."""

    outcome: Outcome
    readings: tuple[Reading, ...]
    index: int

    def place_of(self, metric: str = "") -> FilePlace:
        """Return the line of the first trial, or of a metric of it."""
        return self.readings[0].place(self.index, metric)


class SideFiles:
    """The files of one side."""

    def __init__(self, readings: Sequence[Reading], *, is_selection: bool = False) -> None:
        _refuse_repeated_paths(readings)
        self.is_selection = is_selection
        for reading in readings:
            merge([reading])  # refuses the same case twice in one file
        self.readings = tuple(readings)
        found: dict[Case, list[tuple[Reading, int]]] = {}
        for reading in self.readings:
            for index, outcome in enumerate(reading.run.outcomes):
                found.setdefault(outcome.case, []).append((reading, index))
        self._found = _join_less_stated(found) if len(self.readings) > 1 else found
        planned = (case for reading in self.readings for case in reading.run.plan)
        self.unmeasured = tuple(dict.fromkeys(case for case in planned if case not in found))

    @cached_property
    def table(self) -> Baseline:
        """The outcomes as expected rows, for the other side to find; only BASE needs them."""
        if len(self.readings) == 1:
            return Baseline(self.readings)
        return Baseline([self._distinct(reading) for reading in self.readings])

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that have an outcome."""
        return tuple(self._found)

    def of(self, case: Case) -> CaseOfSide:
        """Return one of the cases of this side, with all its trials."""
        found = self._found[case]
        first, index = found[0]
        if len(found) == 1:
            return CaseOfSide(first.run.outcomes[index], (first,), index)
        outcomes = [reading.run.outcomes[index] for reading, index in found]
        return CaseOfSide(
            structs.replace(_join(outcomes), case=case),
            tuple(reading for reading, _ in found),
            index,
        )

    def _distinct(self, reading: Reading) -> Reading:
        """Return a file without the cases that an earlier file has."""
        return select(reading, lambda case: case in self._found and self._found[case][0][0] is reading)


_Places = dict[Case, list[tuple[Reading, int]]]


def _join_less_stated(found: _Places) -> _Places:
    """Join cases that state fewer axes with the one case that states more: not all files state everything, least of all for a failed case."""
    names = Counter((case.benchmark, case.probe) for case in found)
    alike: dict[tuple[str, str], list[Case]] = {}
    for case in found:
        if names[key := (case.benchmark, case.probe)] > 1:
            alike.setdefault(key, []).append(case)
    joined = {case: list(places) for case, places in found.items()}
    for cases in alike.values():
        for case, fuller in _find_fuller(cases).items():
            files = {id(reading) for reading, _ in found[case]}
            if len(fuller) == 1 and not files & {id(reading) for reading, _ in found[fuller[0]]}:
                joined[fuller[0]] += joined.pop(case)
    return joined


def _find_fuller(cases: Sequence[Case]) -> dict[Case, list[Case]]:
    """Return for each case those that state the same and more: found among cases with more axes, by the values of the common ones."""
    stated = {case: case.variant.axes() | ({"suite": case.suite} if case.suite else {}) for case in cases}
    by_axes: dict[frozenset[str], list[Case]] = {}
    for case, axes in stated.items():
        by_axes.setdefault(frozenset(axes), []).append(case)
    found: dict[Case, list[Case]] = {case: [] for case in cases}
    for few, of_few in by_axes.items():
        for many, of_many in by_axes.items():
            if not few < many:
                continue
            fuller: dict[frozenset[tuple[str, str]], list[Case]] = {}
            for case in of_many:
                said = frozenset(pair for pair in stated[case].items() if pair[0] in few)
                fuller.setdefault(said, []).append(case)
            for case in of_few:
                found[case] += fuller.get(frozenset(stated[case].items()), ())
    return found


def make_sides(
    base: Sequence[Reading], new: Sequence[Reading], only: Sequence[str]
) -> tuple[SideFiles, SideFiles]:
    """Return both sides, reduced to the cases that the patterns select. A pattern that matches a case on one side selects its counterpart too."""
    sides = SideFiles(base), SideFiles(new)
    if not only:
        return sides
    new, base = select_pair(new, base, only, sides[0].table)
    chosen = SideFiles(base, is_selection=True), SideFiles(new, is_selection=True)
    if not any((*side.cases, *side.unmeasured) for side in chosen):
        raise no_match(only, (*sides[0].readings, *sides[1].readings))
    return chosen


def _refuse_repeated_paths(readings: Sequence[Reading]) -> None:
    paths = [os.path.realpath(reading.path) for reading in readings]
    for reading, path in zip(readings, paths, strict=True):
        if paths.count(path) > 1:
            raise UsageError(
                f"{reading.path} is given twice for one side", advice="give it once: it is one set of trials"
            )


def _join(outcomes: Sequence[Outcome]) -> Outcome:
    """Join several outcomes of one case. If one of them failed, the case failed."""
    failed = next((outcome for outcome in outcomes if outcome.status not in {PASSED, ""}), None)
    by_metric: dict[str, list[Measurement]] = {}
    for outcome in outcomes:
        for measurement in outcome.measurements:
            by_metric.setdefault(measurement.metric, []).append(measurement)
    joined = tuple(mark_disturbed(_join_trials(found), outcomes) for found in by_metric.values())
    cautions = merged(caution for outcome in outcomes for caution in outcome.cautions)
    statuses = count_statuses(outcomes)
    if len(statuses) > 1:
        kept = (each for each in cautions if each.kind is not CautionKind.TRIAL_FAILED)
        cautions = (*kept, disagreement_caution(statuses))
    return structs.replace(failed or outcomes[0], measurements=joined, cautions=cautions)


def _join_trials(found: Sequence[Measurement]) -> Measurement:
    """Join several measurements of one metric, with the trials of all."""
    if len(found) == 1:
        return found[0]
    trials = [trial for measurement in found for trial in measurement.trials]
    samples = tuple(sample for trial in trials for sample in trial)
    return Measurement(found[0].metric, samples, _join_details(found, tuple(map(len, trials))))


def _join_details(found: Sequence[Measurement], trials: tuple[int, ...]) -> MeasurementDetails:
    """Return how joined samples were taken: what all sides that state it agree on, and in what they differ."""
    margin = next((each.margin for each in found if each.margin is not None), None)
    stated: dict[str, set[str]] = {}
    for details in (each.details or NO_DETAILS for each in found):
        for name, way in {"counter": details.counter, **details.methods()}.items():
            stated.setdefault(name, set()).update([str(way)] if way else [])
    same = {name: next(iter(ways)) for name, ways in stated.items() if len(ways) == 1}
    mixed = {
        name: f"the files of one side differ in {name}: {printable(', '.join(sorted(ways)), 80)}"
        for name, ways in stated.items()
        if len(ways) > 1
    }
    joined = structs.replace(NO_DETAILS, **same)
    return structs.replace(joined, trials=trials, margin=margin, mixed=mixed or None)


def find_invalid_metrics(found: CaseOfSide, side: str) -> dict[str, str]:
    """Return the metrics of one side whose values cannot be right, and why."""
    return {metric: f"{side}: {why}" for metric, why in find_inconsistencies(found.outcome.measurements)}


def count_passing(pairs: Sequence[tuple[CaseOfSide, CaseOfSide]]) -> PassRate:
    """Count the cases that pass on each side, among those that could be measured on both."""
    statuses = [(new.outcome.case, base.outcome.status, new.outcome.status) for base, new in pairs]
    statuses = [each for each in statuses if NOT_AVAILABLE not in each[1:]]
    return PassRate(
        len(statuses),
        sum(was in _PASSED for _, was, _ in statuses),
        sum(now in _PASSED for _, _, now in statuses),
        tuple((case, now) for case, was, now in statuses if was in _PASSED and now not in _PASSED),
        tuple((case, was) for case, was, now in statuses if was not in _PASSED and now in _PASSED),
    )
