"""One side of a comparison: one file or several, of which those that have the same case give trials of it."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct, structs

from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, FilePlace, Measurement, Outcome, Reading
from torchstone.core.vocabulary import NOT_AVAILABLE, PASSED
from torchstone.formats.merge import merge, no_match, select
from torchstone.gate.baseline import Baseline, select_pair
from torchstone.gate.sanity import contradictions
from torchstone.gate.verdicts import PassRate

_PASSED = frozenset({PASSED, ""})


class Gathered(Struct, frozen=True):
    """All that one side says of a case: one outcome with all trials, the files they are from, and the number of the first of them in the first file."""

    outcome: Outcome
    readings: tuple[Reading, ...]
    index: int

    def place_of(self, metric: str = "") -> FilePlace:
        """Where the first of the trials, or a metric of it, stands."""
        return self.readings[0].place(self.index, metric)


class Files:
    """The files of one side. The same case in several of them is one case with more trials."""

    def __init__(self, readings: Sequence[Reading], *, is_selection: bool = False) -> None:
        _refuse_twice(readings)
        self.is_selection = is_selection
        for reading in readings:
            merge([reading])  # the same case twice in one file is a mistake
        self.readings = tuple(readings)
        found: dict[Case, list[tuple[Reading, int]]] = {}
        for reading in self.readings:
            for index, outcome in enumerate(reading.run.outcomes):
                found.setdefault(outcome.case, []).append((reading, index))
        self._found = _join_fuller(found) if len(self.readings) > 1 else found
        planned = (case for reading in self.readings for case in reading.run.plan)
        self.unmeasured = tuple(dict.fromkeys(case for case in planned if case not in found))

    @cached_property
    def table(self) -> Baseline:
        """The outcomes as rows that another side is compared with; only a base needs it."""
        if len(self.readings) == 1:
            return Baseline(self.readings)
        return Baseline([self._distinct(reading) for reading in self.readings])

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that have an outcome."""
        return tuple(self._found)

    def of(self, case: Case) -> Gathered:
        """What this side says of one of its cases."""
        found = self._found[case]
        first, index = found[0]
        if len(found) == 1:
            return Gathered(first.run.outcomes[index], (first,), index)
        outcomes = [reading.run.outcomes[index] for reading, index in found]
        return Gathered(
            structs.replace(_join(outcomes), case=case),
            tuple(reading for reading, _ in found),
            index,
        )

    def _distinct(self, reading: Reading) -> Reading:
        """A file without the cases that an earlier one has."""
        return select(reading, lambda case: case in self._found and self._found[case][0][0] is reading)


_Places = dict[Case, list[tuple[Reading, int]]]


def _join_fuller(found: _Places) -> _Places:
    """The same outcomes, where a case that says less than another is that other one: files do not all state everything, and least of a case that failed."""
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
    """For each case those that say all that it does, and more: looked up among those that state more axes, by the values of those that it states."""
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


def gather(base: Sequence[Reading], new: Sequence[Reading], only: Sequence[str]) -> tuple[Files, Files]:
    """Both sides, with the cases that the patterns mean: one that means a case of either side means the case that it is compared with too."""
    sides = Files(base), Files(new)
    if not only:
        return sides
    new, base = select_pair(new, base, only, sides[0].table)
    chosen = Files(base, is_selection=True), Files(new, is_selection=True)
    if not any((*side.cases, *side.unmeasured) for side in chosen):
        raise no_match(only, (*sides[0].readings, *sides[1].readings))
    return chosen


def _refuse_twice(readings: Sequence[Reading]) -> None:
    paths = [os.path.realpath(reading.path) for reading in readings]
    for reading, path in zip(readings, paths, strict=True):
        if paths.count(path) > 1:
            raise UsageError(
                f"{reading.path} is named twice on one side", advice="name it once: it is one set of trials"
            )


def _join(outcomes: Sequence[Outcome]) -> Outcome:
    """Several outcomes of one case as one. Where one of them failed, that is what became of the case."""
    failed = next((outcome for outcome in outcomes if outcome.status not in {PASSED, ""}), None)
    by_metric: dict[str, list[Measurement]] = {}
    for outcome in outcomes:
        for measurement in outcome.measurements:
            by_metric.setdefault(measurement.metric, []).append(measurement)
    joined = tuple(_join_trials(found) for found in by_metric.values())
    return structs.replace(failed or outcomes[0], measurements=joined)


def _join_trials(found: Sequence[Measurement]) -> Measurement:
    """Several measurements of one metric as one, with the trials of all."""
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
        for name, way in {"counter": details.counter, **details.ways()}.items():
            stated.setdefault(name, set()).update([str(way)] if way else [])
    same = {name: next(iter(ways)) for name, ways in stated.items() if len(ways) == 1}
    mixed = {
        name: f"the files of one side differ in {name}: {printable(', '.join(sorted(ways)), 80)}"
        for name, ways in stated.items()
        if len(ways) > 1
    }
    joined = structs.replace(NO_DETAILS, **same)
    return structs.replace(joined, trials=trials, margin=margin, mixed=mixed or None)


def find_contradictions(found: Gathered, side: str) -> dict[str, str]:
    """The metrics of one side that cannot be right, and why."""
    measured = found.outcome.measurements
    wild = {
        each.metric: f"{side}: a sample that is no finite number"
        for each in measured
        if not all(map(math.isfinite, each.samples))
    }
    sound = tuple(each for each in measured if each.metric not in wild) if wild else measured
    return wild | {metric: f"{side}: {why}" for metric, why in contradictions(sound)}


def is_count(measurement: Measurement) -> bool:
    """Whether a measurement is one whole number, and nothing more is said of it: runs have the same ones again and again."""
    samples = measurement.samples
    return len(samples) == 1 and type(samples[0]) is int and not measurement.details and not measurement.extra


def count_passing(pairs: Sequence[tuple[Gathered, Gathered]]) -> PassRate:
    """How many of the cases of both sides pass, where both could be measured at all."""
    statuses = [(new.outcome.case, base.outcome.status, new.outcome.status) for base, new in pairs]
    statuses = [each for each in statuses if NOT_AVAILABLE not in each[1:]]
    return PassRate(
        len(statuses),
        sum(was in _PASSED for _, was, _ in statuses),
        sum(now in _PASSED for _, _, now in statuses),
        tuple((case, now) for case, was, now in statuses if was in _PASSED and now not in _PASSED),
        tuple((case, was) for case, was, now in statuses if was not in _PASSED and now in _PASSED),
    )
