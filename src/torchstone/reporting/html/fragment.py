"""Render tables and text as HTML for a notebook: no script, no style sheet, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torchstone.core.text.safe_text import clean_log
from torchstone.reporting.html.elements import element, join
from torchstone.reporting.views.result_table import ResultTable, show_most


def render_table_html(table: ResultTable) -> str:
    """Render a table with its title above and its notes below."""
    head = element("tr", [element("th", name, style="text-align: left") for name in table.header])
    rows = [
        element("tr", [element("td", cell, style="text-align: left") for cell in row]) for row in table.rows
    ]
    body = element("table", element("thead", head), element("tbody", rows)) if rows else None
    notes = [element("p", note) for note in table.notes]
    return str(element("div", element("p", element("b", table.title)), body, join(*notes)))


def render_rows_html(
    title: str, header: tuple[str, ...], rows: Sequence[Sequence[str]], notes: Iterable[object]
) -> str:
    """Render the first rows as a table, with notes below: how many more there are, then these."""
    shown, more = show_most(rows)
    return render_table_html(ResultTable(title, header, shown, (*more, *map(str, notes))))


def render_text_html(text: str) -> str:
    """Render text as on a terminal."""
    return str(element("pre", clean_log(text)))
