"""Render tables as plain columns of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct

from torchstone.core.errors import printable
from torchstone.core.text.safe_text import escape_commands, escape_lines

if TYPE_CHECKING:
    from torchstone.reporting.views.result_table import ResultTable

WIDTH = 80
_NARROWEST = 8
SHORTEST_NAME = 16
_LONGEST_CELL = 1000  # longer than the id of any case


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str) -> str:
    """Render rows under a title, if there is one, and a header, at full width. Columns that are empty in every row are left out."""
    names, shown = used_columns(header, rows)
    widths = [max(map(len, column)) for column in zip(names, *shown, strict=True)]
    head = [title] if title else []
    return "\n".join([*head, *(_line(row, widths) for row in (names, *shown))]) + "\n"


def used_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the columns that are not empty, with cells that are safe to print."""
    used = [index for index, _ in enumerate(header) if any(row[index] for row in rows)]
    return [header[index] for index in used], [
        [printable(row[index], _LONGEST_CELL) for index in used] for row in rows
    ]


def render_table_text(table: ResultTable, width: int = WIDTH) -> str:
    """Render a table in this width: the widest cells are wrapped, so that no name is cut, and notes follow below."""
    lines = _wrap(printable(table.title, 1000), width)
    if table.rows:
        names, shown = used_columns(table.header, table.rows)
        widths = _fit([max(map(len, column)) for column in zip(names, *shown, strict=True)], width)
        lines += [line for row in (names, *shown) for line in _wrapped(row, widths)]
    for note in table.notes:
        lines += _wrap(printable(note, 1000), width)
    return escape_commands(escape_lines("\n".join(lines)))


def _wrap(text: str, width: int, *, at_hyphens: bool = True) -> list[str]:
    import textwrap  # noqa: PLC0415  (start-up: a check loads this module, and most print no table)

    return textwrap.wrap(text, width, break_on_hyphens=at_hyphens)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _fit(widths: list[int], width: int) -> list[int]:
    """Reduce the widths until they fit, the widest column first."""
    fitted = list(widths)
    while sum(fitted) + 2 * (len(fitted) - 1) > width and max(fitted) > _NARROWEST:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _wrapped(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a row whose cells are wrapped to the widths of their columns."""
    cells = [_wrap(cell, width, at_hyphens=False) or [""] for cell, width in zip(row, widths, strict=True)]
    for pieces in zip_longest(*cells, fillvalue=""):
        yield _line(pieces, widths)


class TextLayout(Struct, frozen=True):
    """The width of the text, and the extra space that each table column takes, both in characters."""

    width: int = WIDTH
    spacing: int = 0


def align_numbers(header: Sequence[str], rows: Sequence[list[str]], columns: range) -> list[str]:
    """Align columns of numbers to the right, and return the aligned header."""
    fitted = list(header)
    for column in columns:
        width = max(len(header[column]), *(len(row[column]) for row in rows))
        fitted[column] = header[column].rjust(width)
        for row in rows:
            row[column] = row[column].rjust(width) if row[column] else ""
    return fitted


def shorten_names(
    rows: Sequence[list[str]], shortened: Sequence[int], header: Sequence[str], layout: TextLayout
) -> None:
    """Cut the names in these columns so that the table is no wider than the layout."""
    width = layout.width - layout.spacing * (len(header) + 1)
    others = [
        max(len(header[column]), *(len(printable(row[column])) for row in rows))
        for column in range(len(header))
        if column not in shortened
    ]
    left = max(SHORTEST_NAME, (width - sum(others) - 2 * (len(header) - 1)) // len(shortened))
    for row in rows:
        for column in shortened:
            row[column] = cut_middle(row[column], left)


def cut_middle(text: str, width: int) -> str:
    """Cut the middle out of a long name: its ends distinguish it best."""
    text = printable(text, 1000)
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}\u2026{text[len(text) - tail :]}"
