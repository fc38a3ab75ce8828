"""Link to rows of the table; cases that the table leaves out are named without a link."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.reporting.html.elements import Markup, element, join
from torchstone.reporting.views.case_row import CaseRow

MOST_LINKS = 12


def link_row(row: CaseRow, text: str = "", *, title: str | None = None) -> Markup:
    """Render the name of a case, or another text, as a link to its row."""
    anchor = row.anchor
    if not anchor:
        return element("span", text or row.label, title=title)
    return element("a", text or row.label, href=f"#{anchor}", title=title)


def link_rows(rows: Sequence[CaseRow], most: int = MOST_LINKS) -> Markup:
    """Render links to rows; of many only some, with the number of others."""
    several = len({row.case.probe for row in rows}) > 1
    links = [link_row(row, f"{row.label} {row.case.probe}" if several else "") for row in rows[:most]]
    more = f" and {len(rows) - most:,} more" if len(rows) > most else None
    return join(join(*links, separator=", "), more)
