"""Merge several result files into one set of results; refuse duplicate cases."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct, structs

from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import AXES, Case, Outcome, Reading, Variant, axis_text, matches, run_of
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import is_plain
from torchstone.core.text.suggestions import find_similar
from torchstone.core.vocabulary import PROBES


class Results(Struct, frozen=True):
    """The results to judge, from one or several files."""

    readings: tuple[Reading, ...]

    def __iter__(self) -> Iterator[tuple[Reading, int, Outcome]]:
        for reading in self.readings:
            for index, outcome in enumerate(reading.run.outcomes):
                yield reading, index, outcome

    def __len__(self) -> int:
        return sum(len(reading.run.outcomes) for reading in self.readings)

    def unmeasured(self) -> Iterator[tuple[Reading, Case]]:
        """Yield the planned cases that have no outcome in any file."""
        if all(len(reading.run.plan) <= len(reading.run.outcomes) for reading in self.readings):
            return
        measured = {outcome.case for _, _, outcome in self}
        for reading in self.readings:
            for case in reading.run.plan:
                if case not in measured:
                    measured.add(case)
                    yield reading, case


def merge(readings: Iterable[Reading]) -> Results:
    """Merge several files. A case that occurs twice is an error that names both places."""
    results = Results(tuple(_join_counts(list(readings))))
    cases = [outcome.case for reading in results.readings for outcome in reading.run.outcomes]
    if len({case.benchmark for case in cases}) == len(cases) or len(set(cases)) == len(cases):
        return results  # the common case, and fast to check
    seen: dict[Case, int] = {}
    for number, (reading, index, outcome) in enumerate(results):
        if seen.setdefault(outcome.case, number) != number:
            first, first_index = _place_of(results, seen[outcome.case])
            raise _twice(outcome.case, first, first_index, reading, index)
    return results


_WITHOUT_COLUMNS = frozenset({"run", "v3", "cachebench", "ddp"})


def _twice(case: Case, first: Reading, first_index: int, second: Reading, index: int) -> InputError:
    """Return the error for a case with two results: where they are, and which file to leave out."""
    message = f"{case.name} is already in {first.place(first_index)}, as {case.id}"
    advice = "remove one of the two"
    if first is not second and first.path == second.path:
        advice = f"{first.path} is named twice: name it once"
    elif first is not second:
        message = (
            f"{case.name} is already in {first.place(first_index)}: both files have a result of {case.id}"
        )
        advice = (
            f"name only one of {first.path} and {second.path}; to compare two files, make one the --baseline"
        )
    column = None if second.kind in _WITHOUT_COLUMNS else "name"
    return InputError(message, path=second.path, line=second.lines[index], column=column, advice=advice)


def _join_counts(readings: list[Reading]) -> list[Reading]:
    """Join files of instruction counts: metrics of one benchmark may be spread over several files."""
    if sum(reading.kind == "pr-time" for reading in readings) < 2:
        return readings
    first: dict[Case, tuple[int, int]] = {}
    joined = [list(reading.run.outcomes) for reading in readings]
    moved: set[tuple[int, int]] = set()
    for number, reading in enumerate(readings):
        for index, outcome in enumerate(reading.run.outcomes if reading.kind == "pr-time" else ()):
            at = first.setdefault(outcome.case, (number, index))
            there = joined[at[0]][at[1]]
            if at[0] != number and not {m.metric for m in there.measurements} & {
                m.metric for m in outcome.measurements
            }:
                joined[at[0]][at[1]] = structs.replace(
                    there, measurements=there.measurements + outcome.measurements
                )
                moved.add((number, index))
    if not moved:
        return readings
    return [_keep(reading, joined[n], {i for m, i in moved if m == n}) for n, reading in enumerate(readings)]


def _keep(reading: Reading, outcomes: list[Outcome], moved: set[int]) -> Reading:
    kept = [index for index in range(len(outcomes)) if index not in moved]
    run = run_of(reading.path, [outcomes[index] for index in kept])
    return structs.replace(reading, run=run, lines=tuple(reading.lines[index] for index in kept))


EXPECTED_KINDS = frozenset({"expected", "expected-by-dtype", "pr-time-expected", "speedup-targets"})


def require_results(readings: Sequence[Reading], kind: str | None) -> None:
    """Refuse a file of expected values where results are needed, unless the user named its format."""
    for reading in readings:
        if reading.kind in EXPECTED_KINDS and not kind:
            raise UsageError(
                f"{reading.path} holds expected values, not results",
                advice="were results and baseline swapped? To use it anyway, state its format: --kind "
                + reading.kind,
            )


def _place_of(results: Results, number: int) -> tuple[Reading, int]:
    for reading in results.readings:
        if number < len(reading.run.outcomes):
            return reading, number
        number -= len(reading.run.outcomes)
    raise IndexError(number)


def select(reading: Reading, wanted: Callable[[Case], bool]) -> Reading:
    """Keep only the wanted cases."""
    kept = [n for n, outcome in enumerate(reading.run.outcomes) if wanted(outcome.case)]
    plan = tuple(case for case in reading.run.plan if wanted(case))
    run = structs.replace(reading.run, plan=plan, outcomes=tuple(reading.run.outcomes[n] for n in kept))
    return structs.replace(reading, run=run, lines=tuple(reading.lines[n] for n in kept))


def is_selected(case: Case, patterns: Sequence[str]) -> bool:
    """Return whether a pattern matches the case; without patterns, every case matches."""
    return not patterns or any(matches(pattern, case) for pattern in patterns)


def is_same_run(one: Reading, other: Reading) -> bool:
    """Return whether two files hold the same run, or overlapping parts of it.

    Files without a run id are the same only if they are the same file: equal counts do not prove it.
    """
    if os.path.realpath(one.path) == os.path.realpath(other.path):
        return True
    if one.kind != "run" or other.kind != "run" or one.run.id != other.run.id:
        return False
    ours, theirs = (
        {outcome.case: outcome.measurements for outcome in each.run.outcomes} for each in (one, other)
    )
    both = ours.keys() & theirs.keys()
    return bool(both) and all(ours[case] == theirs[case] for case in both)


def no_match(patterns: Sequence[str], readings: Iterable[Reading]) -> UsageError:
    """Return the error for patterns that match no case, with suggestions."""
    names = list(dict.fromkeys(case.benchmark for reading in readings for case in reading.run.plan))
    parts = [pattern.partition("[")[0].split("::") for pattern in patterns]
    texts = [next((part for part in reversed(each) if part not in PROBES), "") for each in parts]
    close = dict.fromkeys(match for text in texts for match in find_similar(text, names, 3))
    usual = "patterns match names and ids: * stands for any text, ? for one character"
    advice = f"did you mean {' or '.join(close)}?" if close else usual
    return UsageError(f"--only {' '.join(patterns)}: no case matches", advice=advice)


FURTHER_AXES = ("tag", "wrapper")
"""Axes that some files lack and that --set can add."""
SETTABLE = ("suite", *AXES, *FURTHER_AXES)


def parse_axes(assignments: Iterable[str]) -> dict[str, str]:
    """Parse ``axis=value`` assignments from the command line."""
    axes: dict[str, str] = {}
    for text in assignments:
        axis, found, value = text.partition("=")
        if not found or axis not in SETTABLE or not value or not is_plain(value):
            known = ", ".join(SETTABLE)
            raise UsageError(
                f"--set {text}: expected AXIS=VALUE",
                advice=f"the axes are {known}; for example --set dtype=bfloat16",
            )
        axes[axis] = redact(value)
    if "batch_size" in axes and not (axes["batch_size"].isascii() and axes["batch_size"].isdecimal()):
        raise UsageError(f"--set batch_size={axes['batch_size']}: expected a whole number")
    if axes.get("dynamic", "true") not in {"true", "false"}:
        raise UsageError(f"--set dynamic={axes['dynamic']}: expected true or false")
    return axes


def fill_in(reading: Reading, axes: dict[str, str]) -> Reading:
    """Add axes that the file does not state; contradicting a stated one is an error."""
    if not axes:
        return reading
    lines = {outcome.case: line for outcome, line in zip(reading.run.outcomes, reading.lines, strict=True)}
    filled: dict[Case, Case] = {}
    for case in (*lines, *reading.run.plan):
        try:
            filled[case] = _fill_case(case, axes)
        except ValueError as error:
            raise InputError(f"{case.name}: {error}", path=reading.path, line=lines.get(case, 1)) from None
    plan = tuple(filled[case] for case in reading.run.plan)
    outcomes = tuple(structs.replace(outcome, case=filled[outcome.case]) for outcome in reading.run.outcomes)
    return structs.replace(reading, run=structs.replace(reading.run, plan=plan, outcomes=outcomes))


def _fill_case(case: Case, axes: dict[str, str]) -> Case:
    stated = case.variant.axes() | ({"suite": case.suite} if case.suite else {})
    for axis, value in axes.items():
        if stated.get(axis, value) != value:
            raise ValueError(f"the file says {axis}={stated[axis]}, but --set says {value}")
    known = {axis: getattr(case.variant, axis) for axis in AXES} | {
        a: _value_of(a, v) for a, v in axes.items() if a in AXES
    }
    further = dict(case.variant.further) | {a: axes[a] for a in FURTHER_AXES if a in axes}
    return Case(
        case.benchmark,
        case.probe,
        axes.get("suite", case.suite),
        Variant(**known, further=tuple(sorted(further.items()))),
    )


def _value_of(axis: str, text: str) -> str | int | bool:
    if axis == "batch_size":
        return int(text)
    return text == axis_text(True) if axis == "dynamic" else text
