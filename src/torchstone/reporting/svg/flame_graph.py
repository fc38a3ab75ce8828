"""Draw flame graphs as SVG: callers above callees, each frame as wide as its cost.

In a differential graph the color shows the change. Positions are in percent, so that a graph fills its width.
It is hidden from screen readers: a table beside it has the same numbers. The script adds zooming.
"""

from __future__ import annotations

from zlib import crc32

from msgspec import Struct

from torchstone.analyze.attribution import Frame
from torchstone.core.records import Number
from torchstone.core.text.units import format_change
from torchstone.reporting.html.elements import NOTHING, Markup, element, join

MOST_FRAMES = 3_000
SMALLEST = 0.001  # the minimum share of a separate frame
_STRIPE = 0.003  # maximum width of removed frames
HEIGHT = 18
_TOO_NARROW_FOR_TEXT = 1.5  # percent; the script adapts it to the page width
_SAME = 0.001
_STEPS = (0.01, 0.05, 0.25)
_LEGEND = (
    ("l4", "25% less, or gone"),
    ("l3", "5%"),
    ("l2", "1%"),
    ("l1", "less"),
    ("s", "same"),
    ("m1", "more"),
    ("m2", "1%"),
    ("m3", "5%"),
    ("m4", "25% more, or new"),
)
_HOW = "Hover over a frame to see its cost. Click it to zoom in."
_KEYS = "Arrow keys move between frames, Enter zooms in, Escape zooms out. The tables have the same numbers."


class Box(Struct, frozen=True):
    """A frame with its position: ``left`` and ``width`` in percent."""

    depth: int
    left: float
    width: float
    name: str
    base: Number
    new: Number


class _DrawnFrame(Struct):
    """A frame to draw: the index of its parent, its width, and how much its children are scaled down."""

    frame: Frame
    depth: int
    above: int
    width: float = 0.0
    left: float = 0.0
    shrinks: float = 1.0

    @property
    def is_gone(self) -> bool:
        return not self.frame.new


def lay_out(root: Frame, most: int = MOST_FRAMES) -> list[Box]:
    """Return the frames to draw, parents first.

    Widths are costs in the new run. A removed frame is a thin stripe with the old proportions inside. Frames
    too small to see are merged; more of them if there are too many.
    """
    smallest = SMALLEST * root.size
    kept = _keep(root, smallest)
    while len(kept) > most:
        smallest *= 1.5
        kept = _keep(root, smallest)
    _weigh(kept, stripe=_STRIPE * root.size)
    whole = kept[0].width
    if not whole:
        return []
    filled = [0.0] * len(kept)
    boxes = []
    for number, each in enumerate(kept):
        if number:
            above = kept[each.above]
            each.width *= above.shrinks
            each.shrinks *= above.shrinks
            each.left = above.left + filled[each.above]
            filled[each.above] += each.width
        frame = each.frame
        left, width = 100 * each.left / whole, 100 * each.width / whole
        boxes.append(Box(each.depth, left, width, frame.name, frame.base, frame.new))
    return boxes


def _keep(root: Frame, smallest: float) -> list[_DrawnFrame]:
    """Return the frames that are large enough; small siblings are merged into one, if that is large enough."""
    kept: list[_DrawnFrame] = []
    waiting = [_DrawnFrame(root, 0, 0)]
    while waiting:
        each = waiting.pop()
        kept.append(each)
        above, below = len(kept) - 1, each.frame.below.values()
        large = [frame for frame in below if frame.size >= smallest]
        small = [frame for frame in below if frame.size < smallest and frame.size]
        if small:
            base, new = sum(frame.base for frame in small), sum(frame.new for frame in small)
            together = Frame(small[0].name if len(small) == 1 else f"({len(small):,} smaller)", base, new)
            large += [together] if together.size >= smallest else []
        waiting += [_DrawnFrame(frame, each.depth + 1, above) for frame in reversed(large)]
    return kept


def _weigh(kept: list[_DrawnFrame], stripe: float) -> None:
    """Set the widths: by new cost, but keep removed frames visible, and children inside their parents."""
    costs, parts = [0.0] * len(kept), [0.0] * len(kept)  # of the direct children of each
    for number in range(len(kept) - 1, -1, -1):
        each = kept[number]
        base, new = float(each.frame.base), float(each.frame.new)
        if each.is_gone:
            each.width = base
            if number and not kept[each.above].is_gone:
                each.width = min(stripe, base)
                each.shrinks = each.width / base
        else:
            each.width = max(min(stripe, base), parts[number] + max(0.0, new - costs[number]))
        if number:
            costs[each.above] += new
            parts[each.above] += each.width


def shade_of(base: Number, new: Number) -> str:
    """Return the class that colors a change: ``m1`` to ``m4`` for more, ``l1`` to ``l4`` for less, ``s`` for the same."""
    if base == new:
        return "s"
    relative = abs(new - base) / base if base else 1.0
    if relative < _SAME:
        return "s"
    return f"{'m' if new > base else 'l'}{1 + sum(relative >= step for step in _STEPS)}"


def draw_flame(root: Frame, unit: str, name: str, *, plain: bool, most: int = MOST_FRAMES) -> Markup:
    """Draw a graph with its controls; in a ``plain`` one there is no change, and colors have no meaning."""
    boxes = lay_out(root, most)
    if not boxes:
        return NOTHING
    deepest = max(box.depth for box in boxes)
    frames = element(
        "svg",
        [_frame(box, plain=plain) for box in boxes],
        width="100%",
        height=HEIGHT * (deepest + 1),
        aria_hidden="true",
    )
    find = element("label", "Find ", element("input", type="search", placeholder="name \u2026"))
    reset = element("button", "Show all", type="button", disabled=True)
    return element(
        "div",
        _legend() if not plain else None,
        element("div", find, reset, class_="tools"),
        element("p", _HOW, class_="frame-status quiet", role="status"),
        element("div", frames, class_="frames", tabindex=0, role="group", aria_label=f"{name}. {_KEYS}"),
        class_="flame",
        data_unit=unit,
        data_plain=plain,
    )


def _frame(box: Box, *, plain: bool) -> Markup:
    shade = f"p{crc32(box.name.encode('utf-8', 'replace')) % 3}" if plain else shade_of(box.base, box.new)
    tiny = " tiny" if box.width < _TOO_NARROW_FOR_TEXT else ""
    return element(
        "svg",
        element("rect"),
        element("text", box.name, _change(box) if not plain else None, x=4, y=13),
        x=_percent(box.left),
        y=HEIGHT * box.depth,
        width=_percent(box.width),
        height=HEIGHT - 1,
        class_=shade + tiny,
        data_base=None if plain else exact(box.base),
        data_new=exact(box.new),
    )


def _change(box: Box) -> Markup:
    """Render the change in words, for readers who cannot see colors."""
    if shade_of(box.base, box.new) == "s":
        return NOTHING
    text = "new" if not box.base else "gone" if not box.new else format_change(box.new, box.base)
    return element("tspan", f" {text}")


def _percent(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".") + "%"


def exact(value: Number) -> str:
    """Format a number for the script, with all its digits."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def _legend() -> Markup:
    items = [element("li", element("i", class_=shade), text) for shade, text in _LEGEND]
    return element("ul", items, class_="legend shades") if items else NOTHING


def draw_shade(base: Number, new: Number) -> Markup:
    """Draw the color of a change, beside its number."""
    return join(element("i", class_=f"shade {shade_of(base, new)}", aria_hidden="true"))
