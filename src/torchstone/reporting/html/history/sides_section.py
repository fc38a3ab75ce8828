"""Render the page that compares two runs or revisions."""

from __future__ import annotations

from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.reporting.html.case_details import command, verdict_badge
from torchstone.reporting.html.elements import NOTHING, Markup, element, join
from torchstone.reporting.html.history.page_links import PageLinks
from torchstone.reporting.html.history.shell import (
    ShellPage,
    render_pages,
    render_shell,
    render_table_of,
    render_time,
    short_name,
    short_revision,
)
from torchstone.reporting.views.history.sides_view import ComparedLine, ComparedSide, SidesView

_HEADER = ("verdict", "case", "metric", "a", "b", "change", "interval", "trials a / b", "why")
_NUMBERS = frozenset({"a", "b", "change", "interval", "trials a / b"})
_MOST_ALERTS = 8


def render_sides(view: SidesView, links: PageLinks) -> str:
    """Render the page."""
    query = view.filters.to_query(page=view.page)
    page = ShellPage(
        "compare", view.title, links, view.bar, json_query=query, heading=view.headline or view.title
    )
    if view.a is None or view.b is None:
        return render_shell(page, _suggestions(view, links))
    rows = [_row(row, links) for row in view.rows]
    table = (
        render_table_of(_HEADER, rows, "Compared rows; those that need a look first", numbers=_NUMBERS)
        if rows
        else element("p", "No row needs a look.", class_="empty")
    )
    return render_shell(
        page,
        element("div", _side("a", view.a, view, links), _side("b", view.b, view, links), class_="sides"),
        _counts(view),
        [element("p", text, class_="alert") for text in view.alerts[:_MOST_ALERTS]],
        _held_back(view, links),
        table,
        _switch(view, links),
        render_pages("compare", links, view.page, view.pages, view.filters.to_query()),
        _means(view),
    )


def _suggestions(view: SidesView, links: PageLinks) -> Markup:
    if links.is_static:
        return element("p", "Comparisons are made by the live dashboard: torchstone serve", class_="empty")
    items = [
        element("li", element("a", text, href=links.to("compare", query))) for text, query in view.suggestions
    ]
    told = element("p", "Name two sides above: runs, commits, branches (their newest revision) or days.")
    listed = (
        element("ul", items) if items else element("p", "There are no two revisions yet.", class_="empty")
    )
    return join(told, element("h2", "Newest revisions"), listed)


def _side(name: str, side: ComparedSide, view: SidesView, links: PageLinks) -> Markup:
    runs = join(*(links.run(number, short_name(text, 60)) for number, text in side.runs[:6]), separator=", ")
    more = f" and {len(side.runs) - 6:,} more" if len(side.runs) > 6 else ""
    pin = NOTHING
    if side.pinned != side.asked:
        pin = join(
            " ",
            element(
                "a",
                "pin",
                href=links.to("compare", view.filters.to_query(**{name: side.pinned})),
                title="An address that always means these runs",
            ),
        )
    return element(
        "div",
        element("h3", f"{name}: {short_name(side.asked, 80)} ({side.found})", pin),
        element(
            "p",
            element("code", short_revision(side.revision)),
            " ",
            render_time(side.when),
            f" torch {short_name(side.torch, 60)}" if side.torch else None,
        ),
        element("p", runs, more),
    )


def _counts(view: SidesView) -> Markup:
    items = [
        element("li", verdict_badge(Verdict(verdict), blocks=False), f" {number:,}")
        for verdict, number in view.counts
    ]
    facts = [
        element("li", element("span", f"{name} ", class_="quiet"), short_name(text))
        for name, text in view.facts
    ]
    return join(element("ul", items, class_="counts"), element("ul", facts, class_="facts"))


def _row(row: ComparedLine, links: PageLinks) -> Markup:
    query = f"metric={row.metric}" if row.metric.replace("_", "").isalnum() and row.metric != "status" else ""
    name = links.case(row.case_id, short_name(row.name), query) if row.case_id else short_name(row.name)
    why = join(
        row.reason,
        element("details", element("summary", "measure again"), command(row.repro)) if row.repro else None,
    )
    return element(
        "tr",
        element("td", verdict_badge(Verdict(row.verdict), blocks=row.blocks)),
        element("th", name, scope="row"),
        element("td", short_name(row.metric, 40)),
        element("td", row.a, class_="number"),
        element("td", row.b, class_="number"),
        element("td", row.change, class_=f"number {row.tone}".strip()),
        element("td", row.interval, class_="number"),
        element("td", row.trials, class_="number"),
        element("td", why, class_="why"),
    )


def _held_back(view: SidesView, links: PageLinks) -> Markup:
    if not view.is_held_back:
        return NOTHING
    query = view.filters.to_query(anyway="1")
    return element("p", element("a", "Compare times and memory anyway", href=links.to("compare", query)))


def _switch(view: SidesView, links: PageLinks) -> Markup:
    """Render the switch for the rows that need no look."""
    if view.calm:
        text = f"Show {count_of(view.calm, 'row')} that did not change"
        return element("p", element("a", text, href=links.to("compare", view.filters.to_query(all="1"))))
    if view.filters.all:
        hide = element(
            "a", "Hide the rows that did not change", href=links.to("compare", view.filters.to_query(all=""))
        )
        return element("p", hide)
    return NOTHING


def _means(view: SidesView) -> Markup:
    if not view.means:
        return NOTHING
    rows = [element("tr", [element("td", short_name(cell)) for cell in each]) for each in view.means]
    header = ("metric", "direction", "geometric mean of b / a", "interval", "cases")
    return join(element("h2", "Means"), render_table_of(header, rows, "Means over all cases"))
