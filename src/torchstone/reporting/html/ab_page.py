"""Render the results of ``torchstone ab`` as one HTML page, with a chart of the intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from torchstone.core.text.units import count_of, format_change, format_share
from torchstone.reporting.html.elements import NOTHING, Markup, element
from torchstone.reporting.html.page import render_document
from torchstone.reporting.svg.drawing import draw_axis, draw_change, ratio_scale

_COLORS = {"regression": "down", "improvement": "up"}
_LAST = ("regression", "inconclusive", "improvement", "same")  # all other verdicts come first
MOST_ROWS = 2_000
"""The most cases on the page; with more it would open slowly."""
BADGES = {"regression": "fail", "improvement": "ok", "same": "ok", "inconclusive": "absent"}


class AbRow(Struct, frozen=True):
    """One case: verdict, effect (cost of B / cost of A) as text and numbers, cost of each side, and the reason."""

    name: str
    verdict: str
    effect: str
    costs: tuple[str, str]
    pairs: int
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    reason: str = ""
    repro: str = ""


class AbPage(Struct, frozen=True):
    """The content of the page."""

    headline: str
    facts: tuple[tuple[str, str], ...]
    rows: tuple[AbRow, ...]
    margin: float
    notes: tuple[str, ...] = ()


def render_ab(page: AbPage) -> str:
    """Render the page."""
    items = [element("li", element("span", f"{name} ", class_="quiet"), text) for name, text in page.facts]
    header = element(
        "header",
        element("p", "torchstone ab", class_="brand"),
        element("h1", page.headline),
        element("ul", items, class_="identity"),
    )
    shown = choose_rows(page.rows)
    notes = [element("p", note, class_="alert") for note in (*page.notes, *_left_out(page.rows, shown))]
    main = element("main", notes, _plot(shown, page.margin), _table(shown), id="main")
    return render_document(page.headline, (header, main), ())


def choose_rows(rows: Sequence[AbRow], most: int = MOST_ROWS) -> list[AbRow]:
    """Choose the rows to show, in order: if there are too many, failures and regressions first."""
    rank = {verdict: place for place, verdict in enumerate(_LAST)}
    kept = sorted(range(len(rows)), key=lambda at: rank.get(rows[at].verdict, -1))[:most]
    return [rows[at] for at in sorted(kept)]


def _left_out(rows: Sequence[AbRow], shown: Sequence[AbRow]) -> list[str]:
    """Return a note on the cases that the page leaves out, if any."""
    left = Counter(row.verdict for row in rows)
    left.subtract(row.verdict for row in shown)
    named = ", ".join(f"{number:,} {verdict}" for verdict, number in left.most_common() if number)
    note = f"{len(rows) - len(shown):,} of {count_of(len(rows), 'case')} not on this page: {named}. To list all: torchstone compare A.jsonl B.jsonl --format json"
    return [note] if named else []


def _plot(rows: Sequence[AbRow], margin: float) -> Markup:
    """Draw the ratio of B's cost to A's; slower is to the right."""
    shown = [row for row in rows if row.ratio]
    if not shown:
        return NOTHING
    intervals = {row: _drawn_interval(row) for row in shown}
    edges = [edge for interval in intervals.values() if interval for edge in interval]
    scale = ratio_scale([*(row.ratio or 1.0 for row in shown), *edges, 1 + margin, 1 / (1 + margin)])
    axis = element("div", element("span"), draw_axis(scale), element("span"), class_="axis-line")
    lines = [
        element(
            "li",
            row.name,
            draw_change(scale, row.ratio or 1.0, intervals[row], margin, _COLORS.get(row.verdict, "even")),
            element("span", format_change(row.ratio, 1.0) if row.ratio else row.effect, class_="value"),
        )
        for row in shown
    ]
    title = element("h2", "Time of B relative to A", id="changes")
    legend = f"Left of 1x, B is faster; right of 1x, it is slower. The band is the margin of {format_share(margin)}."
    plot = element("ol", lines, class_="plot dots-plot")
    return element("section", title, element("p", legend, class_="quiet"), axis, plot, axis)


def _drawn_interval(row: AbRow) -> tuple[float, float] | None:
    """Return the interval if it is bounded on both sides; otherwise it is not drawn."""
    if row.interval is None or not 0 < row.interval[0] <= row.interval[1] < math.inf:
        return None
    return row.interval


def _table(rows: Sequence[AbRow]) -> Markup:
    head = element(
        "tr", [element("th", name) for name in ("verdict", "case", "B relative to A", "pairs", "A", "B", "")]
    )
    body = [_line(row) for row in rows]
    table = element("table", element("thead", head), element("tbody", body))
    return element("section", element("h2", "All cases", id="cases"), element("div", table, class_="scroll"))


def _line(row: AbRow) -> Markup:
    badge = element("span", row.verdict, class_=f"{BADGES.get(row.verdict, 'skip')} badge")
    again = (
        element("details", element("summary", "Measure again"), element("code", row.repro))
        if row.repro
        else NOTHING
    )
    why = element("p", row.reason, class_="quiet") if row.reason else NOTHING
    cells = [badge, row.name, row.effect, str(row.pairs), *row.costs]
    return element("tr", [element("td", cell) for cell in cells], element("td", why, again))
