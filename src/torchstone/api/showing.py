"""Show results as tables: text of 80 columns on a terminal, HTML in a notebook."""

from __future__ import annotations

from torchstone.reporting.dialects.columns import render_table_text
from torchstone.reporting.views.result_table import ResultTable


def show_text(table: ResultTable) -> str:
    """Return a table as text of 80 columns."""
    return render_table_text(table)


def show_html(table: ResultTable) -> str:
    """Return a table as HTML for a notebook."""
    from torchstone.reporting.html.fragment import render_table_html  # noqa: PLC0415  (start-up: only notebooks need it)

    return render_table_html(table)
