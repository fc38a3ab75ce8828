"""Show results as tables: text of 80 columns on a terminal, HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from torchstone.reporting.dialects.columns import render_table_text

if TYPE_CHECKING:
    from torchstone.reporting.views.result_table import ResultTable


def show_text(table: ResultTable) -> str:
    """Return a table as text of 80 columns."""
    return render_table_text(table)


def show_html(table: ResultTable) -> str:
    """Return a table as HTML for a notebook."""
    return str(_html().render_table_html(table))


def show_rows(
    title: str, header: tuple[str, ...], rows: Sequence[Sequence[str]], notes: Iterable[object]
) -> str:
    """Return the first rows of a table as HTML for a notebook, with notes below."""
    return str(_html().render_rows_html(title, header, rows, notes))


def _html() -> ModuleType:
    from torchstone.reporting.html import fragment  # noqa: PLC0415  (start-up: only notebooks need it)

    return fragment
