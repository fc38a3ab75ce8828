"""Render what caused the changes between two run files, as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.text.units import count_of
from torchstone.reporting.html.elements import NOTHING, Markup, element, long_text
from torchstone.reporting.html.page import FLAME, render_document
from torchstone.reporting.html.profile_section import Explained, render_cases

MOST_DIFFERENCES = 30


def render_explained_page(
    base: str, new: str, cases: Sequence[Explained], differences: Sequence[str], notes: Sequence[str] = ()
) -> str:
    """Render the page. ``differences`` are those of the environments, ``notes`` further remarks."""
    title = cases[0].label if len(cases) == 1 else count_of(len(cases), "case")
    header = element(
        "header",
        element("p", "torchstone explain", class_="brand"),
        element("h1", f"Causes of the change in {title}"),
        element("ul", render_identity("base", base), render_identity("new", new), class_="identity"),
    )
    main = element(
        "main",
        render_differences(differences),
        [element("div", long_text(note, 1_000), class_="alert") for note in notes],
        render_cases(cases, linked=False),
        id="main",
    )
    return render_document(f"{title} - torchstone explain", (header, main), FLAME)


def render_identity(name: str, text: str) -> Markup:
    """Render one fact of the header."""
    return element("li", element("span", f"{name} ", class_="quiet"), text)


def render_differences(differences: Sequence[str]) -> Markup:
    """Render how the environments differ, if they do."""
    if not differences:
        return NOTHING
    items = [element("li", long_text(text, 400)) for text in differences[:MOST_DIFFERENCES]]
    left = len(differences) - len(items)
    return element(
        "div",
        element("strong", "The environments differ, which may be the cause:"),
        element("ul", items),
        element("p", f"{left:,} more differences are not shown.") if left else None,
        class_="alert",
    )
