"""Edit cells and rows of a CSV text; everything else (order, comments, quoting, line ends) stays as it is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from torchstone.core.disk import BOM
from torchstone.formats.table import Rows, render_row, split_lines

# A cell as written: quoted (with commas, line ends and doubled quotes), or up to the next comma.
_RAW_CELL = re.compile(r"""(?:^|(?<=,))(?:"(?:[^"]|"")*"[^,]*|[^,]*)""", re.DOTALL)


class TextRow(Struct):
    """A row of a table: its cells, and the range of lines it occupies (from 0, end excluded)."""

    cells: list[str]
    start: int
    end: int


class TableText:
    """The text of a table and the position of its rows. Edits are collected, then applied at once."""

    def __init__(self, path: str, text: str) -> None:
        self._bom = BOM if text.startswith(BOM) else ""
        self.lines = list(split_lines(text.removeprefix(BOM)))
        self.line_end = "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"
        rows = Rows(path, text)
        self.rows = [TextRow(cells, start - 1, rows.ends) for start, cells in rows]
        self._replaced: dict[int, str] = {}
        self._inserted: dict[int, list[str]] = {}

    def row_at(self, line: int) -> TextRow:
        """Return the row that starts in this line, counted from 1."""
        return next(row for row in self.rows if row.start == line - 1)

    def set_cells(self, row: TextRow, changes: dict[int, str]) -> None:
        """Replace some cells of a row. Other cells keep their exact text; quoted cells stay quoted."""
        text = "".join(self.lines[row.start : row.end])
        body = text.rstrip("\r\n")
        parts = _RAW_CELL.findall(body)
        for index, change in changes.items():
            part, old = parts[index], parts[index].strip()
            needed = (index == 0 and change.startswith("#")) or bool(set(change) & set(',"\r\n'))
            if part.startswith('"') or needed:
                parts[index] = '"' + change.replace('"', '""') + '"'
            else:
                parts[index] = part.replace(old, change, 1) if old else change
        self._replace(row.start, row.end, ",".join(parts) + text[len(body) :])

    def _replace(self, start: int, end: int, text: str) -> None:
        """Replace some lines with a text; an empty text removes them."""
        self._replaced.update(dict.fromkeys(range(start, end), ""))
        self._replaced[start] = text

    def _is_empty(self, line: int) -> bool:
        """Return whether a line is blank or already removed."""
        return not self._replaced.get(line, self.lines[line]).strip()

    def remove(self, row: TextRow) -> None:
        """Remove a row with the blank lines after it (before it, if it is the last)."""
        start, end = row.start, row.end
        while end < len(self.lines) and self._is_empty(end):
            end += 1
        if end == len(self.lines):
            while start > 0 and self._is_empty(start - 1):
                start -= 1
        self._replace(start, end, "")

    def insert(
        self, cells: Sequence[str], key: Callable[[TextRow], str], value: str, *, first_row: int
    ) -> None:
        """Insert a row in sort order if the rows are sorted by ``key``, else at the end."""
        rows = self.rows[first_row:]
        keys = [key(row) for row in rows]
        text, gap = render_row(cells, self.line_end), [self.line_end] * self._gap(rows)
        following = (
            [row for row, found in zip(rows, keys, strict=True) if found > value]
            if keys == sorted(keys)
            else []
        )
        if following:
            at = self._above_comments(following[0].start)
            self._inserted.setdefault(at, []).extend((text, *gap))
        else:
            at = self.rows[-1].end if self.rows else len(self.lines)
            self._inserted.setdefault(at, []).extend((*gap, text))

    def _gap(self, rows: Sequence[TextRow]) -> int:
        """Return the usual number of blank lines between two rows."""
        gaps = Counter(
            sum(not line.strip() for line in self.lines[before.end : after.start])
            for before, after in pairwise(rows)
        )
        return gaps.most_common(1)[0][0] if gaps else 0

    def _above_comments(self, line: int) -> int:
        while line > 0 and self.lines[line - 1].startswith("#"):
            line -= 1
        return line

    def apply(self) -> str:
        """Return the edited text. Rows inserted at one place keep their order of insertion."""
        parts = [self._bom]
        for number, line in enumerate((*self.lines, "")):
            if number in self._inserted:
                if parts[-1] and not parts[-1].endswith(("\n", "\r", BOM)):
                    parts.append(self.line_end)
                parts += self._inserted[number]
            parts += filter(None, [self._replaced.get(number, line)])
        return "".join(parts)
