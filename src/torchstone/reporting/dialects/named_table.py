"""Lay out rows that begin with the name of a case. Nothing is cut: a name that leaves too little room has a line of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchstone.core.errors import printable
from torchstone.reporting.dialects.text_page import TextPage

_LONGEST_NAME = 400
_INDENT, _BETWEEN = "  ", "  "


class NamedTable:
    """Columns under a head. ``titles`` are the texts that may stand above the names."""

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
