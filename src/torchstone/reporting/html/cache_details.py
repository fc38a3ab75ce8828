"""Render the details of a compile_cache row: numbers by scenario, and why caches missed."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.records import Measurement
from torchstone.core.text.units import format_number, format_value
from torchstone.core.vocabulary import METRICS
from torchstone.reporting.html.elements import NOTHING, Markup, element, join, long_text
from torchstone.reporting.views.caches import Reason, graphs_text, split_metric
from torchstone.reporting.views.case_row import interval_of, short_unit

_QUANTITIES = list(dict.fromkeys(split[1] for metric in METRICS if (split := split_metric(metric))))


def render_matrix(measurements: Sequence[Measurement], expected: dict[str, str]) -> Markup:
    """Render one line per quantity, one column per scenario; ``expected`` is the baseline by metric."""
    cells = {split: m for m in measurements if (split := split_metric(m.metric))}
    scenarios = list(dict.fromkeys(scenario for scenario, _ in cells))
    measured = {quantity for _, quantity in cells}
    head = element("tr", [element("th", name, scope="col") for name in ("metric", *scenarios)])
    body = [
        element(
            "tr",
            element("th", quantity, scope="row"),
            [element("td", _cell(cells.get((scenario, quantity)), expected)) for scenario in scenarios],
        )
        for quantity in _QUANTITIES
        if quantity in measured
    ]
    table = element("table", element("thead", head), element("tbody", body), class_="matrix")
    return element("div", table, class_="scroll") if body else NOTHING


def _cell(measurement: Measurement | None, expected: dict[str, str]) -> Markup:
    if measurement is None:
        return NOTHING
    metric, samples = measurement.metric, measurement.samples
    ends = interval_of(measurement) or (min(samples), max(samples))
    notes = [" to ".join(map(format_number, ends))] if ends[0] < ends[1] else []
    shown = format_value(measurement.value, short_unit(metric))
    if expected.get(metric, shown) != shown:
        notes.append(f"expected {expected[metric]}")
    return join(shown, [element("small", note) for note in notes])


def render_reasons(reasons: Sequence[Reason]) -> Markup:
    """Render why caches missed for this case, graph by graph."""
    if not reasons:
        return NOTHING
    items = [element("li", _reason(reason)) for reason in reasons]
    return join(element("h3", "Reasons for cache misses"), element("ul", items, class_="breaks"))


def _reason(reason: Reason) -> Markup:
    repeats = f", repeats {', '.join(reason.repeats)}" if len(reason.repeats) > 1 else ""
    where = f"{reason_head(reason)}, {graphs_text(reason.graphs)}{repeats}"
    return join(
        element("p", long_text(where, 600), class_="quiet"),
        element("p", long_text(reason.text, 2_000), class_="found"),
    )


def reason_head(reason: Reason) -> str:
    """Return which cache of which scenario a reason is about."""
    return f"{reason.scenario}: {reason.cache} {reason.state}"
