"""The page of one case: its history in one metric or two, its runs, and what else it has."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from torchstone.core.records import Case, Outcome
from torchstone.core.text.safe_text import simple_command, summarise_error
from torchstone.core.text.units import format_value
from torchstone.core.vocabulary import ACCURACY
from torchstone.reporting.views.history.chart_points import GAP, ChartPoint, ChartView
from torchstone.reporting.views.history.page_filters import MOST_ROWS, FilterBar, PageFilters
from torchstone.store.browsing.case_history import SeriesOfCase

BY_TIME = "time"
_FIRST = ("speedup", "abs_latency", "instruction_count", "compile_time_instruction_count", "iteration_time")
"""The metric that is shown first is the first of these that a case has."""


class SeriesChoice(Struct, frozen=True):
    """A series that can be shown: its metric, what else distinguishes it, its newest value, and the number that names it."""

    id: int
    metric: str
    rest: str
    newest: str
    is_chosen: bool = False
    is_second: bool = False


class HistoryLine(Struct, frozen=True):
    """A row of the table: one run, its status, and the value as text."""

    run_id: int
    run: str
    revision: str
    when: str
    status: str
    is_good: bool
    value: str
    spread: str
    samples: int
    torch: str


class CaseHistoryView(Struct, frozen=True):
    """The page of one case. ``failure`` is the first line of the newest failure, ``repro`` the command that measures it again."""

    filters: PageFilters
    bar: FilterBar
    id: int
    name: str
    case: str
    facts: tuple[tuple[str, str], ...]
    choices: tuple[SeriesChoice, ...]
    charts: tuple[ChartView, ...]
    rows: tuple[HistoryLine, ...]
    status: str
    is_good: bool
    failure: str = ""
    repro: str = ""
    others: tuple[tuple[int, str], ...] = ()


def choose_series(
    series: Sequence[SeriesOfCase], filters: PageFilters
) -> tuple[SeriesOfCase | None, SeriesOfCase | None, tuple[str, ...]]:
    """Return the series to show, a second one if it was asked for, and what is wrong with what was asked for."""
    first = next((each for name in _FIRST for each in series if each.metric.name == name), None)
    first = first or next(iter(series), None)
    chosen, problem = _named(series, filters.metric, filters.machine, filters.series)
    second, other = _named(series, filters.second, chosen.machine if chosen else filters.machine, "")
    if filters.metric == ACCURACY:
        return None, second, ()
    return chosen or first, second, tuple(filter(None, (problem, other)))


def _named(
    series: Sequence[SeriesOfCase], metric: str, machine: str, number: str
) -> tuple[SeriesOfCase | None, str]:
    if number:
        found = next((each for each in series if str(each.id) == number), None)
        return found, "" if found else f"series={number[:20]}: not a series of this case."
    if not metric or metric == ACCURACY:
        return None, ""
    of_metric = [each for each in series if each.metric.name == metric]
    if not of_metric:
        known = ", ".join(dict.fromkeys(each.metric.name for each in series))
        return None, f"{metric[:60]}: the case has no such metric. It has: {known or 'none'}."
    return next((each for each in of_metric if each.machine == machine), of_metric[0]), ""


def make_choices(
    series: Sequence[SeriesOfCase], chosen: SeriesOfCase | None, second: SeriesOfCase | None
) -> tuple[SeriesChoice, ...]:
    """Return all series of a case to choose from."""
    machines = {each.machine for each in series}
    return tuple(
        SeriesChoice(
            each.id,
            each.metric.name,
            ", ".join(
                filter(
                    None,
                    (
                        each.machine if len(machines) > 1 else "",
                        each.counter,
                        each.start,
                        each.cache,
                        each.preset,
                        each.definition,
                    ),
                )
            ),
            format_value(each.newest, each.metric.unit),
            each is chosen,
            each is second,
        )
        for each in series
    )


def make_case_page(
    filters: PageFilters,
    bar: FilterBar,
    number: int,
    case: Case,
    choices: tuple[SeriesChoice, ...],
    charts: tuple[ChartView, ...],
    newest: Outcome | None,
    others: Sequence[tuple[int, Case]],
) -> CaseHistoryView:
    """Return the page of a case."""
    chart = charts[0]
    points = [point for point in reversed(chart.points) if point.status != GAP]
    last = points[0] if points else None
    facts = (("suite", case.suite), ("probe", case.probe), *case.variant.axes().items())
    failure = newest.failure if newest and newest.failure and last and not last.is_good else None
    return CaseHistoryView(
        filters,
        bar,
        number,
        case.name,
        case.id,
        tuple((name, text) for name, text in facts if text),
        choices,
        charts,
        tuple(_line(point, chart) for point in points[:MOST_ROWS]),
        last.status or "no outcome" if last else "no outcome",
        bool(last and last.is_good),
        summarise_error(failure.message) if failure else "",
        simple_command(newest.repro) if newest else "",
        tuple((each, f"{other.probe} {', '.join(other.variant.axes().values())}") for each, other in others),
    )


def _line(point: ChartPoint, chart: ChartView) -> HistoryLine:
    return HistoryLine(
        point.run_id,
        point.run,
        point.revision,
        point.when,
        point.status or "no outcome",
        point.is_good,
        format_value(point.value, chart.unit) if point.value is not None else "",
        f"{100 * point.spread:.2g}%" if point.spread is not None else "",
        point.samples,
        point.torch,
    )
