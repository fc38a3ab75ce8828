"""Render the page of a case: what it is, its charts, its runs, and its other series."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from torchstone.core.text.units import count_of
from torchstone.reporting.html.case_details import command
from torchstone.reporting.html.elements import NOTHING, Markup, element, join
from torchstone.reporting.html.history.list_sections import status_badge
from torchstone.reporting.html.history.page_links import PageLinks
from torchstone.reporting.html.history.shell import (
    ShellPage,
    render_shell,
    render_table_of,
    render_time,
    short_name,
    short_revision,
)
from torchstone.reporting.svg.history_chart import describe_chart, draw_history
from torchstone.reporting.views.history.case_page import BY_TIME, CaseHistoryView, HistoryLine, SeriesChoice
from torchstone.reporting.views.history.chart_points import ChangeFlag, ChartView, EnvironmentMark, LevelLine

_HOW = "Drag to zoom, double-click to see all, click a point to open its run"
_COMPARE = ", shift-drag to compare the two ends"


class ChartData(Struct, frozen=True):
    """What the script draws: the columns of the points of a chart, its marks, and where runs and comparisons are.

    ``statuses`` and ``torches`` are lists of texts, to which ``status`` and ``torch`` refer; ``good`` has a place for each status.
    A run without a page is 0.
    """

    metric: str
    unit: str
    when: list[str]
    value: list[float | None]
    spread: list[float | None]
    run: list[int]
    revision: list[str]
    status: list[int]
    torch: list[int]
    statuses: list[str]
    good: list[bool]
    torches: list[str]
    samples: tuple[tuple[int, float], ...]
    levels: tuple[LevelLine, ...]
    changes: tuple[ChangeFlag, ...]
    environments: tuple[EnvironmentMark, ...]
    run_page: str
    compare: str
    by_time: bool


def make_chart_data(chart: ChartView, links: PageLinks, *, by_time: bool) -> ChartData:
    """Return the data of a chart for the script."""
    points = chart.points
    statuses = list(dict.fromkeys((point.status, point.is_good) for point in points))
    torches = list(dict.fromkeys(point.torch for point in points))
    places = {status: at for at, status in enumerate(statuses)}
    versions = {torch: at for at, torch in enumerate(torches)}
    return ChartData(
        chart.metric,
        chart.unit,
        [point.when[:16] for point in points],
        [point.value for point in points],
        [None if point.spread is None else round(point.spread, 5) for point in points],
        [point.run_id if links.has_run(point.run_id) else 0 for point in points],
        [short_revision(point.revision) for point in points],
        [places[point.status, point.is_good] for point in points],
        [versions[point.torch] for point in points],
        [status for status, _ in statuses],
        [is_good for _, is_good in statuses],
        torches,
        chart.samples,
        chart.levels,
        chart.changes,
        chart.environments,
        links.to("run/0"),
        "" if links.is_static else links.to("compare"),
        by_time,
    )


def render_case(view: CaseHistoryView, links: PageLinks) -> str:
    """Render the page of a case."""
    query = view.filters.to_query()
    page = ShellPage(
        f"case/{view.id}",
        short_name(view.name, 200),
        links,
        None if links.is_static else view.bar,
        has_chart=True,
        json_query=query,
    )
    return render_shell(
        page,
        _facts(view),
        element("p", view.failure, class_="alert") if view.failure else None,
        _choices(view, links),
        [_chart(chart, view, links, at) for at, chart in enumerate(view.charts)],
        element("h2", "Measure it again") if view.repro else None,
        command(view.repro) if view.repro else None,
        element("h2", f"Runs, newest first ({len(view.rows):,})"),
        _table(view, links),
        _others(view, links),
    )


def _facts(view: CaseHistoryView) -> Markup:
    items = [
        element("li", element("span", f"{name} ", class_="quiet"), short_name(text))
        for name, text in view.facts
    ]
    first = element(
        "li", status_badge(view.status, is_good=view.is_good, is_absent=view.status == "no outcome")
    )
    return element("ul", first, items, class_="facts")


def _choices(view: CaseHistoryView, links: PageLinks) -> Markup:
    """Render links to the other series of the case; the second one is chosen by a link of its own."""
    if links.is_static or not view.choices:
        return NOTHING
    path = f"case/{view.id}"
    items = [_choice(each, view, links, path) for each in view.choices]
    names = [chart.metric for chart in view.charts]
    below = [
        element(
            "li",
            element(
                "a",
                each.metric,
                href=links.to(path, _with_second(view, each)),
                aria_current=each.is_second or None,
            ),
        )
        for each in view.choices
        if not each.is_chosen and not each.rest
    ]
    second = [
        element(
            "details",
            element("summary", "A second metric below"),
            element("ul", below, class_="choices"),
            open=len(names) > 1,
        )
    ]
    return join(element("ul", items, class_="choices", aria_label="Series"), second if below else None)


def _with_second(view: CaseHistoryView, each: SeriesChoice) -> str:
    return view.filters.to_query(second="" if each.is_second else each.metric)


def _choice(each: SeriesChoice, view: CaseHistoryView, links: PageLinks, path: str) -> Markup:
    by_number = sum(other.metric == each.metric for other in view.choices) > 1
    query = view.filters.to_query(metric=each.metric, series=str(each.id) if by_number else "", second="")
    text = f"{each.metric} {each.newest}" + (f" ({short_name(each.rest, 60)})" if each.rest else "")
    link = element("a", text, href=links.to(path, query), aria_current="true" if each.is_chosen else None)
    return element("li", link)


def _chart(chart: ChartView, view: CaseHistoryView, links: PageLinks, at: int) -> Markup:
    if not chart.points:
        return element("p", f"There is no data of {chart.metric} with these filters.", class_="empty")
    data = make_chart_data(chart, links, by_time=view.filters.by == BY_TIME)
    better = "" if chart.better == "equal" else f", {chart.better} is better"
    left_out = f" {chart.left_out:,} points between are left out." if chart.left_out else ""
    gaps = " Blank stretches: no data." if any(point.status == "gap" for point in chart.points) else ""
    caption = element(
        "figcaption",
        element("strong", chart.metric),
        f" ({chart.unit}{better})." if chart.unit else ".",
        f"{left_out}{gaps} ",
        element("span", _HOW, NOTHING if links.is_static else _COMPARE, ".", class_="only-js")
        if at == 0
        else None,
    )
    block = element("script", Markup(encode_for_script(data)), type="application/json", class_="chart-data")
    drawn = element("div", draw_history(chart), block, class_="chart", aria_label=describe_chart(chart))
    return element("figure", caption, drawn, _notes(chart, links), class_="history")


def encode_for_script(data: Struct) -> str:
    """Encode a record as JSON that ends no element of a page, whatever is in it."""
    text = msgspec.json.encode(data).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _notes(chart: ChartView, links: PageLinks) -> Markup:
    """Render changes and environments as text."""
    items = [
        element(
            "li",
            f"{chart.points[flag.at].when[:10]} ",
            element("a", flag.text, href=links.to(f"change/{flag.group}")) if flag.group else flag.text,
            " (provisional)" if flag.is_provisional else None,
        )
        for flag in chart.changes
    ]
    items += [
        element("li", f"{chart.points[mark.at].when[:10]} {mark.text}", class_="quiet")
        for mark in chart.environments
    ]
    if not items:
        return NOTHING
    title = f"{count_of(len(chart.changes), 'change')}, {count_of(len(chart.environments), 'change')} of the environment"
    return element("details", element("summary", title), element("ul", items))


def _table(view: CaseHistoryView, links: PageLinks) -> Markup:
    chart = view.charts[0]
    header = ("measured", "run", "revision", "status", chart.metric, "noise", "samples", "torch", "")
    rows = [_row(line, view.rows[at + 1 :], links) for at, line in enumerate(view.rows)]
    return render_table_of(
        header, rows, "Runs of this case, newest first", numbers={chart.metric, "noise", "samples"}
    )


def _row(line: HistoryLine, older: Sequence[HistoryLine], links: PageLinks) -> Markup:
    compare = None
    if older and not links.is_static:
        compare = element("a", "compare", href=links.to("compare", f"a={older[0].run_id}&b={line.run_id}"))
    return element(
        "tr",
        element("td", render_time(line.when)),
        element("th", links.run(line.run_id, short_name(line.run, 40)), scope="row"),
        element("td", element("code", short_revision(line.revision))),
        element("td", status_badge(line.status, is_good=line.is_good, is_absent=line.status == "no outcome")),
        element("td", line.value, class_="number"),
        element("td", line.spread, class_="number"),
        element("td", str(line.samples or ""), class_="number"),
        element("td", short_name(line.torch, 30)),
        element("td", compare),
    )


def _others(view: CaseHistoryView, links: PageLinks) -> Markup:
    if not view.others:
        return NOTHING
    items = [element("li", links.case(number, short_name(text))) for number, text in view.others]
    return join(element("h2", "Other cases of this benchmark"), element("ul", items))
