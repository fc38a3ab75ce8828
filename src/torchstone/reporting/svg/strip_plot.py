"""Draw the trials of two sides on one axis, with the margin around the base and the interval of the effect."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10, sqrt

from msgspec import Struct

from torchstone.core.text.units import format_value, short_number
from torchstone.reporting.html.elements import NOTHING, Markup, element
from torchstone.reporting.svg.drawing import Scale, choose_ticks, draw_interval, pick_points, write_ticks

MOST_POINTS = 60
_MOST_TICKS = 4  # with their units they fit side by side on a phone
_BASE, _NEW, _EFFECT = 9, 23, 37  # heights of the three lanes
_LANES, _HEIGHT = 44, 60
_LOG_FROM = 8.0  # a range that spans more than this factor is drawn logarithmically
_STEPS = (1.0, 2.0, 2.5, 5.0)
_SHORTEST = 1e-6  # the shortest axis, relative to its values: what is closer together is drawn as one
SMALLEST, LARGEST = 1e-150, 1e150
"""The range of numbers that can be drawn."""
_LEAST_FACTOR = 1.1


class TrialStrip(Struct, frozen=True):
    """Trials of base and new in the unit of the metric, and the effect projected onto the same axis.

    ``middle`` is the summary of the base; ``band`` are the edges of the margin around it. ``effect`` is the base times the ratio, and ``interval``
    the base times its limits: None if they are unknown.
    """

    base: tuple[float, ...]
    new: tuple[float, ...]
    middle: float
    unit: str = ""
    band: tuple[float, float] | None = None
    effect: float | None = None
    interval: tuple[float, float] | None = None


def draw_strip(strip: TrialStrip, kind: str) -> Markup:
    """Draw the strip; ``kind`` sets the color of the new side."""
    scale, texts = strip_axis(strip)
    parts = [
        _band(scale, strip.band) if strip.band else NOTHING,
        _grid(scale),
        _line(scale, strip.middle, "one"),
        _trials(scale, strip.base, _BASE, "base-trials"),
        _trials(scale, strip.new, _NEW, "new-trials"),
        *_effect(scale, strip),
        *write_ticks(scale, texts, _HEIGHT - 4),
    ]
    return element("svg", parts, class_=f"strips {kind}", width="100%", height=_HEIGHT, aria_hidden="true")


def strip_axis(strip: TrialStrip) -> tuple[Scale, list[str]]:
    """Return a scale that ends where the data ends, and the text of its ticks.

    An interval may be many times as wide as the trials are apart; it is cut off before it would flatten them.
    """
    shown = [*strip.base, *strip.new, *(strip.band or ())]
    least_shown, most_shown = _reach(min(shown), max(shown))
    effect = [each for each in (strip.effect, *(strip.interval or ())) if each is not None]
    shown += [min(max(each, least_shown), most_shown) for each in effect]
    low, high = min(shown), max(shown)
    least = _SHORTEST * max(abs(low), abs(high), SMALLEST)
    if high - low < least:
        low, high = low - least, high + least
    if low > 0 and high / low > _LOG_FROM:
        ticks = choose_ticks(low, high, _MOST_TICKS)
        return Scale(low, high, True, tuple(ticks)), [format_value(tick, strip.unit) for tick in ticks]
    is_counted = not strip.unit and all(float(each).is_integer() for each in (*strip.base, *strip.new))
    ticks, step = linear_ticks(low, high, only_whole=is_counted and high - low >= 1)
    return Scale(low, high, False, tuple(ticks)), format_ticks(ticks, step, strip.unit)


def _reach(low: float, high: float) -> tuple[float, float]:
    """Return how far beyond the data an axis may reach: half as far again on each side, as a factor if all values are positive."""
    if low > 0:
        factor = max(sqrt(high) / sqrt(low), _LEAST_FACTOR)
        return low / factor, high * factor
    return low - (high - low) / 2, high + (high - low) / 2


def linear_ticks(low: float, high: float, *, only_whole: bool = False) -> tuple[list[float], float]:
    """Return round numbers within a range, at most four, and the step between them."""
    exponent = floor(log10(high - low)) - 1
    for power in range(exponent, exponent + 3):
        for factor in _STEPS:
            step = factor * 10.0**power
            first, last = ceil(low / step), floor(high / step)
            if last - first < _MOST_TICKS and (step.is_integer() or not only_whole):
                return [number * step for number in range(first, last + 1)], step
    return [], high - low


def format_ticks(ticks: Sequence[float], step: float, unit: str) -> list[str]:
    """Format ticks with as many decimals as their step needs, so that no two read alike.

    >>> format_ticks([100.25, 100.5], 0.25, "ms"), format_ticks([1e6, 2e6], 1e6, "")
    (['100.25 ms', '100.50 ms'], ['1M', '2M'])
    """
    digits = next((n for n in range(12) if abs(round(step, n) - step) <= step * 1e-6), 12)
    if digits or max(map(abs, ticks), default=0.0) < 10_000:
        suffix = format_value(1, unit)[1:]
        return [f"{tick:,.{digits}f}{suffix}" for tick in ticks]
    return [f"{short_number(tick)}{format_value(1, unit)[1:]}" for tick in ticks]


def _band(scale: Scale, band: tuple[float, float]) -> Markup:
    low, high = map(scale.at, band)
    return element("rect", x=f"{low:.2f}%", width=f"{high - low:.2f}%", y=0, height=_LANES, class_="band")


def _line(scale: Scale, value: float, kind: str | None = None) -> Markup:
    x = f"{scale.at(value):.2f}%"
    return element("line", x1=x, x2=x, y1=0, y2=_LANES, class_=kind)


def _grid(scale: Scale) -> Markup:
    return element("g", [_line(scale, tick) for tick in scale.ticks])


def _trials(scale: Scale, values: Sequence[float], y: int, kind: str) -> Markup:
    dots = [
        element("circle", cx=f"{scale.at(values[at]):.2f}%", cy=y, r=3.5)
        for at in pick_points(values, MOST_POINTS)
    ]
    return element("g", dots, class_=kind)


def _effect(scale: Scale, strip: TrialStrip) -> list[Markup]:
    """Draw the effect with its interval; if known."""
    if strip.effect is None or not isfinite(strip.effect):
        return []
    parts = draw_interval(scale, strip.interval, _EFFECT) if strip.interval else []
    parts.append(element("circle", cx=f"{scale.at(strip.effect):.2f}%", cy=_EFFECT, r=4, class_="dot"))
    return parts
