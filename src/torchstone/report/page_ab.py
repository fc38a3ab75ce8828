"""What ``torchstone ab`` found, as one HTML page: a line for each case, with a picture of its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from torchstone.report.markup import NOTHING, Markup, element
from torchstone.report.page import render_document
from torchstone.report.picture import draw_axis, draw_dot, ratio_scale

BADGES = {"regression": "fail", "improvement": "ok", "same": "ok", "inconclusive": "absent"}


class AbRow(Struct, frozen=True):
    """One case: the verdict, the effect (B's cost over A's) in words and as numbers, what it cost on each side, and why it is as it is."""

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
    """Everything that the page shows."""

    headline: str
    told: tuple[tuple[str, str], ...]
    rows: tuple[AbRow, ...]
    notes: tuple[str, ...] = ()


def render_ab(page: AbPage) -> str:
    """The whole file."""
    items = [element("li", element("span", f"{name} ", class_="quiet"), text) for name, text in page.told]
    header = element(
        "header",
        element("p", "torchstone ab", class_="brand"),
        element("h1", page.headline),
        element("ul", items, class_="identity"),
    )
    notes = [element("p", note, class_="alert") for note in page.notes]
    main = element("main", notes, _plot(page.rows), _table(page.rows), id="main")
    return render_document(page.headline, (header, main), ())


def _plot(rows: Sequence[AbRow]) -> Markup:
    """How many times as fast as A each B is: to the right is faster."""
    shown = [row for row in rows if row.ratio]
    if not shown:
        return NOTHING
    speeds = {row: _speeds(row) for row in shown}
    finite = [number for speed, interval in speeds.values() for number in (speed, *(interval or ()))]
    scale = ratio_scale(finite)
    axis = element("div", element("span"), draw_axis(scale), element("span"), class_="axis-line")
    lines = [
        element(
            "li",
            row.name,
            draw_dot(scale, *speeds[row], None),
            element("span", row.effect.partition(" ")[0], class_="value"),
        )
        for row in shown
    ]
    title = element("h2", "How many times as fast B is as A", id="speeds")
    return element("section", title, axis, element("ol", lines, class_="plot dots-plot"), axis)


def _speeds(row: AbRow) -> tuple[float, tuple[float, float] | None]:
    """The ratio and its interval the other way round: of speeds, not of costs. An interval without an end is not drawn."""
    ratio = row.ratio or 1.0
    if row.interval is None or not 0 < row.interval[0] <= row.interval[1] < math.inf:
        return 1 / ratio, None
    return 1 / ratio, (1 / row.interval[1], 1 / row.interval[0])


def _table(rows: Sequence[AbRow]) -> Markup:
    head = element(
        "tr", [element("th", name) for name in ("verdict", "case", "B against A", "pairs", "A", "B", "")]
    )
    body = [_line(row) for row in rows]
    table = element("table", element("thead", head), element("tbody", body))
    return element("section", element("h2", "All cases", id="cases"), element("div", table, class_="scroll"))


def _line(row: AbRow) -> Markup:
    badge = element("span", row.verdict, class_=f"{BADGES.get(row.verdict, 'skip')} badge")
    again = (
        element("details", element("summary", "again"), element("code", row.repro)) if row.repro else NOTHING
    )
    why = element("p", row.reason, class_="quiet") if row.reason else NOTHING
    cells = [badge, row.name, row.effect, str(row.pairs), *row.costs]
    return element("tr", [element("td", cell) for cell in cells], element("td", why, again))
