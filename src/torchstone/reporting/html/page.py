"""Render the report as one self-contained HTML page that also works without its script.

The page may contain anything from a model, a traceback or a foreign file. So text becomes markup only through
``elements``, the script gets no data beyond the document, and a content security policy allows only this
style sheet and this script, by their hashes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files

from torchstone import __version__
from torchstone.reporting.html.cache_section import render_caches
from torchstone.reporting.html.case_table import render_rows, render_table
from torchstone.reporting.html.charts import render_charts
from torchstone.reporting.html.elements import NOTHING, Markup, element, join
from torchstone.reporting.html.explaining.time_section import render_time_section
from torchstone.reporting.html.profile_section import render_explained
from torchstone.reporting.html.scaling_section import render_scaling
from torchstone.reporting.html.sections import (
    render_alerts,
    render_breaks,
    render_environment,
    render_failures,
    render_glossary,
    render_summary,
)
from torchstone.reporting.views.comparison.page_headline import PLAIN, Headline
from torchstone.reporting.views.page_view import Page, keep_rows, title_of

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M2 12l4-5 3 3 5-7' fill='none' stroke='%23d4561f' stroke-width='2.4'/%3E%3C/svg%3E"
)


REPORT = ("page",)
FLAME = ("flame",)


def fit_page(page: Page) -> tuple[Page, list[Markup]]:
    """Return the page with as many table rows as fit, and these rows rendered."""
    lines = render_rows(page)
    return (page if len(lines) == len(page.shown) else keep_rows(page, len(lines))), lines


def render_page(page: Page, lines: Sequence[Markup] | None = None, above: Markup = NOTHING) -> str:
    """Render the page. ``lines`` are the table rows, if already rendered; ``above`` is put before its head."""
    if lines is None:
        page, lines = fit_page(page)
    body = (above, _header(page), element("main", _sections(page, lines), id="main"))
    return render_document(title_of(page), body, REPORT + FLAME if page.explained or page.times else REPORT)


def render_document(title: str, body: Sequence[Markup], scripts: Sequence[str]) -> str:
    """Render a document with a head that allows only these scripts to run."""
    return f'<!doctype html>\n<html lang="en">\n{_head(title, scripts)}\n{element("body", body, _footer())}\n</html>\n'


def _head(title: str, scripts: Sequence[str]) -> Markup:
    styles = dict.fromkeys(("page", *scripts))
    style = "".join(read_asset(f"{name}.css") for name in styles)
    script = "".join(read_asset(f"{name}.js") for name in scripts)
    policy = (
        f"default-src 'none'; style-src '{hash_of(style)}'; script-src '{hash_of(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"torchstone {__version__}"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("link", rel="icon", href=_ICON),
        element("style", Markup(style)),
        element("script", Markup(script)),
    )


@cache
def read_asset(name: str) -> str:
    """Return the text of a file that is part of the page."""
    return (files("torchstone.reporting.html") / name).read_text(encoding="utf-8")


def hash_of(text: str) -> str:
    """Return the hash that identifies a style sheet or script in a content security policy."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _header(page: Page) -> Markup:
    links = {
        "failures": ("Failures", page.failures or (page.gate and page.gate.worse)),
        "speedups": ("Speedups", page.summary.speedup or page.summary.unsound or page.summary.uncertain),
        "compile-time": ("Compile time", page.summary.compile_time),
        "compile-caches": ("Compile caches", page.caches),
        "scaling": ("Scaling", page.scaling),
        "times": ("Time by kernel", page.times),
        "explained": ("Profiles", page.explained),
        "cases": ("All cases" if len(page.shown) == len(page.rows) else "Cases", page.rows),
        "breaks": ("Graph breaks", page.breaks),
        "environment": ("Environment", page.sources),
        "words": ("Glossary", page.rows),
    }
    nav = [
        element("a", name, href=f"#{anchor}") for anchor, (name, has_content) in links.items() if has_content
    ]
    return element(
        "header",
        element("a", "Skip to the table of cases", href="#cases", class_="skip-link"),
        element("p", "torchstone report", class_="brand"),
        render_headline(Headline(page.headline, page.tone)),
        _identity(page),
        element("nav", nav, aria_label="Sections"),
    )


def render_headline(headline: Headline) -> Markup:
    """Render the result in one line: red if something fails."""
    return element("h1", headline.text, class_=f"tone {headline.tone}" if headline.tone != PLAIN else None)


def _identity(page: Page) -> Markup:
    """Render the run, its revision, and the axes that all cases share."""
    runs = list(dict.fromkeys(source.run for source in page.sources))
    facts = {"run": ", ".join(runs[:3]) + (f" and {len(runs) - 3:,} more" if len(runs) > 3 else "")}
    facts |= _revision(page.facts.common.get("revision"))
    facts |= page.shared
    items = [
        element("li", element("span", f"{name} ", class_="quiet"), text)
        for name, text in facts.items()
        if text
    ]
    return element("ul", items, class_="identity") if items else NOTHING


def _revision(revision: object) -> dict[str, str]:
    if not isinstance(revision, dict):
        return {}
    facts = {key: str(revision[key]) for key in ("commit", "branch", "label") if revision.get(key)}
    if "commit" in facts:
        facts["commit"] = facts["commit"][:12] + (
            " (with uncommitted changes)" if revision.get("dirty") else ""
        )
    return facts


def _sections(page: Page, lines: Sequence[Markup]) -> Markup:
    return join(
        render_alerts(page),
        render_summary(page),
        render_failures(page),
        render_charts(page),
        render_caches(page),
        render_scaling(page),
        render_time_section(page.times),
        render_explained(page.explained),
        render_table(page, lines),
        render_breaks(page),
        render_environment(page),
        render_glossary(page),
    )


def _footer() -> Markup:
    return element("footer", f"Generated by torchstone {__version__}. This file works offline.")
