"""Draw lines over ranks as SVG: one per strategy, baselines dashed, the ideal dotted.

Both axes may be logarithmic, so that doubling the ranks is the same distance everywhere, and ideal scaling is
a straight line. Each line has a color and a shape of marks, so that lines can be distinguished without colors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import ceil

from msgspec import Struct

from torchstone.core.text.units import short_number
from torchstone.reporting.html.elements import NOTHING, Markup, element
from torchstone.reporting.svg.drawing import Scale, choose_ticks

HEIGHT = 190
KINDS = 6  # colors in the style sheet
_TOP, _BOTTOM = 6, 22  # pixels above and below the lines
_SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-4.8L4.6 3.4H-4.6z",
    "M0-5L5 0L0 5L-5 0z",
    "M0 4.8L4.6-3.4H-4.6z",
    "M-5-1.5h3.5V-5h3v3.5H5v3H1.5V5h-3V1.5H-5z",
)
_FAILED = "M-3.5-3.5l7 7m0-7l-7 7"
_CLOSEST = 7.0  # percent between two axis labels


class Mark(Struct, frozen=True):
    """A point of a line with its tooltip; without a ``height``, a cross is drawn at the bottom."""

    ranks: int
    height: float | None
    tooltip: str


class ChartLine(Struct, frozen=True):
    """Marks from left to right; ``kind`` numbers color and shape, ``base`` the baseline (0 for none)."""

    kind: int
    marks: tuple[Mark, ...]
    base: int = 0


def rank_scale(counts: Sequence[int]) -> Scale:
    """Return a scale of rank counts; each is marked, unless it is too close to the previous one."""
    scale = Scale(float(min(counts)), float(max(counts)), True, ())
    ticks: list[float] = []
    for count in sorted(set(counts)):
        if not ticks or scale.at(count) - scale.at(ticks[-1]) >= _CLOSEST:
            ticks.append(float(count))
    return Scale(scale.low, scale.high, True, tuple(ticks))


def rate_scale(rates: Sequence[float]) -> Scale:
    """Return a logarithmic scale for all rates, spanning at least a factor of two."""
    low, high = min(rates) / 1.1, max(rates) * 1.1
    if high / low < 2:
        low, high = low / 1.5, high * 1.5
    return Scale(low, high, True, tuple(choose_ticks(low, high)))


def share_scale(percents: Sequence[float]) -> Scale:
    """Return a scale from 0 to 100 percent, or further if needed."""
    high = max([100.0, *percents]) * 1.06
    step = next(step for step in _share_steps() if high / step <= 6)
    return Scale(0.0, high, False, tuple(step * number for number in range(ceil(high / step))))


def _share_steps() -> Iterator[float]:
    step = 25.0
    while True:
        yield step
        step *= 2


def format_tick(value: float) -> str:
    """Format a rate on the axis."""
    return short_number(round(value, 6))


def format_percent_tick(value: float) -> str:
    """Format a percentage on the axis."""
    return f"{short_number(value)}%"


def draw_lines(
    across: Scale,
    up: Scale,
    lines: Sequence[ChartLine],
    ideal: tuple[float, float] | None,
    write: Callable[[float], str],
) -> Markup:
    """Draw the chart. ``ideal`` are the heights of the ideal line at its ends; ``write`` formats the axis."""
    parts = [_grid(across, up, write)]
    if ideal:
        ends = ((across.low, ideal[0]), (across.high, ideal[1]))
        parts.append(_segment(across, up, *ends, "ideal"))
    ordered = sorted(lines, key=lambda line: -line.base)  # the current run is on top
    parts += [element("g", _draw_line(across, up, line), class_=class_of(line)) for line in ordered]
    return element("svg", parts, class_="lines", width="100%", height=HEIGHT, aria_hidden="true")


def class_of(line: ChartLine) -> str:
    """Return the classes for a line's color and dashes."""
    return f"line{line.kind % KINDS}" + (f" base base{min(line.base, 2)}" if line.base else "")


def draw_sample(line: ChartLine, kind: str = "") -> Markup:
    """Draw a short piece of a line, for the legend."""
    piece = element("line", x1=0, x2=26, y1=6, y2=6, class_=kind or None)
    mark = NOTHING if kind else element("svg", _shape(line.kind), x=13, y=6)
    return element("svg", piece, mark, class_=f"sample {class_of(line)}", aria_hidden="true")


def _grid(across: Scale, up: Scale, write: Callable[[float], str]) -> Markup:
    drawn = []
    for tick in up.ticks:
        y = _y(up, tick)
        drawn.append(element("line", x1="0", x2="100%", y1=y, y2=y))
        drawn.append(element("text", write(tick), x=-6, y=y + 4, text_anchor="end"))
    for tick in across.ticks:
        x = f"{across.at(tick):.2f}%"
        drawn.append(element("text", f"{tick:,.0f}", x=x, y=HEIGHT - 5, text_anchor="middle"))
    return element("g", drawn, class_="grid")


def _draw_line(across: Scale, up: Scale, line: ChartLine) -> list[Markup]:
    drawn = [
        _segment(across, up, (before.ranks, before.height), (after.ranks, after.height))
        for before, after in pairwise(line.marks)
        if before.height is not None and after.height is not None
    ]
    for mark in line.marks:
        failed = mark.height is None
        y = _y(up, up.low) if mark.height is None else _y(up, mark.height)
        shape = element("path", d=_FAILED, class_="failed") if failed else _shape(line.kind)
        title = element("title", mark.tooltip)
        drawn.append(element("svg", title, shape, x=f"{across.at(mark.ranks):.2f}%", y=y))
    return drawn


def _shape(kind: int) -> Markup:
    return element("path", d=_SHAPES[kind % len(_SHAPES)])


def _segment(
    across: Scale, up: Scale, start: tuple[float, float], end: tuple[float, float], kind: str | None = None
) -> Markup:
    return element(
        "line",
        x1=f"{across.at(start[0]):.2f}%",
        x2=f"{across.at(end[0]):.2f}%",
        y1=_y(up, start[1]),
        y2=_y(up, end[1]),
        class_=kind,
    )


def _y(up: Scale, value: float) -> float:
    """Return pixels from the top."""
    return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - up.at(value) / 100)
