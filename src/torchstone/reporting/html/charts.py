"""Render the charts of the page: speedups, compile times, memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torchstone.core.text.units import count_of, format_number, format_value
from torchstone.reporting.html.elements import NOTHING, Markup, element, join
from torchstone.reporting.html.links import link_row
from torchstone.reporting.svg.drawing import (
    Scale,
    draw_axis,
    draw_bar,
    draw_curve,
    draw_dot,
    draw_pair,
    ratio_scale,
)
from torchstone.reporting.views.case_row import OK, SPEEDUP, CaseRow, format_ratio, interval_of
from torchstone.reporting.views.page_view import Page
from torchstone.reporting.views.summary import EAGER_MEMORY, MEMORY

MOST_DOTS = 60
SHOWN_DOTS = 40
MOST_MARKS = 2_000  # on a curve 930 units wide; of more cases, every n-th is drawn
MOST_BARS = 40
SHOWN_BARS = 12


def render_charts(page: Page) -> Markup:
    """Render all charts that have numbers."""
    pair = join(_compile_times(page), _memory(page))
    return join(_speedups(page), element("div", pair, class_="side-by-side") if pair else NOTHING)


def _speedups(page: Page) -> Markup:
    pairs = [(float(row.value(SPEEDUP) or 0), row) for row in page.rows if row.kind == OK]
    rows = [row for value, row in sorted(pairs, key=lambda pair: pair[0]) if value > 0]
    if not rows:
        return NOTHING
    rows.sort(
        key=lambda row: row.is_uncertain(SPEEDUP)
    )  # stable: what is uncertain has no rank, and comes last
    scale = ratio_scale(number for row in rows for number in _numbers(row))

    def draw(row: CaseRow) -> tuple[Markup, str]:
        value, interval = float(row.value(SPEEDUP) or 0), interval_of(row.measurement(SPEEDUP))
        unsure = row.is_uncertain(SPEEDUP)
        text: str = element("span", f"{format_ratio(value)}x", class_="unsure" if unsure else None)
        if interval:
            around = f" {format_ratio(interval[0])}\u2013{format_ratio(interval[1])}"
            text = join(text, element("small", around))
        old = float(row.old) if row.old else None
        return draw_dot(scale, value, interval, old, unsure=unsure), text

    axis = element("div", element("span"), draw_axis(scale), element("span"), class_="axis-line")
    listed = rows[:MOST_DOTS]
    curve = _curve(scale, rows) if len(rows) > MOST_DOTS else NOTHING
    return element(
        "section",
        element("h2", "Speedup over eager, slowest first", id="speedups"),
        _legend(rows),
        curve,
        axis,
        _plot(listed, draw, SHOWN_DOTS // 2 if curve else SHOWN_DOTS, "dots-plot"),
        axis,
    )


def _curve(scale: Scale, rows: Sequence[CaseRow]) -> Markup:
    """Draw all speedups in one picture; of very many, evenly spaced ones."""
    sure = [row for row in rows if not row.is_uncertain(SPEEDUP)]
    without = (
        f", without {len(rows) - len(sure):,} whose intervals are wider than 50%"
        if len(sure) < len(rows)
        else ""
    )
    some = ""
    drawn = rows = sure
    if len(rows) > MOST_MARKS:
        some = f" ({MOST_MARKS:,} drawn)"
        drawn = [rows[at * (len(rows) - 1) // (MOST_MARKS - 1)] for at in range(MOST_MARKS)]
    marks = [(float(row.value(SPEEDUP) or 0), interval_of(row.measurement(SPEEDUP))) for row in drawn]
    note = f"All {count_of(len(rows), 'case')}{some}, from slowest to fastest{without}. The slowest:"
    return join(draw_curve(scale, marks), element("p", note, class_="quiet"))


def _numbers(row: CaseRow) -> list[float]:
    """Return all numbers of a speedup that must fit on the scale: a wide interval need not, because it would flatten the others."""
    value, interval = float(row.value(SPEEDUP) or 0), interval_of(row.measurement(SPEEDUP))
    if row.is_uncertain(SPEEDUP):
        return [value]
    return [value, *(interval or ()), *([float(row.old)] if row.old else [])]


def _legend(rows: Sequence[CaseRow]) -> Markup:
    intervals = [interval_of(row.measurement(SPEEDUP)) for row in rows]
    items = []
    if any(intervals):
        items += [
            element("li", element("i", class_="up"), "faster: the whole interval is above 1x"),
            element("li", element("i", class_="even"), "no clear difference: the interval contains 1x"),
            element("li", element("i", class_="down"), "slower: the whole interval is below 1x"),
        ]
    if any(row.is_uncertain(SPEEDUP) for row in rows):
        items.append(
            element("li", element("i", class_="wide-mark"), "uncertain: the interval is wider than 50%")
        )
    if not all(intervals):
        items.append(element("li", element("i", class_="plain"), "no confidence interval"))
    if any(row.old for row in rows):
        items.append(element("li", element("i", class_="old"), "baseline"))
    return element("ul", items, class_="legend")


def _plot(
    rows: Sequence[CaseRow], draw: Callable[[CaseRow], tuple[Markup, str]], shown: int, kind: str
) -> Markup:
    """Render a list of cases with picture and number; the later ones of many are folded."""
    lines = []
    several = len({row.label for row in rows}) < len(rows)
    for row in rows:
        picture, text = draw(row)
        probe = element("small", row.case.probe) if several else None
        name = link_row(row, join(row.label, " ", probe), title=f"{row.case.name} {row.axes}".strip())
        lines.append(element("li", name, picture, element("span", text, class_="value")))
    first = element("ol", lines[:shown], class_=f"plot {kind}")
    if len(lines) <= shown:
        return first
    rest = element("ol", lines[shown:], class_=f"plot {kind}")
    return join(first, element("details", element("summary", f"{len(lines) - shown:,} more"), rest))


def _compile_times(page: Page) -> Markup:
    metric = page.summary.compile_metric
    spread = page.summary.compile_time
    if spread is None:
        return NOTHING
    rows = sorted(
        (row for row in page.rows if row.measurement(metric)), key=lambda row: -float(row.value(metric) or 0)
    )
    longest = max(float(rows[0].value(metric) or 0), 1e-9)

    caches = {_cache(row, metric) for row in rows}

    def draw(row: CaseRow) -> tuple[Markup, str]:
        value = float(row.value(metric) or 0)
        note = f" {_cache(row, metric)}" if len(caches) > 1 else ""
        return draw_bar(value / longest), join(format_value(value, "s"), element("small", note))

    shown = f"{MOST_BARS} of {count_of(len(rows), 'case')}" if len(rows) > MOST_BARS else ""
    cache = f"with a {caches.pop()} cache" if len(caches) == 1 and caches != {""} else ""
    note = ", ".join(part for part in (shown, metric, cache) if part)
    return element(
        "section",
        element("h2", "Compile time, longest first", id="compile-time"),
        element("p", note, class_="quiet"),
        _plot(rows[:MOST_BARS], draw, SHOWN_BARS, "bars-plot"),
    )


def _cache(row: CaseRow, metric: str) -> str:
    """Return whether the compile cache was warm, if stated."""
    measurement = row.measurement(metric)
    return measurement.details.cache if measurement and measurement.details else ""


def _memory(page: Page) -> Markup:
    def both(row: CaseRow) -> tuple[float, float]:
        return float(row.value(EAGER_MEMORY) or 0), float(row.value(MEMORY) or 0)

    rows = [row for row in page.rows if row.is_good and min(both(row)) > 0]
    if not rows:
        return NOTHING
    rows.sort(key=lambda row: both(row)[0] / both(row)[1])
    largest = max(max(both(row)) for row in rows[:MOST_BARS])

    def draw(row: CaseRow) -> tuple[Markup, str]:
        eager, compiled = both(row)
        text = f"{format_number(eager)} \u2192 {format_value(compiled, 'GB')}"
        return draw_pair(eager / largest, compiled / largest), text

    legend = element(
        "ul",
        element("li", element("i", class_="before"), "eager"),
        element("li", element("i", class_="after"), "compiled"),
        class_="legend",
    )
    return element(
        "section",
        element("h2", "Peak memory, smallest saving first", id="memory"),
        legend,
        _plot(rows[:MOST_BARS], draw, SHOWN_BARS, "bars-plot"),
    )
