"""Render where the time of a call went: bars by family, and tables of kernels and lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchstone.analyze.call_time.kernel_families import KernelFamily
from torchstone.analyze.call_time.time_comparison import FamilyTime, KernelChange, PlaceTime, TimePair
from torchstone.core.text.units import count_of, format_change, format_share
from torchstone.reporting.html.elements import NOTHING, Markup, element, join, long_text
from torchstone.reporting.svg.drawing import draw_pair, draw_stack
from torchstone.reporting.views.explaining.kernel_names import short_name
from torchstone.reporting.views.explaining.time_view import (
    NO_LINE,
    TimeExplanation,
    decimal,
    milliseconds,
    signed_decimal,
)

MOST_KERNELS = 60
MOST_PLACES = 60
_COLORS = {
    KernelFamily.PRODUCTS: "products",
    KernelFamily.CONVOLUTIONS: "products",
    KernelFamily.ATTENTION: "attention",
    KernelFamily.NORMALISATION: "normalisation",
    KernelFamily.SOFTMAX: "normalisation",
    KernelFamily.REDUCTIONS: "reductions",
    KernelFamily.POINTWISE: "pointwise",
    KernelFamily.INDEXING: "indexing",
    KernelFamily.COPIES: "copies",
    KernelFamily.COMMUNICATION: "communication",
}
_NUMBERS = frozenset({"ms", "change", "launches", "eager", "compiled", "base", "new", "share"})


def render_time(each: TimeExplanation) -> Markup:
    """Render one case, the most important first."""
    return join(
        element("p", each.headline),
        _hints(each),
        element("h3", f"By family, in ms of {each.what} a call"),
        _stacks(each),
        _family_table(each),
        _kernel_table(each),
        _place_table(each),
        [element("p", long_text(note, 600), class_="note") for note in each.notes],
    )


def _hints(each: TimeExplanation) -> Markup:
    if not each.hints:
        return NOTHING
    items = [
        element("li", long_text(f"{shown.text} (In base too.)" if shown.held_before else shown.text, 2_000))
        for shown in each.hints
    ]
    return element("ul", items, class_="hints")


def _stacks(each: TimeExplanation) -> Markup:
    """Draw one bar a side, as long as its time, in parts by family."""
    found = each.comparison
    longest = found.busy.size or 1.0
    sides = [(each.names[1], False)] if each.is_alone else [(each.names[0], True), (each.names[1], False)]
    families = sorted(
        found.families,
        key=lambda family: (list(KernelFamily).index(KernelFamily(family.family)), family.dtype),
    )
    rows = []
    for name, is_base in sides:
        whole = found.busy.base if is_base else found.busy.new
        parts = [
            (f"family-{_color(family)}", amount, f"{family.label}: {milliseconds(amount)}")
            for family in families
            if (amount := family.base if is_base else family.new)
        ]
        rows.append(
            element(
                "li",
                element("span", name),
                draw_stack(whole / longest, parts),
                element("span", milliseconds(whole), class_="value"),
            )
        )
    legend = {_color(family): family.family for family in families}
    return join(
        element("ul", rows, class_="plot bars-plot"),
        element(
            "ul",
            [
                element("li", element("i", class_=f"family-{color}"), _legend_of(color, families) or name)
                for color, name in legend.items()
            ],
            class_="legend",
        ),
    )


def _legend_of(color: str, families: Iterable[FamilyTime]) -> str:
    """Return the families of one color."""
    return ", ".join(dict.fromkeys(family.family for family in families if _color(family) == color))


def _color(family: FamilyTime) -> str:
    return _COLORS.get(KernelFamily(family.family), "other")


def _family_table(each: TimeExplanation) -> Markup:
    longest = max((family.size for family in each.comparison.families), default=0.0) or 1.0
    rows = [
        element(
            "tr",
            element("th", family.label, scope="row"),
            element("td", draw_pair(family.base / longest, family.new / longest), class_="picture"),
            _cells(each, family),
        )
        for family in each.comparison.families
    ]
    total = each.comparison.busy
    rows.append(element("tr", element("th", "total", scope="row"), element("td"), _cells(each, total)))
    return _table(f"By family of {each.label}", ["family", "", *_head(each)], rows)


def _kernel_table(each: TimeExplanation) -> Markup:
    what = "Operators" if each.on_cpu else "Kernels"
    shown = each.kernels[:MOST_KERNELS]
    head = [what[:-1].lower(), *_head(each), "family", "operator", "where"]
    rows = [element("tr", _kernel_cells(each, kernel)) for kernel in shown]
    return _folded(_title(what, each, len(shown), len(each.kernels)), head, rows)


def _kernel_cells(each: TimeExplanation, kernel: KernelChange) -> list[Markup]:
    return [
        element(
            "th", element("code", long_text(short_name(kernel.name), 160), title=kernel.name), scope="row"
        ),
        *_cells(each, kernel),
        element("td", f"{kernel.family} {kernel.dtype}".rstrip()),
        element("td", long_text(kernel.operator, 120)),
        element("td", long_text(", ".join(kernel.places[:4]), 200)),
    ]


def _place_table(each: TimeExplanation) -> Markup:
    shown = each.places[:MOST_PLACES]
    rows = [element("tr", _place_cells(each, place)) for place in shown]
    return _folded(
        _title("Modules and lines", each, len(shown), len(each.places)),
        ["module", "line", *_head(each), "source"],
        rows,
    )


def _place_cells(each: TimeExplanation, place: PlaceTime) -> list[Markup]:
    return [
        element("th", long_text(place.module, 120), scope="row"),
        element("td", element("code", long_text(place.place, 120)) if place.place else NO_LINE),
        *_cells(each, place),
        element("td", element("code", long_text(place.source, 200))),
    ]


def _head(each: TimeExplanation) -> list[str]:
    return ["ms", "share", "launches"] if each.is_alone else [*each.names, "change", "", "launches"]


def _cells(each: TimeExplanation, pair: TimePair) -> list[Markup]:
    if each.is_alone:
        whole = each.comparison.busy.new
        return [
            _number(decimal(pair.new)),
            _number(format_share(round(pair.new / whole, 3)) if whole else ""),
            _number(f"{pair.new_count:,}"),
        ]
    relative = "new" if not pair.base else "gone" if not pair.new else format_change(pair.new, pair.base)
    launches = (
        f"{pair.base_count:,} \u2192 {pair.new_count:,}"
        if pair.base_count != pair.new_count
        else f"{pair.new_count:,}"
    )
    return [
        _number(decimal(pair.base)),
        _number(decimal(pair.new)),
        _number(signed_decimal(pair.change)),
        _number(relative),
        _number(launches),
    ]


def _title(what: str, each: TimeExplanation, shown: int, known: int) -> str:
    how = "that take longest" if each.is_alone else "that differ most"
    return f"{what} {how}" + (f" ({shown:,} of {known:,})" if shown < known else "")


def _folded(name: str, head: Sequence[str], rows: Sequence[Markup]) -> Markup:
    if not rows:
        return NOTHING
    return element("details", element("summary", name), _table(name, head, rows), open=True)


def _table(name: str, head: Sequence[str], rows: Sequence[Markup]) -> Markup:
    """Render a table that scrolls if it is too wide."""
    cells = [element("th", text, scope="col", class_="number" if text in _NUMBERS else None) for text in head]
    table = element(
        "table", element("thead", element("tr", cells)), element("tbody", list(rows)), class_="changes"
    )
    return element("div", table, class_="scroll", role="region", aria_label=name, tabindex=0)


def _number(text: str) -> Markup:
    return element("td", text, class_="number")


def brief(each: TimeExplanation) -> str:
    """Return the totals in a few words, for a folded part."""
    busy = each.comparison.busy
    if each.is_alone:
        return milliseconds(busy.new)
    return f"{each.names[0]} {milliseconds(busy.base)}, {each.names[1]} {milliseconds(busy.new)}"


def render_times(cases: Sequence[TimeExplanation]) -> Markup:
    """Render a folded part per case, the first one open; a single case is not folded."""
    if len(cases) == 1:
        return render_time(cases[0])
    return join(
        element(
            "details",
            element("summary", element("b", each.label), " ", element("span", brief(each))),
            render_time(each),
            class_="explained",
            open=number == 0,
        )
        for number, each in enumerate(cases)
    )


def render_time_section(cases: Sequence[TimeExplanation]) -> Markup:
    """Render the section of the report."""
    if not cases:
        return NOTHING
    title = element("h2", f"Where time went: {count_of(len(cases), 'case')}", id="times")
    return element("section", title, render_times(cases))
