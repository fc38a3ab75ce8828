"""Summarise rows: pass rate, speedup, compile time, memory, counts, failures and graph breaks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import exp, fsum, hypot, log

from msgspec import Struct, structs

from torchstone.core.details.capture_details import GraphBreak
from torchstone.core.records import Case, Measurement, Outcome
from torchstone.core.text.intervals import Interval
from torchstone.core.text.units import format_number, short_number
from torchstone.core.vocabulary import COMPILE_SECONDS, METRICS, NOT_AVAILABLE, Probe
from torchstone.reporting.views.caches import Total, total_starts
from torchstone.reporting.views.case_row import ABSENT, FAIL, OK, SPEEDUP, CaseRow, interval_of

COMPILE_TIMES = (COMPILE_SECONDS, "compilation_latency")
RATIO, EAGER_MEMORY, MEMORY = "compression_ratio", "eager_peak_mem", "dynamo_peak_mem"


class Spread(Struct, frozen=True):
    """Summary of one metric, without values whose interval is too wide (``core.text.intervals``).

    ``mean`` is geometric for ratios, else arithmetic; ``least`` and ``most`` are rows. ``interval`` is that of a geometric mean of these cases:
    it comes from their own intervals, so it says how well the mean is known, not how much cases differ. None if a case has no interval.
    """

    cases: int
    mean: float
    total: float
    least: CaseRow
    most: CaseRow
    interval: Interval | None = None


class CountTotal(Struct, frozen=True):
    """Sum of the counts of several cases by one counter."""

    counter: str
    unit: str
    cases: int
    total: float


class Summary(Struct, frozen=True):
    """Summary of some cases.

    ``unsound`` are rows whose speedup does not count because their results are wrong, ``uncertain`` those whose interval is too wide.
    ``unavailable`` cases cannot be measured here, and are not among the ``planned`` ones.
    """

    planned: int
    passed: int
    statuses: tuple[tuple[str, str, int], ...]
    speedup: Spread | None
    unsound: tuple[CaseRow, ...]
    compile_metric: str
    compile_time: Spread | None
    compression: Spread | None
    memory: Spread | None
    caches: tuple[Total, ...]
    duration: float | None
    counts: tuple[CountTotal, ...] = ()
    unavailable: int = 0
    uncertain: tuple[CaseRow, ...] = ()

    @property
    def share(self) -> float:
        """Return the share of the planned cases that passed."""
        return self.passed / self.planned if self.planned else 0.0

    @property
    def failed(self) -> int:
        """Return the number of failed cases."""
        return sum(number for _, kind, number in self.statuses if kind == FAIL)

    @property
    def absent(self) -> int:
        """Return the number of cases without an outcome."""
        return sum(number for _, kind, number in self.statuses if kind == ABSENT)


class Group(Struct, frozen=True):
    """Cases of one suite and variant, whatever their batch sizes."""

    axes: tuple[str, ...]
    summary: Summary


class FailureGroup(Struct, frozen=True):
    """Cases that failed in the same way."""

    status: str
    kind: str
    phase: str
    message: str
    rows: tuple[CaseRow, ...]


class BreakGroup(Struct, frozen=True):
    """One graph break with all its cases; its count is their total."""

    cause: GraphBreak
    rows: tuple[CaseRow, ...]


def summarise(rows: Sequence[CaseRow], wrong: frozenset[Case]) -> Summary:
    """Summarise rows. ``wrong`` are the cases whose accuracy failed, from ``wrong_cases``."""
    fast = [row for row in rows if row.kind == OK and (row.value(SPEEDUP) or 0) > 0]
    sound = [row for row in fast if _timed_case(row.case) not in wrong]
    possible = [row for row in rows if row.status != NOT_AVAILABLE]
    good = [row for row in possible if row.is_good]
    compile_metric = next((m for m in COMPILE_TIMES if any(row.measurement(m) for row in rows)), "")
    durations = [number for row in rows if (number := _duration(row)) is not None]
    ratios = [row for row in good if (row.value(RATIO) or 0) > 0]
    return Summary(
        len(possible),
        len(good),
        tuple(_count_statuses(rows)),
        _ratio_spread(sound, SPEEDUP),
        tuple(row for row in fast if _timed_case(row.case) in wrong),
        compile_metric,
        _spread(rows, compile_metric, _mean),
        _ratio_spread(ratios, RATIO),
        _spread(good, MEMORY, _mean),
        total_starts(rows),
        fsum(durations) if durations else None,
        total_counts(good),
        len(rows) - len(possible),
        tuple(row for row in sound if row.is_uncertain(SPEEDUP)),
    )


def wrong_cases(rows: Iterable[CaseRow]) -> frozenset[Case]:
    """Return the cases whose accuracy failed, regardless of batch size."""
    return frozenset(
        _timed_case(row.case) for row in rows if row.case.probe == Probe.ACCURACY and row.kind == FAIL
    )


def _timed_case(case: Case) -> Case:
    variant = structs.replace(case.variant, batch_size=None)
    return Case(case.benchmark, Probe.PERFORMANCE, case.suite, variant)


def geometric_mean(numbers: Sequence[float]) -> float:
    """Return the geometric mean; all numbers must be above 0."""
    return exp(fsum(map(log, numbers)) / len(numbers))


def _mean(numbers: Sequence[float]) -> float:
    return fsum(numbers) / len(numbers)


def _ratio_spread(rows: Sequence[CaseRow], metric: str) -> Spread | None:
    spread = _spread(rows, metric, geometric_mean)
    if spread is None:
        return None
    intervals = [interval_of(row.measurement(metric)) for row in rows if not row.is_uncertain(metric)]
    return structs.replace(spread, interval=_mean_interval(spread.mean, intervals))


def _mean_interval(mean: float, intervals: Sequence[Interval | None]) -> Interval | None:
    """Return the interval of a geometric mean. The cases are independent, so the squares of their half-widths, as logarithms, add up."""
    halves = [log(each[1] / each[0]) / 2 for each in intervals if each and each[0] > 0]
    if not halves or len(halves) < len(intervals):
        return None
    reach = hypot(*halves) / len(halves)
    return mean / exp(reach), mean * exp(reach)


def _spread(rows: Sequence[CaseRow], metric: str, mean: Callable[[Sequence[float]], float]) -> Spread | None:
    known = [row for row in rows if not row.is_uncertain(metric)]
    pairs = [(float(value), row) for row in known if (value := row.value(metric)) is not None]
    if not pairs:
        return None
    numbers = [number for number, _ in pairs]
    least = min(pairs, key=lambda pair: pair[0])[1]
    most = max(pairs, key=lambda pair: pair[0])[1]
    return Spread(len(pairs), mean(numbers), fsum(numbers), least, most)


def _count_statuses(rows: Iterable[CaseRow]) -> Iterator[tuple[str, str, int]]:
    """Yield status, kind and number of cases, failures first."""
    order = [ABSENT, FAIL, OK]
    counted = Counter((row.status, row.kind) for row in rows)
    for (status, kind), number in sorted(
        counted.items(),
        key=lambda item: (order.index(item[0][1]) if item[0][1] in order else 9, -item[1], item[0]),
    ):
        yield status, kind, number


def _duration(row: CaseRow) -> float | None:
    details = row.outcome.details if row.outcome else None
    return details.duration if details else None


def group_rows(rows: Sequence[CaseRow], wrong: frozenset[Case]) -> tuple[list[str], list[Group]]:
    """Return the axes in which cases differ, and a summary of each combination; empty if there is only one."""
    axes = ["suite", "device", "backend", "mode", "dtype", "dynamic", "probe"]
    values = [_group_of(row.case) for row in rows]
    used = [index for index, _ in enumerate(axes) if len({value[index] for value in values}) > 1]
    found: dict[tuple[str, ...], list[CaseRow]] = {}
    for value, row in zip(values, rows, strict=True):
        found.setdefault(tuple(value[index] for index in used), []).append(row)
    if len(found) < 2:
        return [], []
    groups = [Group(key, summarise(of_group, wrong)) for key, of_group in sorted(found.items())]
    return [axes[index] for index in used], groups


def _group_of(case: Case) -> tuple[str, ...]:
    variant = case.variant
    if case.probe == Probe.INSTRUCTIONS and not variant.dtype:  # each has axes of its own
        return case.suite, "", "", "", "", "", case.probe
    dynamic = "" if variant.dynamic is None else "dynamic" if variant.dynamic else "static"
    return case.suite, variant.device, variant.backend, variant.mode, variant.dtype, dynamic, case.probe


def group_failures(rows: Iterable[CaseRow]) -> list[FailureGroup]:
    """Group failures whose messages differ only in numbers: missing results first, then the most frequent."""
    found: dict[tuple[str, str, str, str], list[CaseRow]] = {}
    for row in rows:
        if not row.is_good:
            failure = row.outcome.failure if row.outcome else None
            kind = re.sub(r"\d+", "0", _first_line(row))
            found.setdefault((row.status, row.kind, failure.phase if failure else "", kind), []).append(row)
    ordered = sorted(found.items(), key=lambda item: (item[0][1] != ABSENT, -len(item[1]), item[0]))
    return [FailureGroup(*key[:3], _first_line(of_key[0]), tuple(of_key)) for key, of_key in ordered]


def _first_line(row: CaseRow) -> str:
    """Return the first line of a failure's message."""
    failure = row.outcome.failure if row.outcome else None
    return failure.message.strip().partition("\n")[0].strip()[:300] if failure else ""


def group_breaks(rows: Iterable[CaseRow]) -> list[BreakGroup]:
    """Group the graph breaks of all cases, most cases first."""
    found: dict[tuple[str, str, str], dict[CaseRow, int]] = {}
    for row in rows:
        for cause in graph_breaks(row.outcome):
            of_cause = found.setdefault((cause.reason, cause.place, cause.source), {})
            of_cause[row] = of_cause.get(row, 0) + cause.count
    groups = [
        BreakGroup(
            GraphBreak(*key, sum(of_cause.values())),
            tuple(of_cause),
        )
        for key, of_cause in found.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.rows), -group.cause.count, group.cause.reason))


def graph_breaks(outcome: Outcome | None) -> tuple[GraphBreak, ...]:
    """The graph breaks of an outcome."""
    return outcome.capture.graph_breaks if outcome and outcome.capture else ()


def main_count(outcome: Outcome) -> Measurement | None:
    """Return a case's main count: the first that is not of the whole process tree."""
    if outcome.case.probe != Probe.INSTRUCTIONS:
        return None
    return next((each for each in outcome.measurements if not each.metric.endswith("_tree")), None)


def count_text(measurement: Measurement) -> str:
    """Format a count: ``1,914,643,426 instructions, spread 0.002 % (simulated)``."""
    counter = measurement.counter
    text = f"{format_number(measurement.value)} {_unit(measurement.metric)}".strip()
    if len(measurement.samples) > 1 and measurement.value:
        spread = (max(measurement.samples) - min(measurement.samples)) / abs(measurement.value)
        text += f", spread {100 * spread:.2g} %"
    return f"{text} ({counter})" if counter else text


def total_counts(rows: Iterable[CaseRow]) -> tuple[CountTotal, ...]:
    """Return the sums of the counts, by counter and unit."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        measurement = main_count(row.outcome) if row.outcome else None
        counter = measurement.counter if measurement else ""
        if measurement and counter:
            found.setdefault((counter, _unit(measurement.metric)), []).append(measurement.value)
    return tuple(CountTotal(*key, len(values), sum(values)) for key, values in found.items())


def total_text(total: CountTotal) -> str:
    """Format a total: ``12.35G instructions (simulated)``."""
    return f"{short_number(total.total)} {total.unit} ({total.counter})"


def _unit(metric: str) -> str:
    known = METRICS.get(metric)
    return known.unit if known else ""
