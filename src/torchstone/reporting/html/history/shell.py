"""Render what all pages of the dashboard share: head, navigation, filter bar, footer."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from torchstone import __version__
from torchstone.core.text.units import count_of
from torchstone.reporting.html.elements import NOTHING, Child, Markup, element, join
from torchstone.reporting.html.history.page_links import PageLinks
from torchstone.reporting.views.history.page_filters import FilterBar, FilterField

PAGES = {
    "": "Health",
    "changes": "Changes",
    "cases": "Cases",
    "compare": "Compare",
    "runs": "Runs",
    "machines": "Machines",
}
"""The pages of the navigation: address and name."""
STYLES = ("page.css", "dashboard.css")
SCRIPTS = ("dashboard.js",)
CHART_STYLES = ("uplot.css",)
CHART_SCRIPTS = ("uplot.js", "chart.js")
_LONGEST_TITLE = 120


class ShellPage(Struct, frozen=True):
    """A page to put into the shell: where it is, its title, and what is special about it."""

    path: str
    title: str
    links: PageLinks
    bar: FilterBar | None = None
    has_chart: bool = False
    json_query: str = ""
    heading: str = ""


def render_shell(page: ShellPage, *content: Child) -> str:
    """Render a page of the dashboard."""
    body = element(
        "body",
        element("a", "Skip to the content", href="#main", class_="skip-link"),
        element("header", render_navigation(page.path, page.links)),
        element(
            "main",
            element("h1", page.heading or page.title),
            _filter_bar(page) if page.bar else None,
            *content,
            id="main",
        ),
        _footer(page),
    )
    return f'<!doctype html>\n<html lang="en">\n{_head(page)}\n{body}\n</html>\n'


def _head(page: ShellPage) -> Markup:
    links = page.links
    styles = (*STYLES, *(CHART_STYLES if page.has_chart else ()))
    scripts = (*(CHART_SCRIPTS if page.has_chart else ()), *SCRIPTS)
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="same-origin"),
        element("meta", name="generator", content=f"torchstone {__version__}"),
        element("title", f"{page.title[:_LONGEST_TITLE]} - torchstone"),
        element("link", rel="icon", href=links.asset("icon.svg")),
        [element("link", rel="stylesheet", href=links.asset(name)) for name in styles],
        [element("script", src=links.asset(name), defer=True) for name in scripts],
    )


def render_navigation(path: str, links: PageLinks) -> Markup:
    """Render the navigation: all pages, and which one this is."""
    here = path.partition("/")[0]
    current = {"case": "cases", "run": "runs", "change": "changes"}.get(here, here)
    items = [
        element("a", name, href=links.to(address), aria_current="page" if address == current else None)
        for address, name in PAGES.items()
    ]
    return element("nav", element("span", "torchstone", class_="brand"), items, aria_label="Pages")


def _filter_bar(page: ShellPage) -> Markup:
    bar = page.bar
    if bar is None:
        return NOTHING
    problems = [element("p", text, class_="alert", role="alert") for text in bar.problems]
    if page.links.is_static and not bar.total:
        return join(*problems)
    if page.links.is_static:
        find = element("input", type="search", placeholder="text in the rows shown", data_find=True)
        fields: Child = [element("label", "find ", find)]
        return join(problems, element("div", fields, _counted(bar), class_="filter-bar"))
    if not bar.fields:
        return join(element("p", _counted(bar)), problems)
    given = any(field.value for field in bar.fields if field.name != "branch")
    hidden = [element("input", type="hidden", name=name, value=value) for name, value in bar.hidden if value]
    form = element(
        "form",
        [_field(field) for field in bar.fields],
        hidden,
        element("button", "Apply", type="submit"),
        element("a", "Clear", href=page.links.to(page.path)) if given else None,
        _counted(bar),
        method="get",
        role="search",
        aria_label="Filters",
        class_="filter-bar",
    )
    return join(form, problems)


def _counted(bar: FilterBar) -> Markup:
    some = f"{bar.matching:,} of " if bar.matching != bar.total else ""
    return element("span", f"{some}{count_of(bar.total, bar.noun)}", class_="quiet counted", role="status")


def _field(field: FilterField) -> Markup:
    if field.is_free:
        found = element("input", type="search", name=field.name, value=field.value, placeholder=field.hint)
        return element("label", f"{field.label} ", found)
    known = [option.value for option in field.options]
    own = (
        []
        if field.value in {*known, ""}
        else [element("option", field.value, value=field.value, selected=True)]
    )
    every = [] if field.name == "branch" else [element("option", "any", value="")]
    options = [
        element(
            "option",
            ("all" if option.value == "*" else option.value)
            + (f" ({option.count:,})" if option.count else ""),
            value=option.value,
            selected=option.value == field.value,
        )
        for option in field.options
    ]
    return element("label", f"{field.label} ", element("select", every, own, options, name=field.name))


def _footer(page: ShellPage) -> Markup:
    links = page.links
    path = page.path or "health"
    address = f"{'../' * links.depth}{path}.json"
    if page.json_query and not links.is_static:
        address += f"?{page.json_query}"
    has_data = path.partition("/")[0] in {"health", "case", "change", *PAGES} and not (
        links.is_static and (not page.bar or "/" in path)
    )
    data = element("a", "This page as JSON", href=address, rel="alternate") if has_data else None
    return element("footer", f"torchstone {__version__}. ", data)


def render_pages(path: str, links: PageLinks, page: int, pages: int, query: str) -> Markup:
    """Render links to the other parts of a long table. ``query`` has no page."""
    if pages <= 1:
        return NOTHING

    def link(text: str, number: int) -> Markup:
        if links.is_static:
            return element("a", text, href=links.to(f"{path}-{number}" if number > 1 else path))
        parts = "&".join(filter(None, (query, f"page={number}" if number > 1 else "")))
        return element("a", text, href=links.to(path, parts), rel="prev" if number < page else "next")

    before = link("Previous", page - 1) if page > 1 else None
    after = link("Next", page + 1) if page < pages else None
    return element("p", before, f" Page {page:,} of {pages:,} ", after, class_="pages")


def render_table_of(
    header: Sequence[str], rows: Sequence[Markup], label: str, kind: str = "", numbers: Collection[str] = ()
) -> Markup:
    """Render a table that scrolls on a narrow screen, and whose rows the keys can walk. ``numbers`` are the headers of columns of numbers."""
    cells = [
        element("th", each, scope="col", class_="number" if each in numbers else None) for each in header
    ]
    head = element("tr", cells)
    table = element(
        "table",
        element("thead", head),
        element("tbody", rows),
        class_=f"rows {kind}".strip(),
        aria_label=label,
    )
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def render_time(when: str) -> Markup:
    """Render a moment, which the script completes with how long ago it was."""
    text = when.replace("T", " ").removesuffix("Z")[:16] if when else "unknown"
    return element("time", text, datetime=when) if when else element("span", text)


def short_revision(revision: str) -> str:
    """Return a revision as people write it: twelve digits of a commit, a label whole unless it is very long."""
    is_commit = len(revision) >= 40 and all(each in "0123456789abcdef" for each in revision[:40])
    return revision[:12] + ("-dirty" if "-dirty" in revision else "") if is_commit else revision[:60]


def short_name(name: str, most: int = 100) -> str:
    """Return a name that is not too long for a table: its middle is left out."""
    return name if len(name) <= most else f"{name[: most * 2 // 3]}…{name[-most // 3 :]}"
