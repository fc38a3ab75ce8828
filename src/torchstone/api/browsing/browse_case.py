"""Make the page of one case: its history."""

from __future__ import annotations

from torchstone.api.browsing.browsing import Branch, Browsing, NothingThereError
from torchstone.core.text.suggestions import find_similar
from torchstone.core.vocabulary import ACCURACY, METRICS
from torchstone.reporting.views.history.case_page import (
    BY_TIME,
    CaseHistoryView,
    choose_series,
    make_case_page,
    make_choices,
)
from torchstone.reporting.views.history.chart_points import ChartView, make_chart
from torchstone.reporting.views.history.page_filters import FilterBar, FilterField, PageFilters
from torchstone.store.browsing.case_history import (
    SeriesOfCase,
    find_stored_case,
    read_changes_of_series,
    read_outcome_details,
    read_outcomes_of_case,
    read_points_of_series,
    read_raw_samples,
    read_series_of_case,
)
from torchstone.store.browsing.newest_outcomes import KnownCase, read_known_cases
from torchstone.store.browsing.run_pages import FilterCount
from torchstone.store.stored import SeriesPoint

CASE_FILTERS = ("metric", "second", "series", "machine", "branch", "since", "by", "all")
_SHOWN = 20
_MOST_CHARTS = 8


def browse_case(
    browsing: Browsing, filters: PageFilters, problems: tuple[str, ...], name: str
) -> CaseHistoryView:
    """Return the page of the case with this number, id or name; raise an error with what there is instead if it is none, or several."""
    known = _find(browsing, name)
    database = browsing.database
    branch = browsing.branch(filters)
    series = read_series_of_case(database, known.id)
    chosen, second, told = choose_series(series, filters)
    machine = chosen.machine if chosen else filters.machine or _machine_of(browsing, known, branch)
    outcomes = _since(read_outcomes_of_case(database, known.id, machine, branch.name or ""), filters)
    shown = [chosen, *(each for each in series if each is not chosen)] if filters.all else [chosen, second]
    charts = [_chart(browsing, each, outcomes, branch, filters) for each in shown[:_MOST_CHARTS] if each]
    if not charts or chosen is None:
        charts.insert(0, make_chart((ACCURACY, METRICS[ACCURACY].unit, "equal"), outcomes, (), {}, ()))
    newest = read_outcome_details(database, outcomes[-1].run_id, known.case) if outcomes else None
    others = [
        (each.id, each.case)
        for each in find_stored_case(database, known.case.benchmark)
        if each.id != known.id and each.case.suite == known.case.suite
    ]
    bar = FilterBar(
        _fields(filters, series, branch),
        (*problems, *branch.problems, *told),
        len(outcomes),
        len(outcomes),
        "run",
        (
            ("metric", filters.metric),
            ("second", filters.second),
            ("series", filters.series),
            ("all", filters.all),
        ),
    )
    choices = make_choices(series, chosen, second)
    return make_case_page(filters, bar, known.id, known.case, choices, tuple(charts), newest, others[:_SHOWN])


def _find(browsing: Browsing, name: str) -> KnownCase:
    found = find_stored_case(browsing.database, name)
    if len(found) == 1:
        return found[0]
    listed = found or _similar(browsing, name)
    problem = f"{name[:80]}: {len(found):,} cases" if found else f"{name[:80]}: no such case in the store"
    others = tuple((each.case.id[:200], f"case/{each.id}") for each in listed[:_SHOWN])
    raise NothingThereError(problem, others)


def _similar(browsing: Browsing, name: str) -> list[KnownCase]:
    cases = read_known_cases(browsing.database)
    names = find_similar(name[:200], {each.case.benchmark for each in cases}, _SHOWN)
    return [each for each in cases if each.case.benchmark in names] or cases


def _machine_of(browsing: Browsing, known: KnownCase, branch: Branch) -> str:
    """Return the machine with the newest outcome of a case that has no series."""
    found = [each for each in browsing.newest(branch.name).outcomes if each.case_id == known.id]
    return found[0].machine if found else ""


def _since(points: tuple[SeriesPoint, ...], filters: PageFilters) -> tuple[SeriesPoint, ...]:
    if not filters.since:
        return points
    return tuple(each for each in points if (each.measured_at or each.recorded_at) >= filters.since)


def _chart(
    browsing: Browsing,
    series: SeriesOfCase,
    outcomes: tuple[SeriesPoint, ...],
    branch: Branch,
    filters: PageFilters,
) -> ChartView:
    database, metric = browsing.database, series.metric
    points = _since(read_points_of_series(database, series.id, branch.name or ""), filters)
    raw = read_raw_samples(database, series.id)
    changes = read_changes_of_series(database, series.id, branch.name or "")
    return make_chart((metric.name, metric.unit, metric.better), outcomes, points, raw, changes)


def _fields(filters: PageFilters, series: list[SeriesOfCase], branch: Branch) -> tuple[FilterField, ...]:
    machines = dict.fromkeys(each.machine for each in series)
    by = FilterField(
        "by", "x by", filters.by or "revision", (FilterCount("revision", 0), FilterCount(BY_TIME, 0))
    )
    fields = [by, branch.field, FilterField("since", "since", filters.since, is_free=True, hint="2026-12-31")]
    if len(machines) > 1:
        options = tuple(FilterCount(name, sum(each.machine == name for each in series)) for name in machines)
        fields.insert(0, FilterField("machine", "machine", filters.machine, options))
    return tuple(fields)
