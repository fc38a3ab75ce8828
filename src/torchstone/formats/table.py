"""Read and write CSV text: rows with line numbers, cells as numbers.

Blank lines and lines that start with ``#`` are skipped (a name that starts so is quoted when written). The
apostrophe that ``defuse`` adds, so that a spreadsheet does not take a cell for a formula, is removed when
reading.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from itertools import takewhile
from operator import itemgetter

from torchstone.core.disk import BOM
from torchstone.core.errors import InputError, printable
from torchstone.core.records import Number
from torchstone.core.text.safe_text import defuse_cell, is_plain, restore_cell
from torchstone.core.vocabulary import current_name

MOST_CHARACTERS = 100_000
MOST_COUNTED = 2**63 - 1
LARGEST = 1e300  # sums and products of a few such numbers stay finite
_MAY_BE_FORMULA = r"""(?:^|[,"])['\s]*[^\w'",.#/\s]"""
_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


class Rows:
    """Iterate over the rows of a CSV text as ``(first line, cells)``; ``ends`` is the last line of the current row."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.ends = 0
        self._inside_row = False
        self._row_text = ""
        self._source = split_lines(text.removeprefix(BOM))
        self._has_apostrophes = "'" in text

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        csv.field_size_limit(MOST_CHARACTERS)
        reader = csv.reader(self._lines(), strict=True)
        self._starts = 1
        try:
            for cells in reader:
                self._inside_row = False
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield self._starts, [*map(restore_cell, cells)] if self._has_apostrophes else cells
        except csv.Error as error:
            raise self._explain(error) from None

    def _lines(self) -> Iterator[str]:
        """Yield the lines of rows. A line that continues a quoted cell is never a comment."""
        for number, line in enumerate(self._source, 1):
            self.ends = number
            if not self._inside_row:
                if line.startswith("#"):
                    continue
                self._inside_row = True
                self._starts = number
                self._row_text = line
            yield line

    def _explain(self, error: csv.Error) -> InputError:
        """Return an error that names the line and the column where the unreadable cell starts."""
        message, column, advice = (
            str(error),
            self._row_text.rfind('"') + 1,
            'write a quotation mark inside a cell as ""',
        )
        problem = f"invalid CSV: {message}"
        if "unexpected end of data" in message:
            problem, advice = "unterminated quoted cell", 'close the quotation mark (")'
        elif "field limit" in message:
            problem, advice = (
                f"a cell of more than {MOST_CHARACTERS:,} characters",
                "is this the file you meant?",
            )
            short = takewhile(lambda cell: len(cell) <= MOST_CHARACTERS, self._row_text.split(","))
            column = 1 + sum(len(cell) + 1 for cell in short)
        return InputError(
            problem,
            path=self.path,
            line=self._starts,
            column=min(column, len(self._row_text)) or 1,
            advice=advice,
        )


def split_lines(text: str) -> Iterator[str]:
    r"""Split at ``\n``, ``\r\n`` and ``\r``, keeping the line ends; other Unicode line ends do not count."""
    if "\r" in text:
        yield from (found[0] for found in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text))
        return
    start = 0
    while end := text.find("\n", start) + 1:
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def read_header(path: str, rows: Iterator[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """Read the first row as a header, and refuse empty or duplicate names."""
    first = next(rows, None)
    if first is None:
        raise InputError(
            "the file is empty", path=path, line=1, advice="expected a header line and at least one row"
        )
    line, header = first[0], [cell.strip() for cell in first[1]]
    if len(header) == 1 and (found := [d for d in _DELIMITERS if d in header[0]]):
        raise InputError(
            f"the columns are separated by {_DELIMITERS[found[0]]}",
            path=path,
            line=line,
            column=header[0].index(found[0]) + 1,
            advice="expected commas",
        )
    seen: set[str] = set()
    for number, name in enumerate(header, 1):
        if not name:
            raise InputError(f"column {number} has no name", path=path, line=line, column=number)
        if not is_plain(name):
            raise InputError(
                "a column's name contains a control character", path=path, line=line, column=number
            )
        if name in seen:
            raise InputError("duplicate column", path=path, line=line, column=name)
        seen.add(name)
    return line, header


def require_rows(path: str, rows: Sequence[object]) -> None:
    """Refuse a file with only a header: no data must never look like success."""
    if not rows:
        raise InputError(
            "no rows after the header", path=path, line=1, advice="did the job that wrote it fail?"
        )


def reject_row_length(path: str, line: int, cells: Sequence[str], header: Sequence[str]) -> InputError:
    """Return the error for a row with too few or too many cells."""
    problem = f"{len(cells)} cells, but the header has {len(header)}"
    column = header[len(cells)] if len(cells) < len(header) else len(header) + 1
    return InputError(
        problem, path=path, line=line, column=column, advice="was the file cut off, or a comma left unquoted?"
    )


def refuse_two_names(path: str, line: int, header: Sequence[str]) -> None:
    """Refuse a metric with two columns, one under its old name and one under its new name."""
    for column in header:
        if (now := current_name(column)) != column and now in header:
            problem = f"the same metric as the column {now}: {column} is its former name"
            raise InputError(problem, path=path, line=line, column=column, advice="remove one of the two")


def read_name(path: str, line: int, column: str, cell: str) -> str:
    """Read a name; it must not be empty, and must be printable on one line."""
    name = cell.strip()
    if not name:
        raise InputError("the name is empty", path=path, line=line, column=column)
    if not is_plain(name):
        problem = f"the name {printable(name, 60)!s} contains a control character"
        raise InputError(problem, path=path, line=line, column=column, advice="expected a name on one line")
    return name


def read_number(path: str, line: int, column: str, cell: str) -> Number:
    """Read a finite decimal number; whole numbers become exact ints."""
    text = cell.strip()
    problem = "is not a number"
    try:
        number: Number = int(text) if text.lstrip("+-").isdigit() else float(text)
        if text.isascii() and "_" not in text:
            if abs(number) <= LARGEST:
                return number
            problem = "is not a finite number" if text[-1].isalpha() else "is too large"
    except ValueError:
        pass
    raise InputError(
        f"'{printable(text, 40)}' {problem}",
        path=path,
        line=line,
        column=column,
        advice="expected a decimal number, or an empty cell for none",
    )


def read_positive(path: str, line: int, column: str, cell: str) -> Number:
    """Read a number that is not negative."""
    number = read_number(path, line, column, cell)
    if number < 0:
        raise InputError(
            f"{printable(cell.strip(), 40)} is negative",
            path=path,
            line=line,
            column=column,
            advice="expected 0 or more",
        )
    return number


def read_count(path: str, line: int, column: str, cell: str) -> int:
    """Read a whole number that is not negative; ``3.0`` is read as 3."""
    number = read_positive(path, line, column, cell)
    if number != int(number) or number > MOST_COUNTED:
        problem = f"{printable(cell.strip(), 40)} is {'too large' if number > MOST_COUNTED else 'not a whole number'}"
        raise InputError(problem, path=path, line=line, column=column, advice="expected a count")
    return int(number)


def cell_picker(indices: Sequence[int]) -> Callable[[Sequence[str]], tuple[str, ...]]:
    """Return a function that picks these cells from a row."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda cells: tuple(cells[index] for index in indices)


def render_rows(rows: Iterable[Sequence[str]]) -> str:
    """Write rows as CSV text, quoting only where necessary."""
    return "".join(render_row(row) for row in rows)


def render_row(cells: Sequence[str], line_end: str = "\n") -> str:
    """Write one row with its line end."""
    buffer = StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(
        cells
    )  # the csv module quotes what it takes for a line end
    text = buffer.getvalue().removesuffix("\r\n")
    if text.startswith("#") or text.lstrip().startswith(
        "::"
    ):  # must not read as a comment or a command to a CI service
        text = f'"{cells[0]}"{text[len(cells[0]) :]}'
    return text + line_end


def defuse(text: str) -> str:
    """Escape the cells that a spreadsheet would take for formulas; reading the table returns the original cells."""
    if not re.search(_MAY_BE_FORMULA, text, re.MULTILINE):
        return text
    return "".join(_defuse_row(line) for line in split_lines(text))


def _defuse_row(line: str) -> str:
    cells = next(csv.reader([line], strict=True), [])
    defused = [*map(defuse_cell, cells)]
    return line if defused == cells else render_row(defused)
