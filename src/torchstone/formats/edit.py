"""Changing a comma-separated file and nothing else in it: row order, comments, blank lines, quoting and line ends stay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from torchstone.core.disk import BOM
from torchstone.formats.table import Rows, render_row, split_lines

# A cell as it is written: in quotes, which may hold commas, line ends and doubled quotes, or up to the next comma.
_RAW_CELL = re.compile(r"""(?:^|(?<=,))(?:"(?:[^"]|"")*"[^,]*|[^,]*)""", re.DOTALL)


class TextRow(Struct):
    """A row of a table: its cells, and the lines (from 0, the end excluded) it stands in."""

    cells: list[str]
    start: int
    end: int


class TableText:
    """The text of a table, and where its rows are. Edits are collected by line, and applied all at once."""

    def __init__(self, path: str, text: str) -> None:
        self._bom = BOM if text.startswith(BOM) else ""
        self.lines = list(split_lines(text.removeprefix(BOM)))
        self.line_end = "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"
        rows = Rows(path, text)
        self.rows = [TextRow(cells, start - 1, rows.ends) for start, cells in rows]
        self._replaced: dict[int, str] = {}
        self._inserted: dict[int, list[str]] = {}

    def row_at(self, line: int) -> TextRow:
        """The row that starts in this line, from 1."""
        return next(row for row in self.rows if row.start == line - 1)

    def set_cells(self, row: TextRow, changes: dict[int, str]) -> None:
        """Put new text into some cells of a row. The others stay to the letter; a cell in quotes stays in quotes."""
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
        """Put a text in the place of some lines; an empty one takes them out."""
        self._replaced.update(dict.fromkeys(range(start, end), ""))
        self._replaced[start] = text

    def _is_empty(self, line: int) -> bool:
        """Whether a line is blank, or taken out already."""
        return not self._replaced.get(line, self.lines[line]).strip()

    def remove(self, row: TextRow) -> None:
        """Take out a row, with the blank lines that set it apart from the next, or from the one before if it is the last."""
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
        """Add a row, in its place if the rows are sorted by ``key``, else at the end; set apart as the others are."""
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
        """How many blank lines customarily stand between two rows."""
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
        """The text with all edits made. Rows inserted at one place come out in the order of their insertion."""
        parts = [self._bom]
        for number, line in enumerate((*self.lines, "")):
            if number in self._inserted:
                if parts[-1] and not parts[-1].endswith(("\n", "\r", BOM)):
                    parts.append(self.line_end)
                parts += self._inserted[number]
            parts += filter(None, [self._replaced.get(number, line)])
        return "".join(parts)
