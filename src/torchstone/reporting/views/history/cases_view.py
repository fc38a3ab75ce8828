"""The page of all cases: the newest status and values of each, those that need a look first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from torchstone.core.records import Case
from torchstone.core.text.units import format_value
from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.reporting.views.history.page_filters import (
    MOST_ROWS,
    FilterBar,
    FilterField,
    PageFilters,
    axis_fields,
    case_field,
    case_filter,
    choice_field,
    find_unknown_values,
    value_filter,
)
from torchstone.reporting.views.names import Names
from torchstone.store.browsing.measured_values import MeasuredValue
from torchstone.store.browsing.newest_outcomes import NewestOutcome, NewestOutcomes
from torchstone.store.stored import StoredRun

SHOWN_METRICS = (
    "speedup",
    "abs_latency",
    "compile_seconds",
    "compilation_latency",
    "dynamo_peak_mem",
    "instruction_count",
)
"""The metrics of the table of cases, as far as there are any."""
NO_OUTCOME = "no outcome"
GONE = "gone"
"""Shown in place of a status: the newest run of the case's group does not have the case at all."""
_GOOD = frozenset({PASSED, SKIPPED})


class ShownValue(Struct, frozen=True):
    """A number with its unit, and as text."""

    metric: str
    value: float
    text: str


class CaseLine(Struct, frozen=True):
    """A case on a class of machines: its newest status and values. ``is_missing`` says that newer runs of its group lack it."""

    id: int
    name: str
    case: str
    suite: str
    probe: str
    machine: str
    status: str
    is_good: bool
    is_missing: bool
    run_id: int
    revision: str
    when: str
    values: tuple[ShownValue, ...] = ()


class CasesView(Struct, frozen=True):
    """A page of cases."""

    filters: PageFilters
    bar: FilterBar
    metrics: tuple[str, ...]
    rows: tuple[CaseLine, ...]
    page: int
    pages: int
    title: str = "Cases"


class CaseState(Struct, frozen=True):
    """The newest outcome of a case, with what it means: ``is_missing`` if a newer revision of its group was measured without it."""

    outcome: NewestOutcome
    case: Case
    run: StoredRun
    is_missing: bool

    @property
    def status(self) -> str:
        """The status, or why there is none."""
        return GONE if self.is_missing else self.outcome.status or NO_OUTCOME

    @property
    def is_good(self) -> bool:
        """Whether the case passed, or was deliberately skipped, and is there."""
        return self.outcome.status in _GOOD and not self.is_missing


GroupKey = tuple[str, str, str, str, str, str, str]


def group_of(case: Case, machine: str) -> GroupKey:
    """Return what cases share that are measured together: suite, probe, device, mode, dtype, backend, and the machine."""
    axes = case.variant
    return case.suite, case.probe, axes.device, axes.mode, axes.dtype, axes.backend, machine


def find_states(newest: NewestOutcomes) -> list[CaseState]:
    """Return the newest state of each case; a group is as new as its newest revision."""
    ranks = {run.id: rank for rank, run in enumerate(newest.newest)}
    oldest = len(ranks)
    current: dict[GroupKey, tuple[int, str]] = {}
    for each in newest.outcomes:
        key = group_of(newest.cases[each.case_id], each.machine)
        rank = ranks.get(each.run_id, oldest)
        if key not in current or rank < current[key][0]:
            current[key] = rank, newest.runs[each.run_id].revision
    return [
        CaseState(each, case, run, run.revision != current[group_of(case, each.machine)][1])
        for each in newest.outcomes
        for case, run in [(newest.cases[each.case_id], newest.runs[each.run_id])]
    ]


def choose_states(states: Iterable[CaseState], filters: PageFilters) -> list[CaseState]:
    """Return the states that the filters choose, those that need a look first."""
    chosen = case_filter(filters)
    by_status, by_machine = value_filter(filters.status), value_filter(filters.machine)
    found = [
        each
        for each in states
        if by_status(each.status) and by_machine(each.outcome.machine) and chosen(each.case)
    ]
    return sorted(
        found,
        key=lambda each: (each.is_good, each.is_missing, each.case.suite, each.case.benchmark, each.case.id),
    )


def case_fields(states: Sequence[CaseState], filters: PageFilters) -> list[FilterField]:
    """Return the fields of the filter bar for cases."""
    fields = [case_field(filters), *axis_fields(filters, [each.case for each in states])]
    machines = Counter(each.outcome.machine for each in states)
    if len(machines) > 1 or filters.machine:
        fields.append(choice_field("machine", filters, machines))
    fields.append(choice_field("status", filters, Counter(each.status for each in states)))
    return fields


def make_cases_bar(
    states: Sequence[CaseState],
    matching: int,
    filters: PageFilters,
    branch: FilterField,
    problems: Sequence[str],
) -> FilterBar:
    """Return the filter bar of a page about cases."""
    fields = case_fields(states, filters)
    told = (*problems, *find_unknown_values(fields))
    return FilterBar((*fields, branch), told, matching, len(states), "case")


def make_cases_view(
    filters: PageFilters, bar: FilterBar, chosen: Sequence[CaseState], values: Iterable[MeasuredValue]
) -> CasesView:
    """Return the page. ``chosen`` are all cases that match, ``values`` those of the ones on this page."""
    shown = page_of(chosen, filters.page)
    names = Names(each.case for each in chosen)
    by_case: dict[tuple[int, str], dict[str, MeasuredValue]] = {}
    for value in values:
        by_case.setdefault((value.case_id, value.machine), {})[value.metric] = value
    present = {metric for found in by_case.values() for metric in found}
    metrics = tuple(metric for metric in SHOWN_METRICS if metric in present)
    rows = tuple(_line(each, names, by_case) for each in shown)
    return CasesView(filters, bar, metrics, rows, filters.page, max(1, -(-len(chosen) // MOST_ROWS)))


def page_of(chosen: Sequence[CaseState], page: int) -> Sequence[CaseState]:
    """Return the cases of a page."""
    return chosen[(page - 1) * MOST_ROWS : page * MOST_ROWS]


def _line(
    each: CaseState, names: Names, values: Mapping[tuple[int, str], Mapping[str, MeasuredValue]]
) -> CaseLine:
    found = values.get((each.outcome.case_id, each.outcome.machine), {})
    shown = tuple(
        ShownValue(metric, value.value, format_value(value.value, value.unit))
        for metric in SHOWN_METRICS
        if (value := found.get(metric))
    )
    run = each.run
    return CaseLine(
        each.outcome.case_id,
        names.of(each.case),
        each.case.id,
        each.case.suite,
        each.case.probe,
        each.outcome.machine,
        each.status,
        each.is_good,
        each.is_missing,
        run.id,
        run.revision,
        run.measured_at or run.recorded_at,
        shown,
    )
