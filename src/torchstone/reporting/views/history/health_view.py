"""The first page: how new the data is, which cases are missing or fail, and how each suite does on each axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec import Struct

from torchstone.core.text.units import format_change, format_value
from torchstone.core.vocabulary import METRICS
from torchstone.reporting.views.history.cases_view import CaseState
from torchstone.reporting.views.history.page_filters import FilterBar, PageFilters
from torchstone.store.browsing.measured_values import MeasuredValue
from torchstone.store.stored import StoredRun

MEANS = ("speedup", "compile_seconds", "compilation_latency", "dynamo_peak_mem")
"""The metrics whose means are shown, as far as there are any."""
_MOST_NAMED = 30
_AXES = ("device", "mode", "dtype", "backend")


class ProbeRate(Struct, frozen=True):
    """How many cases of a probe passed, of how many; and how many of them are missing in the newest revision."""

    probe: str
    passed: int
    cases: int
    missing: int


class MatchedMean(Struct, frozen=True):
    """The geometric mean of a metric over ``cases`` cases, and over revisions, oldest first, each over the same cases as the newest.

    ``change`` is against the revision before, over the ``matched`` cases that both have.
    """

    metric: str
    value: float
    text: str
    cases: int
    matched: int = 0
    change: str = ""
    former: tuple[float, ...] = ()


class MatrixCell(Struct, frozen=True):
    """One suite in one column. ``why`` says why there is nothing, or nothing new; ``tone`` is good, bad, open or none."""

    rates: tuple[ProbeRate, ...] = ()
    means: tuple[MatchedMean, ...] = ()
    tone: str = "none"
    why: str = ""
    revision: str = ""
    run_id: int = 0
    when: str = ""
    query: str = ""


class MatrixRow(Struct, frozen=True):
    """A suite with its cells, one for each column."""

    suite: str
    cells: tuple[MatrixCell, ...]


class NamedState(Struct, frozen=True):
    """A case that needs a look: its number, name, status, and the newest run that has it."""

    id: int
    name: str
    status: str
    run_id: int
    revision: str
    when: str


class HealthView(Struct, frozen=True):
    """The first page. ``newest_when`` is when the newest run was measured; ``open_changes`` are groups that are not for the better."""

    filters: PageFilters
    bar: FilterBar
    newest_run_id: int
    newest_run: str
    newest_revision: str
    newest_when: str
    passed: int
    cases: int
    missing: int
    columns: tuple[str, ...]
    rows: tuple[MatrixRow, ...]
    failing: tuple[NamedState, ...]
    gone: tuple[NamedState, ...]
    open_changes: int
    title: str = "Health"


ColumnKey = tuple[str, str, str, str, str]
RecentValues = Sequence[tuple[str, Mapping[tuple[int, str, str], MeasuredValue]]]
"""For each revision, newest first, the values by case, machine and metric."""


def gather_values(runs: Iterable[tuple[StoredRun, Iterable[MeasuredValue]]]) -> RecentValues:
    """Return the values of runs, newest first, by revision; the newest run of a revision counts."""
    found: dict[str, dict[tuple[int, str, str], MeasuredValue]] = {}
    for run, values in runs:
        of_revision = found.setdefault(run.revision, {})
        for each in values:
            of_revision.setdefault((each.case_id, each.machine, each.metric), each)
    return list(found.items())


def make_health_view(
    filters: PageFilters,
    bar: FilterBar,
    newest: StoredRun | None,
    states: Sequence[CaseState],
    values: RecentValues,
    open_changes: int,
) -> HealthView:
    """Return the page for these cases."""
    columns = _columns(states)
    suites = sorted({each.case.suite for each in states})
    by_cell: dict[tuple[str, ColumnKey], list[CaseState]] = {}
    for each in states:
        by_cell.setdefault((each.case.suite, _column_of(each)), []).append(each)
    rows = tuple(
        MatrixRow(suite, tuple(_cell(by_cell.get((suite, key), []), values, newest) for key in columns))
        for suite in suites
    )
    failing = [each for each in states if not each.is_good and not each.is_missing]
    gone = [each for each in states if each.is_missing]
    return HealthView(
        filters,
        bar,
        newest.id if newest else 0,
        newest.name if newest else "",
        newest.revision if newest else "",
        (newest.measured_at or newest.recorded_at) if newest else "",
        sum(each.is_good for each in states),
        len(states),
        len(gone),
        tuple(columns.values()),
        rows,
        tuple(map(_named, failing[:_MOST_NAMED])),
        tuple(map(_named, gone[:_MOST_NAMED])),
        open_changes,
    )


def _column_of(state: CaseState) -> ColumnKey:
    axes = state.case.variant
    return axes.device, axes.mode, axes.dtype, axes.backend, state.outcome.machine


def _columns(states: Sequence[CaseState]) -> dict[ColumnKey, str]:
    """Return the columns with their names: the axes in which they differ, and the machine if one set of axes has several."""
    keys = sorted({_column_of(each) for each in states})
    differing = [at for at in range(len(_AXES)) if len({key[at] for key in keys}) > 1]
    names = {}
    for key in keys:
        words = [
            key[at] or f"{_AXES[at]} not stated"
            for at in differing or range(len(_AXES))
            if key[at] or at in differing
        ]
        several = sum(other[:4] == key[:4] for other in keys) > 1
        names[key] = ", ".join([*words, *([key[4] or "machine not stated"] if several else [])]) or "all"
    return names


def _cell(states: Sequence[CaseState], values: RecentValues, newest: StoredRun | None) -> MatrixCell:
    if not states:
        return MatrixCell(why="never measured")
    present = [each for each in states if not each.is_missing] or list(states)
    run = max(
        (each.run for each in present), key=lambda run: (run.position, run.measured_at or run.recorded_at)
    )
    rates = tuple(_rates(states))
    is_old = newest is not None and run.revision != newest.revision
    bad = any(rate.passed < rate.cases for rate in rates)
    when = run.measured_at or run.recorded_at
    first = states[0].case
    axes = first.variant
    stated = {"device": axes.device, "mode": axes.mode, "dtype": axes.dtype, "backend": axes.backend}
    query = "&".join(
        f"{name}={text}"
        for name, text in {"suite": first.suite, **stated}.items()
        if text.replace("_", "").isalnum()
    )
    return MatrixCell(
        rates,
        tuple(_means(states, values)),
        "bad" if bad else "open" if is_old else "good",
        f"not measured since {when[:10]}" if is_old else "",
        run.revision,
        run.id,
        when,
        query,
    )


def _rates(states: Sequence[CaseState]) -> Iterator[ProbeRate]:
    for probe in dict.fromkeys(each.case.probe for each in states):
        of_probe = [each for each in states if each.case.probe == probe]
        passed = sum(each.is_good for each in of_probe)
        yield ProbeRate(probe, passed, len(of_probe), sum(each.is_missing for each in of_probe))


def _means(states: Sequence[CaseState], values: RecentValues) -> Iterator[MatchedMean]:
    keys = [(each.outcome.case_id, each.outcome.machine) for each in states if not each.is_missing]
    for metric in MEANS:
        history = [
            {
                key: found.value
                for key in keys
                if (found := of_revision.get((*key, metric))) and found.value > 0
            }
            for _, of_revision in values
        ]
        history = [each for each in history if each]
        if history:
            yield _mean(metric, history)


def _mean(metric: str, history: Sequence[Mapping[tuple[int, str], float]]) -> MatchedMean:
    newest = history[0]
    value = math.exp(sum(map(math.log, newest.values())) / len(newest))
    former = [
        value / _mean_ratio(newest, older, common)
        for older in reversed(history[1:])
        if (common := newest.keys() & older.keys())
    ]
    matched = len(newest.keys() & history[1].keys()) if len(history) > 1 else 0
    known = METRICS.get(metric)
    return MatchedMean(
        metric,
        value,
        format_value(value, known.unit if known else ""),
        len(newest),
        matched,
        format_change(value, former[-1]) if former and matched else "",
        (*former, value),
    )


def _mean_ratio(
    newest: Mapping[tuple[int, str], float],
    older: Mapping[tuple[int, str], float],
    common: Set[tuple[int, str]],
) -> float:
    return math.exp(sum(math.log(newest[key] / older[key]) for key in common) / len(common))


def _named(state: CaseState) -> NamedState:
    run = state.run
    axes = ", ".join(state.case.variant.axes().values())
    name = f"{state.case.name[:120]} ({axes[:120]}) {state.case.probe}" if axes else state.case.name[:120]
    when = run.measured_at or run.recorded_at
    return NamedState(state.outcome.case_id, name, state.status[:60], run.id, run.revision, when)
