"""Render the first page: one line that answers, a matrix of suites, and the cases that need a look."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.text.units import count_of
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
from torchstone.reporting.svg.history_chart import draw_spark
from torchstone.reporting.views.history.health_view import (
    HealthView,
    MatchedMean,
    MatrixCell,
    MatrixRow,
    NamedState,
    ProbeRate,
)

_WORDS = {"compile_seconds": "compile", "compilation_latency": "compile", "dynamo_peak_mem": "memory"}


def render_health(view: HealthView, links: PageLinks) -> str:
    """Render the page."""
    page = ShellPage("", view.title, links, view.bar, json_query=view.filters.to_query())
    if not view.cases:
        why = (
            "No case matches these filters."
            if view.filters.to_query()
            else "The store has no runs yet. Record some: torchstone record FILES"
        )
        return render_shell(page, element("p", why, class_="empty"))
    header = ("suite", *map(short_name, view.columns))
    rows = [_row(row, links) for row in view.rows]
    return render_shell(
        page,
        _lead(view, links),
        render_table_of(header, rows, "Suites by axes", "matrix"),
        element(
            "p",
            "Means are geometric, over the cases of the newest revision that have the metric (their number is in parentheses); changes are against the revision before, over the cases"
            " that both have.",
            class_="quiet",
        ),
        _named("Failing", view.failing, view.cases - view.passed - view.missing, links),
        _named("Missing in the newest revision", view.gone, view.missing, links),
    )


def _lead(view: HealthView, links: PageLinks) -> Markup:
    """Render the answer in one line."""
    data = links.run(view.newest_run_id, short_revision(view.newest_revision), view.newest_run[:200])
    when = element(
        "time",
        view.newest_when.replace("T", " ").removesuffix("Z")[:16],
        datetime=view.newest_when,
        class_="age",
    )
    failing = view.cases - view.passed - view.missing
    changes = element("span", count_of(view.open_changes, "open regression"), class_="figure")
    parts = [
        element("a", changes, href=links.to("changes")),
        element(
            "span",
            f"{failing:,} of {count_of(view.cases, 'case')} failing",
            class_="figure worse" if failing else "figure",
        ),
        element("span", f"{view.missing:,} missing", class_="figure worse" if view.missing else "figure"),
        join("newest data ", when, " at ", data),
    ]
    return element("p", join(*parts, separator=", "), class_="lead")


def _row(row: MatrixRow, links: PageLinks) -> Markup:
    return element(
        "tr",
        element("th", short_name(row.suite) or "(no suite)", scope="row"),
        [_cell(cell, links) for cell in row.cells],
    )


def _cell(cell: MatrixCell, links: PageLinks) -> Markup:
    if not cell.rates:
        return element("td", cell.why, class_="none")
    rates = [_rate(rate, cell, links, several=len(cell.rates) > 1) for rate in cell.rates]
    return element(
        "td",
        element("div", join(*rates, separator=", ")),
        [element("small", _mean(mean)) for mean in cell.means],
        element("small", cell.why, class_="worse") if cell.why else None,
        element("small", links.run(cell.run_id, short_revision(cell.revision)), " ", render_time(cell.when)),
        class_=f"matrix-cell {cell.tone}",
    )


def _rate(rate: ProbeRate, cell: MatrixCell, links: PageLinks, *, several: bool) -> Markup:
    text = f"{rate.passed:,}/{rate.cases:,}"
    shown = element("a", text, href=links.to("cases", cell.query), class_="rate")
    probe = f"{rate.probe} " if several else ""
    missing = f" ({rate.missing:,} missing)" if rate.missing else ""
    return join(probe, shown, missing)


def _mean(mean: MatchedMean) -> Markup:
    name = _WORDS.get(mean.metric, mean.metric)
    change = f" {mean.change}" if mean.change else ""
    matched = (
        f" ({mean.matched:,} of {mean.cases:,})"
        if mean.change and mean.matched != mean.cases
        else f" ({mean.cases:,})"
    )
    return join(
        f"{name} {mean.text}{change}{matched} ", draw_spark(mean.former) if len(mean.former) > 2 else None
    )


def _named(title: str, states: Sequence[NamedState], count: int, links: PageLinks) -> Markup:
    if not states:
        return NOTHING
    items = [
        element(
            "li",
            status_badge(each.status, is_good=False, is_absent=each.status in {"gone", "no outcome"}),
            " ",
            links.case(each.id, short_name(each.name, 160)),
            element("span", " last in " if each.status == "gone" else " in ", class_="quiet"),
            links.run(each.run_id, short_revision(each.revision)),
            " ",
            render_time(each.when),
        )
        for each in states
    ]
    more = count - len(states)
    rest = (
        element("p", f"and {more:,} more: ", element("a", "all cases", href=links.to("cases")))
        if more > 0
        else None
    )
    return join(element("h2", f"{title} ({count:,})"), element("ul", items, class_="troubles"), rest)
