"""Draw small charts as SVG, colored by the page's style sheet.

Positions are in percent, so that a picture fills its width while text and dots keep their size. Pictures are
hidden from screen readers: the numbers are beside them as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil, floor, log, log10

from msgspec import Struct

from torchstone.core.text.units import format_number
from torchstone.reporting.html.elements import Markup, element

MOST_TICKS = 7
STRIP_WIDTH, STRIP_HEIGHT = 120, 24  # must match the style sheet
_CHARACTER = 2.1  # percent of the narrowest picture, on a phone, that a character of a label needs
_EDGE = 3.0  # percent of padding, so that a dot at the end is complete
_SERIES = ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7))
_STEPS = (0.5, 0.25, 0.2, 0.1, 0.05, 0.02, 0.01)


class Scale(Struct, frozen=True):
    """Map numbers to percent of a picture's width, with the numbers to mark."""

    low: float
    high: float
    is_log: bool
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Return the position of a number, clipped to the scale."""
        value = min(max(value, self.low), self.high)
        if self.is_log:
            share = (log(value) - log(self.low)) / (log(self.high) - log(self.low))
        else:
            share = (value - self.low) / (self.high - self.low)
        return _EDGE + (100 - 2 * _EDGE) * share


def ratio_scale(values: Iterable[float]) -> Scale:
    """Return a logarithmic scale that contains 1: half as fast is as far from 1 as twice as fast."""
    known = [value for value in values if value > 0]
    low, high = min([0.9, *known]) / 1.02, max([1.1, *known]) * 1.02
    return Scale(low, high, True, tuple(choose_ticks(low, high)))


def choose_ticks(low: float, high: float, most: int = MOST_TICKS) -> list[float]:
    """Choose the finest round numbers for a logarithmic scale that are not too many."""
    best: list[float] = []
    for ticks in _candidates(low, high, most):
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(best) <= len(inside) <= most:
            best = inside
    return best or [low]


def _candidates(low: float, high: float, most: int) -> Iterator[list[float]]:
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    every = ceil(len(decades) / most)
    yield [10.0**decade for decade in decades if decade % every == 0]
    for series in _SERIES:
        yield [factor * 10.0**decade for decade in decades for factor in series]
    for step in _STEPS:
        if (high - low) / step <= most + 1:
            yield [round(number * step, 4) for number in range(ceil(low / step), floor(high / step) + 1)]


def draw_axis(scale: Scale) -> Markup:
    """Draw the numbers of an axis."""
    return _svg("axis", 16, write_ticks(scale, [f"{format_number(tick)}x" for tick in scale.ticks], 12))


def write_ticks(scale: Scale, texts: Sequence[str], y: int) -> list[Markup]:
    """Write the ticks. A label at the edge is aligned with it, so that it is not cut; one that would touch the previous is left out."""
    labels, free = [], 0.0
    for tick, text in zip(scale.ticks, texts, strict=True):
        at, width = scale.at(tick), len(text) * _CHARACTER
        anchor = "start" if at < width / 2 else "end" if at > 100 - width / 2 else "middle"
        left = at - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        if left >= free:
            labels.append(element("text", text, x=f"{at:.2f}%", y=y, text_anchor=anchor))
            free = left + width + _CHARACTER
    return labels


def draw_dot(
    scale: Scale,
    value: float,
    interval: tuple[float, float] | None,
    old: float | None,
    *,
    unsure: bool = False,
) -> Markup:
    """Draw a dot with its interval, and a hollow mark for the baseline; an ``unsure`` value is hollow and dashed."""
    kind = f"{side_of(interval)} wide" if unsure else side_of(interval)
    return _svg(f"dots {kind}", 18, [_grid(scale), *_dot(scale, value, interval, old)])


def _dot(scale: Scale, value: float, interval: tuple[float, float] | None, old: float | None) -> list[Markup]:
    parts = draw_interval(scale, interval, 9) if interval else []
    if old:
        parts.append(element("circle", cx=f"{scale.at(old):.2f}%", cy=9, r=4, class_="old"))
    parts.append(element("circle", cx=f"{scale.at(value):.2f}%", cy=9, r=4, class_="dot"))
    return parts


def draw_interval(scale: Scale, interval: tuple[float, float], y: int) -> list[Markup]:
    """Draw an interval; an end beyond the scale is an arrow."""
    low, high = (f"{scale.at(end):.2f}%" for end in interval)
    parts = [element("line", x1=low, x2=high, y1=y, y2=y, class_="interval")]
    if interval[0] < scale.low:
        parts.append(element("svg", element("path", d="M6-4L0 0L6 4", class_="beyond"), x=low, y=y))
    if interval[1] > scale.high:
        parts.append(element("svg", element("path", d="M-6-4L0 0L-6 4", class_="beyond"), x=high, y=y))
    return parts


def side_of(interval: tuple[float, float] | None) -> str:
    """Return the side of 1 an interval lies on: up, down, even if it contains 1, plain if there is none."""
    if interval is None:
        return "plain"
    return "up" if interval[0] > 1 else "down" if interval[1] < 1 else "even"


def _grid(scale: Scale) -> Markup:
    lines = []
    for tick in scale.ticks:
        x = f"{scale.at(tick):.2f}%"
        lines.append(element("line", x1=x, x2=x, y1=-2, y2=20, class_="one" if tick == 1 else None))
    return element("g", lines)


def draw_bar(share: float, kind: str = "bar") -> Markup:
    """Draw a bar as long as its share of the longest."""
    return _svg("bars", 14, [_bar(share, 2, 10, kind)])


def draw_pair(first: float, second: float) -> Markup:
    """Draw two bars, before and after, one below the other."""
    return _svg("bars", 18, [_bar(first, 1, 7, "before"), _bar(second, 10, 7, "after")])


def _bar(share: float, y: int, height: int, kind: str) -> Markup:
    width = f"{100 * min(max(share, 0.0), 1.0):.2f}%"
    return element("rect", x=0, y=y, width=width, height=height, rx=1, class_=kind)


def draw_parts(parts: Iterable[tuple[str, float]], height: int = 10) -> Markup:
    """Draw a bar in parts, each with its class and share."""
    known = [(kind, amount) for kind, amount in parts if amount > 0]
    total = sum(amount for _, amount in known) or 1
    drawn, start = [], 0.0
    for kind, amount in known:
        width = 100 * amount / total
        drawn.append(element("rect", x=f"{start:.1f}%", width=f"{width:.1f}%", height="100%", class_=kind))
        start += width
    return _svg("parts", height, drawn)


def draw_stack(share: float, parts: Iterable[tuple[str, float, str]]) -> Markup:
    """Draw a bar in parts, as long as its share of the longest; each part has a class, an amount and a tooltip."""
    known = [(kind, amount, text) for kind, amount, text in parts if amount > 0]
    scale = 100 * min(max(share, 0.0), 1.0) / (sum(amount for _, amount, _ in known) or 1)
    drawn, start = [], 0.0
    for kind, amount, text in known:
        width = scale * amount
        bar = element("rect", x=f"{start:.2f}%", y=2, width=f"{width:.2f}%", height=12, class_=kind)
        drawn.append(element("g", element("title", text), bar))
        start += width
    return _svg("bars", 16, drawn)


def draw_samples(samples: Sequence[float], middle: float, points: int) -> Markup:
    """Draw samples in measured order, with a line at their summary value.

    A few outliers are drawn at the edge, so that the others can be distinguished.
    """
    low, high = _fences(samples)

    def y_of(sample: float) -> int:
        share = (min(max(sample, low), high) - low) / (high - low) if high > low else 0.5
        return round(STRIP_HEIGHT - 3 - (STRIP_HEIGHT - 6) * share)

    last = max(len(samples) - 1, 1)
    dots = "".join(
        f"M{round(3 + (STRIP_WIDTH - 6) * index / last)} {y_of(samples[index])}z"
        for index in pick_points(samples, points)
    )
    line = element("path", d=f"M0 {y_of(middle)}h{STRIP_WIDTH}", class_="middle")
    return element("svg", line, element("path", d=dots), class_="strip", aria_hidden="true")


def _fences(samples: Sequence[float]) -> tuple[float, float]:
    """Return the range to draw: without outliers beyond three times the interquartile range."""
    ordered = sorted(map(float, samples))
    first, third = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    width = 3 * (third - first)
    if width == 0:
        return ordered[0], ordered[-1]
    return max(ordered[0], first - width), min(ordered[-1], third + width)


def pick_points(samples: Sequence[float], points: int) -> list[int]:
    """Return the indices of at most ``points`` samples, evenly spread, always with minimum and maximum."""
    count = len(samples)
    if count <= points:
        return list(range(count))
    picked = {index * (count - 1) // (points - 3) for index in range(points - 2)}
    least = min(range(count), key=samples.__getitem__)
    return sorted(picked | {least, max(range(count), key=samples.__getitem__)})


def draw_curve(scale: Scale, marks: Sequence[tuple[float, tuple[float, float] | None]]) -> Markup:
    """Draw very many ratios in ascending order, each as a dot with its interval."""
    height = 220
    lines, labels = [], []
    for tick in scale.ticks:
        y = height * (1 - scale.at(tick) / 100)
        lines.append(element("line", x1="0", x2="100%", y1=y, y2=y, class_="one" if tick == 1 else None))
        labels.append(element("text", f"{format_number(tick)}x", x=2, y=y - 3))
    dots, intervals = [], []
    last = max(len(marks) - 1, 1)
    for index, (value, interval) in enumerate(marks):
        x = round(60 + 930 * index / last, 1)
        dots.append(f"M{x:g} {_height(scale, value)}z")
        if interval and interval[0] > 0:
            intervals.append(f"M{x:g} {_height(scale, interval[0])}V{_height(scale, interval[1])}")
    inner = element(
        "svg",
        element("path", d="".join(intervals), class_="interval"),
        element("path", d="".join(dots), class_="dot"),
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
        width="100%",
        height="100%",
    )
    return _svg("curve", height, [element("g", lines), inner, *labels])


def _height(scale: Scale, value: float) -> int:
    return round(1000 - 10 * scale.at(value))


def _svg(kind: str, height: int, parts: Sequence[Markup]) -> Markup:
    return element("svg", parts, class_=kind, width="100%", height=height, aria_hidden="true")
