"""Render a page that says what went wrong, and what there is instead."""

from __future__ import annotations

from msgspec import Struct

from torchstone.reporting.html.elements import element
from torchstone.reporting.html.history.page_links import PageLinks
from torchstone.reporting.html.history.shell import PAGES, ShellPage, render_shell


class TroublePage(Struct, frozen=True):
    """What went wrong in one line, details, and links to what there is instead: text and address."""

    problem: str
    details: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()


def render_trouble(page: TroublePage, links: PageLinks) -> str:
    """Render the page."""
    found = page.others or tuple((name, path) for path, name in PAGES.items())
    items = [element("li", element("a", text, href=links.to(path))) for text, path in found]
    return render_shell(
        ShellPage("trouble", page.problem, links),
        [element("p", text, class_="alert") for text in page.details],
        element("p", "There is:"),
        element("ul", items),
    )
