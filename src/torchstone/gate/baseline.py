"""Baselines: find the expected row for a case, and the axes on which the two differ."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, FilePlace, Measurement, Outcome, Reading, Variant
from torchstone.core.vocabulary import ACCURACY, NOT_AVAILABLE, PASSED, SKIPPED, Probe
from torchstone.formats.merge import SETTABLE, is_selected, select

_ANY_VARIANT = Variant()
_WRONG_RESULTS = ("fail_accuracy", "not_bitwise_equivalent", "fail_batch_invariance")
"""Beginnings of the statuses of cases with wrong results; PyTorch's scripts append details to some of them."""
HISTORY = "history"
"""The kind of a baseline that is the last level of each series in a store, rather than a file."""
MANY_ALIKE = 16
"""The number of rows with one name that are searched one by one; more are indexed."""


def names_history(baseline: str) -> bool:
    """Return whether a baseline names a level of the store, such as ``history:main``, rather than a file."""
    return baseline.partition(":")[0] == HISTORY and not os.path.exists(baseline)


class ExpectedRow(Struct, frozen=True, gc=False):
    """An expected outcome, its file, its index in the file, and its number among all expected rows."""

    outcome: Outcome
    reading: Reading
    index: int
    number: int

    @property
    def place(self) -> FilePlace:
        """The line it was read from."""
        return self.place_of("")

    def place_of(self, metric: str) -> FilePlace:
        """Return the line that a metric of it was read from."""
        return self.reading.place(self.index, metric)


class AxisDifference(Struct, frozen=True, gc=False):
    """An axis that a case and its expected row both state, with different values."""

    axis: str
    actual: str
    expected: str

    def against(self, side: str) -> str:
        """Describe the difference; ``side`` names where the other value is from, such as ``expected``."""
        return f"{self.axis} is {self.actual}, {side} {self.expected}"


class BaselineMatch(Struct, frozen=True, gc=False):
    """The expected row for a case, and the axes on which they differ."""

    row: ExpectedRow
    differences: tuple[AxisDifference, ...] = ()


def main_metric(outcome: Outcome) -> str:
    """Return the metric that represents a whole row: accuracy if a status is expected, else the first one expected."""
    if outcome.case.probe == Probe.ACCURACY or not outcome.measurements:
        return ACCURACY
    return outcome.measurements[0].metric


def measurement_of(outcome: Outcome | None, metric: str) -> Measurement | None:
    """Return the measurement of a metric; None if there is none."""
    if outcome is not None:
        for measurement in outcome.measurements:
            if measurement.metric == metric:
                return measurement
    return None


def is_single_count(measurement: Measurement) -> bool:
    """Return whether a measurement is a single whole number without further information. Runs have the same ones many times."""
    samples = measurement.samples
    if measurement.details is not None or measurement.extra:
        return False
    return len(samples) == 1 and type(samples[0]) is int


def with_status(outcome: Outcome) -> Outcome:
    """Return the outcome with a status: cases of a file without statuses passed, if it has numbers of them."""
    states = outcome.status or not outcome.measurements
    return outcome if states else structs.replace(outcome, status=PASSED)


def has_ended_well(outcome: Outcome) -> bool:
    """Return whether a case did not fail: it passed, was skipped on purpose, or cannot be measured there."""
    return outcome.status in {PASSED, SKIPPED, NOT_AVAILABLE, ""}


def runs_to_its_end(status: str) -> bool:
    """Return whether a case with this status ran to its end, though its results may be wrong."""
    return status in {PASSED, SKIPPED, ""} or status.startswith(_WRONG_RESULTS)


def has_numbers(outcome: Outcome) -> bool:
    """Return whether the numbers of an outcome mean something by themselves: the case ran to its end."""
    return runs_to_its_end(outcome.status)


def require_common_probe(readings: Sequence[Reading], expected: Sequence[Reading]) -> None:
    """Raise UsageError if results and baseline have no probe in common: every row would be missing."""
    measured = {case.probe for reading in readings for case in reading.run.plan}
    probes = {case.probe for reading in expected for case in reading.run.plan}
    if measured and probes and "" not in probes and not probes & measured:
        raise UsageError(
            f"{expected[0].path} expects {' and '.join(sorted(probes))}, but these are results of {' and '.join(sorted(measured))}",
            advice="is it the right pair of files?",
        )


def expects_status(outcome: Outcome) -> bool:
    """Return whether the status itself is expected: always for accuracy, otherwise only if it is a failure."""
    if outcome.case.probe in {"", Probe.ACCURACY}:
        return bool(outcome.status)
    return outcome.status not in {"", PASSED}


class Baseline:
    """All expected rows of one or more files, found by case; remembers which were found.

    ``whole`` are the complete files, if ``readings`` is a selection of their rows; ``dtypes`` are those that were measured.
    """

    def __init__(
        self, readings: Sequence[Reading], whole: Sequence[Reading] = (), dtypes: Iterable[str] = ()
    ) -> None:
        self.readings = tuple(readings)
        sizes = [len(reading.run.outcomes) for reading in readings]
        self._starts = [sum(sizes[:file]) for file in range(len(sizes))]
        self.size = sum(sizes)
        names = (outcome.case.benchmark for reading in readings for outcome in reading.run.outcomes)
        self._by_name: dict[str, int | list[int]] = dict(zip(names, range(self.size), strict=True))
        self._by_case: dict[Case, int] = {}
        self._indexes: dict[str, _AxisIndex] = {}
        if len(self._by_name) < self.size:
            self._index_repeated_names()
        self._found_at = memoryview(bytearray(8 * self.size)).cast("q")
        self.whole = tuple(whole or readings)
        self.probes = {case.probe for reading in self.whole for case in reading.run.plan}
        self._dtypes = set(dtypes)

    def _index_repeated_names(self) -> None:
        """Index rows by name and by case. Raise InputError if two are for the same case."""
        self._by_name = {}
        cases = (outcome.case for reading in self.readings for outcome in reading.run.outcomes)
        for number, case in enumerate(cases):
            first = self._by_case.setdefault(case, number)
            if first != number:
                self._refuse_second(first, number)
            before = self._by_name.setdefault(case.benchmark, number)
            if isinstance(before, list):
                before.append(number)
            elif before != number:
                self._by_name[case.benchmark] = [before, number]

    def _refuse_second(self, first: int, second: int) -> None:
        row = self._row(second)
        raise InputError(
            f"{row.outcome.case.name} is expected twice; the first is in {self._row(first).place}",
            path=row.reading.path,
            line=row.reading.lines[row.index],
            column="name",
            advice="remove one of the two rows",
        )

    def _outcome(self, number: int) -> Outcome:
        return self._row(number).outcome

    def _file_of(self, number: int) -> int:
        from bisect import bisect  # noqa: PLC0415  (start-up: most checks have one file of expected values)

        return bisect(self._starts, number) - 1

    def _row(self, number: int) -> ExpectedRow:
        file = self._file_of(number) if len(self._starts) > 1 else 0
        reading, index = self.readings[file], number - self._starts[file]
        return ExpectedRow(reading.run.outcomes[index], reading, index, number)

    def find(self, case: Case, *, by_name_only: bool = False) -> BaselineMatch | None:
        """Return the expected row for a case. ``by_name_only`` is how PyTorch's own scripts search."""
        found = self._by_name.get(case.benchmark)
        if found is None:
            return None
        if isinstance(found, int):
            row = self._row(found)
            expected = row.outcome.case
            if expected.probe not in {"", case.probe}:
                return None
            if expected.variant == _ANY_VARIANT and not expected.suite:
                return BaselineMatch(row)
        elif (number := self._by_case.get(case)) is not None:
            return BaselineMatch(self._row(number))
        numbers = self._candidates(case, found) if isinstance(found, list) else [found]
        rows = [row for row in map(self._row, numbers) if row.outcome.case.probe in {"", case.probe}]
        if by_name_only and len(rows) == 1:
            return BaselineMatch(rows[0])
        matches = [BaselineMatch(row, tuple(_differences(row.outcome.case, case))) for row in rows]
        agreeing = [match for match in matches if not match.differences]
        if len(agreeing) > 1:
            agreeing = self._closest(agreeing, case)
        if agreeing:
            return agreeing[0]
        return (
            matches[0] if len(matches) == 1 and matches[0].row.reading.kind != "expected-by-dtype" else None
        )

    def _candidates(self, case: Case, numbers: Sequence[int]) -> Sequence[int]:
        """Return the rows of a case's name that may be for it.

        If there are many, as in a sweep: those that agree with it, or else two of its probe, which is enough to see that there is more than one.
        """
        if len(numbers) <= MANY_ALIKE:
            return numbers
        index = self._indexes.get(case.benchmark)
        if index is None:
            cases = [(number, self._outcome(number).case) for number in numbers]
            index = self._indexes[case.benchmark] = _AxisIndex(cases)
        return index.agreeing(case) or index.two_of(case.probe)

    def _closest(self, matches: list[BaselineMatch], case: Case) -> list[BaselineMatch]:
        """Return the row, of several that agree with a case, that states most of its axes. Raise InputError if two do."""
        closeness = [
            len(match.row.outcome.case.variant.axes().items() & case.variant.axes().items())
            for match in matches
        ]
        closest = [match for match, close in zip(matches, closeness, strict=True) if close == max(closeness)]
        if len(closest) > 1:
            first, second = closest[0].row, closest[1].row
            axes = {axis for match in closest for axis in match.row.outcome.case.variant.axes()} - set(
                case.variant.axes()
            )
            axis = next((axis for axis in SETTABLE if axis in axes), "dtype")
            raise InputError(
                f"{case.name}: both {_describe(first)} and {_describe(second)} could be meant",
                path=second.reading.path,
                line=second.reading.lines[second.index],
                column="name",
                advice=f"say which with --set {axis}=... (the results do not)"
                if axes
                else "put the columns of both files into one, or judge by one file at a time",
            )
        return closest

    def claim(self, row: ExpectedRow, number: int) -> int:
        """Record that result ``number`` (from 1) is judged by this row; return the number of an earlier one, or 0."""
        before = self._found_at[row.number]
        self._found_at[row.number] = number
        return max(before, 0)

    def touch(self, row: ExpectedRow) -> None:
        """Record that a result was found for this row, though it was not judged by it: the row is not missing."""
        self._found_at[row.number] = self._found_at[row.number] or -1

    @property
    def has_dtypes(self) -> bool:
        """Return whether some file has one column per dtype."""
        return any(reading.kind == "expected-by-dtype" for reading in self.readings)

    def unclaimed(self) -> Iterator[ExpectedRow]:
        """Yield the rows that no result was found for. In a table with a column per dtype, only dtypes that some result has."""
        unmeasured = self.unmeasured_dtypes()
        for number, found in enumerate(self._found_at):
            if not found:
                row = self._row(number)
                if (
                    row.reading.kind != "expected-by-dtype"
                    or row.outcome.case.variant.dtype not in unmeasured
                ):
                    yield row

    def unmeasured_dtypes(self) -> list[str]:
        """Return the dtypes that a table has a column for, but no result has: such a table serves several runs."""
        if not self.has_dtypes:
            return []
        found: dict[str, bool] = {}
        for number, at in enumerate(self._found_at):
            row = self._row(number)
            if row.reading.kind == "expected-by-dtype":
                dtype = row.outcome.case.variant.dtype
                found[dtype] = found.get(dtype, dtype in self._dtypes) or bool(at)
        return [dtype for dtype, measured in found.items() if not measured]


_Values = frozenset[tuple[str, str]]


class _AxisIndex:
    """The rows of one name, by the values of the axes that they and a case both state; each set of axes is indexed once."""

    def __init__(self, cases: Iterable[tuple[int, Case]]) -> None:
        self._groups: dict[tuple[str, frozenset[str]], list[tuple[int, dict[str, str]]]] = {}
        for number, case in cases:
            stated = _stated(case)
            self._groups.setdefault((case.probe, frozenset(stated)), []).append((number, stated))
        self._indexes: dict[tuple[str, frozenset[str], frozenset[str]], dict[_Values, list[int]]] = {}

    def two_of(self, probe: str) -> list[int]:
        """Return the first two rows for this probe: enough to see whether there is only one."""
        groups = (rows for (of, _), rows in self._groups.items() if of in {"", probe})
        return sorted(number for rows in groups for number, _ in rows[:2])[:2]

    def agreeing(self, case: Case) -> list[int]:
        """Return the rows that state no axis differently from this case."""
        stated, found = _stated(case), list[int]()
        for probe, axes in self._groups:
            if probe in {"", case.probe}:
                common = axes & stated.keys()
                values = frozenset((axis, stated[axis]) for axis in common)
                found += self._index(probe, axes, frozenset(common)).get(values, ())
        return sorted(found)

    def _index(self, probe: str, axes: frozenset[str], common: frozenset[str]) -> dict[_Values, list[int]]:
        """Return the rows that state these axes, by the values of the common ones."""
        index = self._indexes.get((probe, axes, common))
        if index is None:
            index = self._indexes[probe, axes, common] = {}
            for number, stated in self._groups[probe, axes]:
                values = frozenset((axis, stated[axis]) for axis in common)
                index.setdefault(values, []).append(number)
        return index


def _stated(case: Case) -> dict[str, str]:
    """Return the axes and the suite that a case states."""
    return case.variant.axes() | ({"suite": case.suite} if case.suite else {})


def select_pair(
    results: Sequence[Reading],
    expected: Sequence[Reading],
    patterns: Sequence[str],
    rows: Baseline | None = None,
) -> tuple[list[Reading], list[Reading]]:
    """Select results and expected rows by patterns. A pattern that matches a result or its expected row selects both.

    ``rows`` are the expected rows by case, where they differ from those of the files.
    """
    if not patterns:
        return list(results), list(expected)
    rows = rows or Baseline(expected)
    named = {case for reading in expected for case in reading.run.plan if is_selected(case, patterns)}
    names = {case.benchmark for case in named}
    wanted, wanted_rows = set(), set(named)
    for case in {case for reading in results for case in reading.run.plan}:
        is_named = is_selected(case, patterns)
        match = rows.find(case) if is_named or case.benchmark in names else None
        # A pattern may select only one of several results of a row: the row then selects no others.
        if is_named or (match and match.row.outcome.case in named):
            wanted.add(case)
            wanted_rows |= {match.row.outcome.case} if match else set()
    return (
        [select(reading, wanted.__contains__) for reading in results],
        [select(reading, wanted_rows.__contains__) for reading in expected],
    )


def agree(one: Case, other: Case) -> bool:
    """Return whether two cases of the same name may be the same: they agree on every axis that both state."""
    return not any(_differences(one, other))


def _differences(expected: Case, actual: Case) -> Iterator[AxisDifference]:
    """Yield the axes that both state and on which they disagree."""
    if expected.suite and actual.suite and expected.suite != actual.suite:
        yield AxisDifference("suite", actual.suite, expected.suite)
    if expected.variant is not actual.variant:
        stated = actual.variant.axes()
        for axis, value in expected.variant.axes().items():
            if stated.get(axis, value) != value:
                yield AxisDifference(axis, stated[axis], value)


def _describe(row: ExpectedRow) -> str:
    axes = ", ".join(f"{axis} {value}" for axis, value in row.outcome.case.variant.axes().items())
    return f"{row.place} ({axes})" if axes else str(row.place)
