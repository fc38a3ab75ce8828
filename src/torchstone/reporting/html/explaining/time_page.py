"""Render where the time of cases went, as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.text.units import count_of
from torchstone.reporting.html.elements import element, long_text
from torchstone.reporting.html.explain_page import render_differences, render_identity
from torchstone.reporting.html.explaining.time_section import render_times
from torchstone.reporting.html.page import FLAME, render_document
from torchstone.reporting.views.explaining.time_view import TimeExplanation

MOST_CASES = 40


def render_time_page(cases: Sequence[TimeExplanation], notes: Sequence[str] = ()) -> str:
    """Render the page."""
    first, shown = cases[0], cases[:MOST_CASES]
    title = first.label if len(cases) == 1 else count_of(len(cases), "case")
    names = ("base", "new") if len(first.files) == 2 else ("run",)
    header = element(
        "header",
        element("p", "torchstone explain", class_="brand"),
        element("h1", f"Where the time of {title} went"),
        element(
            "ul",
            [render_identity(name, file) for name, file in zip(names, first.files, strict=True)],
            render_identity("device", first.device),
            class_="identity",
        ),
    )
    left = len(cases) - len(shown)
    main = element(
        "main",
        render_differences(first.differences),
        [element("div", long_text(note, 1_000), class_="alert") for note in notes],
        render_times(shown),
        element("p", f"{left:,} more with smaller changes are not shown.", class_="quiet") if left else None,
        id="main",
    )
    return render_document(f"{title} - torchstone explain", (header, main), FLAME)
