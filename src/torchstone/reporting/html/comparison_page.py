"""Render a comparison of two sides as one HTML page: the verdict, changed rows with their trials, then the rest."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.text.units import count_of
from torchstone.reporting.html.case_details import command, verdict_badge
from torchstone.reporting.html.elements import NOTHING, Markup, element, join, long_text
from torchstone.reporting.html.page import render_document, render_headline
from torchstone.reporting.svg.strip_plot import draw_strip
from torchstone.reporting.views.comparison.comparison_view import (
    ComparedRow,
    ComparisonPage,
    RowSection,
    make_comparison_page,
)
from torchstone.reporting.views.comparison_rows import CompareReport

SHOWN_CAUTIONS = 10
SHOWN_ROWS = 40  # of a section; the others are folded


def render_html(report: CompareReport) -> str:
    """Render the page of a comparison."""
    return render_comparison(make_comparison_page(report))


def render_comparison(page: ComparisonPage) -> str:
    """Render the page."""
    header = element(
        "header",
        element("p", f"torchstone {page.command}", class_="brand"),
        render_headline(page.headline),
        _counts(page),
        _facts(page),
        _links(page),
    )
    main = element(
        "main",
        [element("div", long_text(text, 2_000), class_="alert") for text in page.alerts],
        _cautions(page.cautions),
        _legend(page),
        [_section(section, page) for section in page.sections],
        _means(page),
        _rounds(page),
        id="main",
    )
    return render_document(page.headline.text, (header, main), ())


def _counts(page: ComparisonPage) -> Markup:
    items = [
        element("li", verdict_badge(verdict, blocks=blocks), f" {number:,}")
        for verdict, number, blocks in page.counts
    ]
    return element("ul", items, class_="counts") if items else NOTHING


def _facts(page: ComparisonPage) -> Markup:
    items = [element("li", element("span", f"{name} ", class_="quiet"), text) for name, text in page.facts]
    return element("ul", items, class_="identity")


def _links(page: ComparisonPage) -> Markup:
    links = [
        element("a", f"{section.title} ({section.size:,})", href=f"#{section.anchor}")
        for section in page.sections
    ]
    links += [element("a", "Means", href="#means")] if page.means else []
    return element("nav", links, aria_label="Sections") if links else NOTHING


def _cautions(texts: tuple[str, ...]) -> Markup:
    """Render the cautions; the later ones of many are folded."""
    alerts = [element("div", "Caution: ", long_text(text, 1_000), class_="alert") for text in texts]
    if len(alerts) <= SHOWN_CAUTIONS:
        return join(alerts)
    rest = alerts[SHOWN_CAUTIONS:]
    return join(
        alerts[:SHOWN_CAUTIONS],
        element("details", element("summary", f"{len(rest):,} more cautions"), rest),
    )


def _legend(page: ComparisonPage) -> Markup:
    """Explain the pictures, if there are any."""
    rows = [row for section in page.sections for row in section.rows]
    if not any(row.strip for row in rows):
        return NOTHING
    base, new = page.sides
    items = [
        element("li", element("i", class_="old"), f"a trial of {base}"),
        element("li", element("i", class_="plain"), f"a trial of {new}"),
        element("li", element("i", class_="bar-mark"), f"{new} relative to {base}, with its interval"),
        element("li", element("i", class_="band-mark"), f"the margin around {base}"),
    ]
    if any(row.is_wide for row in rows):
        items.append(element("li", element("i", class_="wide-mark"), "dashed: an interval wider than 50%"))
    return element("ul", items, class_="legend")


def _section(section: RowSection, page: ComparisonPage) -> Markup:
    left = (
        element(
            "p",
            element("strong", f"{section.left_out:,} more rows are not on this page."),
            " To list all: ",
            element("code", page.list_all),
            class_="alert",
        )
        if section.left_out
        else NOTHING
    )
    rows = [_row(row, page.sides) for row in section.rows]
    title = f"{section.title}: {section.size:,}"
    return element(
        "section",
        element("h2", title, id=section.anchor),
        left,
        _list(rows[:SHOWN_ROWS]),
        element(
            "details", element("summary", f"{len(rows) - SHOWN_ROWS:,} more rows"), _list(rows[SHOWN_ROWS:])
        )
        if len(rows) > SHOWN_ROWS
        else None,
        _exact_counts(section.counts),
    )


def _list(rows: Sequence[Markup]) -> Markup:
    return element("ol", rows, class_="compared") if rows else NOTHING


def _exact_counts(rows: Sequence[ComparedRow]) -> Markup:
    """Render counts that are exactly as before, folded: case, metric and value."""
    if not rows:
        return NOTHING
    head = element("tr", [element("th", name, scope="col") for name in ("case", "metric", "value")])
    cells = [(row.name, row.metric, row.values[1]) for row in rows]
    body = [element("tr", [element("td", cell) for cell in each]) for each in cells]
    table = element("table", element("thead", head), element("tbody", body))
    title = f"{count_of(len(rows), 'count')} exactly as before"
    return element("details", element("summary", title), element("div", table, class_="scroll means"))


def _row(row: ComparedRow, sides: tuple[str, str]) -> Markup:
    better = element("small", f"{row.better} is better") if row.better in {"lower", "higher"} else None
    name = element(
        "div",
        element("p", verdict_badge(row.verdict, blocks=row.blocks), " ", element("strong", row.name)),
        element("p", row.metric, " ", better, class_="metric"),
        class_="what",
    )
    kind = f"{row.tone} wide" if row.is_wide else row.tone
    picture = draw_strip(row.strip, kind) if row.strip else NOTHING
    return element(
        "li",
        name,
        element("div", picture, class_="picture") if picture else NOTHING,
        _numbers(row, sides),
        element("p", row.reason, class_="quiet why") if row.reason else None,
        _details(row),
    )


def _numbers(row: ComparedRow, sides: tuple[str, str]) -> Markup:
    """Render both values, and the change; a change with a wide interval is marked."""
    values = element(
        "p",
        [join(element("small", f"{side} "), text, " ") for side, text in zip(sides, row.values, strict=True)],
    )
    interval = element("small", row.interval) if row.interval else None
    if row.is_wide:
        wide = element("span", "uncertain", class_="absent badge")
        return element("div", values, element("p", row.effect, " ", interval, " ", wide), class_="numbers")
    change = element("p", element("b", row.effect), " ", interval) if row.effect else None
    return element("div", values, change, class_="numbers")


def _details(row: ComparedRow) -> Markup:
    facts = [element("div", element("dt", name), element("dd", text)) for name, text in row.facts]
    if not facts and not row.repro:
        return NOTHING
    return element(
        "details",
        element("summary", "Details"),
        element("dl", facts, class_="tree") if facts else None,
        command(row.repro) if row.repro else None,
    )


def _means(page: ComparisonPage) -> Markup:
    """Render the geometric means of the ratios, one line per metric."""
    if not page.means:
        return NOTHING
    base, new = page.sides
    names = ("metric", "", f"geometric mean of {new} / {base}", "interval", "over")
    head = element("tr", [element("th", name, scope="col") for name in names])
    body = [element("tr", [element("td", cell) for cell in cells]) for cells in page.means]
    table = element("table", element("thead", head), element("tbody", body))
    scroll = element("div", table, class_="scroll means", role="region", aria_label="Means", tabindex=0)
    return element("section", element("h2", "Means over the cases", id="means"), scroll)


def _rounds(page: ComparisonPage) -> Markup:
    if not page.rounds:
        return NOTHING
    return element("section", element("h2", "Rounds", id="rounds"), element("pre", page.rounds))
