"""Render tables as plain columns of text, in which no name is cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from torchstone.core.errors import printable
from torchstone.core.text.safe_text import escape_commands, escape_lines

if TYPE_CHECKING:
    from torchstone.reporting.dialects.text_page import TextPage
from torchstone.reporting.views.result_table import ResultTable

WIDTH = 80
_NARROWEST = 8
_LONGEST_CELL = 1000  # longer than the id of any case
_LONGEST_NAME = 400
_INDENT, _BETWEEN = "  ", "  "


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


class NamedTable:
    """Columns of rows that begin with the name of a case. A name that leaves too little room for its cells has a line of its own.

    ``titles`` are the texts that may stand above the names.
    """

    def __init__(
        self,
        page: TextPage,
        titles: Iterable[str],
        head: Sequence[str],
        rows: Iterable[tuple[str, Sequence[str]]],
    ) -> None:
        self._page = page
        self._head = head
        self._rows = [(printable(name, _LONGEST_NAME), cells) for name, cells in rows]
        self._widths = [
            max(map(len, column)) for column in zip(head, *(cells for _, cells in self._rows), strict=True)
        ]
        taken = len(_INDENT) + sum(len(_BETWEEN) + width for width in self._widths)
        self._room = page.width - taken
        fitting = [len(name) for name, _ in self._rows if len(name) <= self._room]
        self._first = max([*fitting, *(len(title) - len(_INDENT) for title in titles)])

    def head(self, title: str, color: str) -> str:
        """Return the line above the rows."""
        line = self._line(title.ljust(self._first + len(_INDENT)), self._head)
        return self._page.paint(title, color) + self._page.paint(line[len(title) :], "dim")

    def lines(self, number: int) -> Iterator[str]:
        """Yield the line of a row; two if its name needs one."""
        name, cells = self._rows[number]
        if len(name) > self._room:
            yield f"{_INDENT}{name}"
            name = ""
        yield self._line(f"{_INDENT}{name.ljust(self._first)}", cells)

    def _line(self, first: str, cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        return _BETWEEN.join((first, *padded)).rstrip()
