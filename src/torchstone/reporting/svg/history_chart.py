"""Draw the history of a series as SVG: for readers without a script, and until the script has drawn its own."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.vocabulary import ACCURACY
from torchstone.reporting.html.elements import NOTHING, Markup, element
from torchstone.reporting.svg.strip_plot import format_ticks, linear_ticks
from torchstone.reporting.views.history.chart_points import GAP, ChartPoint, ChartView

HEIGHT = 240
_TOP, _BOTTOM, _LANE = 8, 44, 8  # pixels above the lines, below them, and of the lane of statuses
_UNITS = 1000.0  # of the inner drawing, which is stretched to the width of the page
_MOST_DATES = 5
_EDGE = 0.04  # of the range, above and below


def draw_history(chart: ChartView) -> Markup:
    """Draw values with gaps, raw samples, levels, changes, environments, and a lane of statuses."""
    points = chart.points
    if not points:
        return NOTHING
    body = HEIGHT - _TOP - _BOTTOM
    inner = [_lane(points)]
    outer = [*_dates(points)]
    limits = _limits(chart)
    if limits:
        low, high = limits
        place = _PlotArea(len(points), low, high)
        inner = [*_marks(chart, place), *_values(chart, place), *inner]
        outer += _ticks(chart, low, high, body)
    drawing = element(
        "svg",
        inner,
        x="0",
        y=_TOP,
        width="100%",
        height=body + _LANE + 4,
        viewBox=f"0 0 {_UNITS:.0f} {body + _LANE + 4}",
        preserveAspectRatio="none",
    )
    return element(
        "svg",
        drawing,
        outer,
        class_="history-chart",
        width="100%",
        height=HEIGHT,
        role="img",
        aria_label=describe_chart(chart),
    )


def describe_chart(chart: ChartView) -> str:
    """Describe a chart in a sentence, for screen readers."""
    values = [point.value for point in chart.points if point.value is not None]
    failed = sum(point.value is None and point.status != GAP for point in chart.points)
    if not values or chart.metric == ACCURACY:
        return f"status of {len(chart.points):,} runs"
    found = (
        f"{chart.metric} in {len(values):,} runs, from {min(values):.4g} to {max(values):.4g} {chart.unit}"
    )
    return f"{found}; the newest is {values[-1]:.4g}; {failed:,} runs without a value; {len(chart.changes):,} changes"


class _PlotArea:
    """Maps places and values to the units of the inner drawing."""

    def __init__(self, size: int, low: float, high: float) -> None:
        self._step = _UNITS / max(1, size)
        self._low, self._span = low, high - low
        self.body = HEIGHT - _TOP - _BOTTOM

    def x(self, at: float) -> float:
        return (at + 0.5) * self._step

    def y(self, value: float) -> float:
        return self.body * (1 - (value - self._low) / self._span)

    def path(self, places: Sequence[tuple[float, float]], *, joined: bool) -> str:
        """Return a path through points, or a dot at each of them."""
        parts = []
        for number, (at, value) in enumerate(places):
            letter = "L" if joined and number else "M"
            parts.append(f"{letter}{self.x(at):.1f} {self.y(value):.1f}{'' if joined else 'h0'}")
        return "".join(parts)


def _limits(chart: ChartView) -> tuple[float, float] | None:
    values = [point.value for point in chart.points if point.value is not None]
    values += [value for _, value in chart.samples]
    values += [level.value for level in chart.levels]
    if not values:
        return None
    low, high = min(values), max(values)
    room = (high - low) * _EDGE or abs(high) * 0.05 or 1.0
    return low - room, high + room


def _values(chart: ChartView, place: _PlotArea) -> list[Markup]:
    runs: list[list[tuple[float, float]]] = [[]]
    for at, point in enumerate(chart.points):
        if point.value is None:
            runs.append([])
        else:
            runs[-1].append((float(at), point.value))
    joined = "".join(place.path(run, joined=True) for run in runs if len(run) > 1)
    dots = place.path([each for run in runs for each in run], joined=False)
    samples = place.path([(float(at), value) for at, value in chart.samples], joined=False)
    levels = [
        _line(place.x(level.first), place.x(level.last), place.y(level.value), place.y(level.value), "level")
        for level in chart.levels
    ]
    return [
        element("path", d=samples, class_="sample") if samples else NOTHING,
        element("path", d=joined, class_="value") if joined else NOTHING,
        element("path", d=dots, class_="dot"),
        *levels,
    ]


def _line(x1: float, x2: float, y1: float, y2: float, kind: str, title: str = "") -> Markup:
    told = element("title", title) if title else None
    return (
        element("line", told, x1=x1, x2=x2, y1=y1, y2=y2, class_=kind)
        if not told
        else element("g", told, element("line", x1=x1, x2=x2, y1=y1, y2=y2, class_=kind))
    )


def _marks(chart: ChartView, place: _PlotArea) -> list[Markup]:
    found = [
        _line(x, x, 0, place.body, "environment", mark.text)
        for mark in chart.environments
        for x in [place.x(mark.at - 0.5)]
    ]
    found += [
        _line(x, x, 0, place.body, f"change {flag.direction}", flag.text)
        for flag in chart.changes
        for x in [place.x(flag.at - 0.5)]
    ]
    return found


def _lane(points: Sequence[ChartPoint]) -> Markup:
    """Draw a cell for each run at the bottom; neighbours of the same status are one."""
    step, top = _UNITS / len(points), HEIGHT - _TOP - _BOTTOM + 4
    cells: list[Markup] = []
    start = 0
    for at in range(1, len(points) + 1):
        if at == len(points) or _kind(points[at]) != _kind(points[start]):
            kind = _kind(points[start])
            cells.append(
                element("rect", x=start * step, y=top, width=(at - start) * step, height=_LANE, class_=kind)
            )
            start = at
    return element("g", cells)


def _kind(point: ChartPoint) -> str:
    if point.status == GAP:
        return "gap"
    return "lane" if point.is_good else "lane fail" if point.status else "lane absent"


def _dates(points: Sequence[ChartPoint]) -> list[Markup]:
    count = min(_MOST_DATES, len(points))
    places = sorted({at * (len(points) - 1) // max(1, count - 1) for at in range(count)})
    found = []
    for at in places:
        anchor = "start" if at == 0 and len(points) > 1 else "end" if at == len(points) - 1 else "middle"
        x = 100 * (at + 0.5) / len(points)
        found.append(element("text", points[at].when[:10], x=f"{x:.2f}%", y=HEIGHT - 8, text_anchor=anchor))
    return found


def _ticks(chart: ChartView, low: float, high: float, body: int) -> list[Markup]:
    ticks, step = linear_ticks(low, high)
    texts = format_ticks(ticks, step, chart.unit)
    found: list[Markup] = []
    for tick, text in zip(ticks, texts, strict=True):
        y = _TOP + body * (1 - (tick - low) / (high - low))
        found.append(element("g", element("line", x1="0", x2="100%", y1=y, y2=y), class_="axis"))
        found.append(element("text", text, x=2, y=y - 3))
    return found


def draw_spark(values: Sequence[float]) -> Markup:
    """Draw a few values as a small line without axes."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    step = 60 / max(1, len(values) - 1)
    places = (f"{at * step:.1f} {1 + 12 * (1 - (value - low) / span):.1f}" for at, value in enumerate(values))
    path = element("path", d=f"M{'L'.join(places)}")
    return element("svg", path, class_="spark", width=60, height=14, aria_hidden="true")
