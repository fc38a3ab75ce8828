"""Print tables: with rich on a terminal, as plain columns in a pipe or a file."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from torchstone.cli.terminal.output import make_console
from torchstone.core.errors import printable
from torchstone.core.text.safe_text import escape_line
from torchstone.reporting.dialects.columns import columns, used_columns
from torchstone.reporting.run_text.blocks import WIDTH, Block, wrapped
from torchstone.reporting.views.result_table import ResultTable

_KEPT_WHOLE = {
    "",
    "state",
    "metric",
    "old",
    "new",
    "since",
    "expires",
    "passed",
    "speedup",
    "value",
    "interval",
}
NOTE = "note"
"""Name of a last column that is printed below its row if the terminal is too narrow."""
_BETWEEN = 3
_LONGEST_WHOLE = 14  # a longer word may be broken if the terminal is too narrow
_STYLES = {
    "change": "yellow",
    "add": "green",
    "remove": "red",
    "hold": "magenta",
    "expired": "red",
    "active": "green",
    "regression": "red",
    "inconclusive": "yellow",
    "improvement": "green",
}


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str) -> None:
    """Print rows under a header, without columns that are empty in every row."""
    names, shown = used_columns(header, rows)
    if sys.stdout.isatty() and names[-1] == NOTE and _natural_width(names, shown) > terminal_width():
        _print_with_notes_below(names, shown, title)
    elif sys.stdout.isatty() and not _fits_only_plainly(names, shown):
        _print_rich(names, shown, title)
    else:
        sys.stdout.write(columns(names, shown, title=title))


def print_result_table(table: ResultTable) -> None:
    """Print a table with its notes below it."""
    if table.rows:
        print_table(table.header, table.rows, title=table.title)
    elif table.title:
        print(table.title)
    for note in table.notes:
        print(note)


def print_blocks(blocks: Iterable[Block]) -> None:
    """Print lines and tables."""
    for block in blocks:
        if isinstance(block, str):
            print(block)
        else:
            print_result_table(block)


def text_width() -> int:
    """Return the width of running text: that of the terminal, unless it is wider than people like to read."""
    return min(WIDTH, terminal_width()) if sys.stdout.isatty() else WIDTH


def _natural_width(names: Sequence[str], rows: Sequence[Sequence[str]], between: int = _BETWEEN) -> int:
    """Return the width of a table without wrapped cells."""
    return sum(max(map(len, column)) + between for column in zip(names, *rows, strict=True))


def _fits_only_plainly(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the terminal has room for plain columns, but none for the further space of a table with a rule."""
    plain = _natural_width(names, rows, 2) - 2
    return plain <= terminal_width() < _natural_width(names, rows)


def print_wrapped(text: str, stream: TextIO | None = None) -> None:
    """Print a sentence; on a terminal, broken between words, further lines indented."""
    out = stream or sys.stdout
    if out.isatty():
        text = wrapped(text, "", "  ", terminal_width())
    print(text, file=out)


def terminal_width() -> int:
    """Return the number of columns of the terminal."""
    return shutil.get_terminal_size().columns


def _print_with_notes_below(names: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    """Print plain columns, with the note of each row below it."""
    print(title)
    *columns, _ = zip(names, *rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    for row in (names, *rows):
        *cells, note = row
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())
        if note and row is not names:
            indent = " " * 4
            for line in textwrap.wrap(
                note, terminal_width(), initial_indent=indent, subsequent_indent=indent
            ):
                print(line)


def _print_rich(names: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    from rich import box  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)
    from rich.table import Table  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)
    from rich.text import Text  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

    heading = Text(escape_line(title)) if title else None
    table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, *column in zip(names, *rows, strict=True):
        words = (word for cell in column for word in cell.split())
        least = min(_LONGEST_WHOLE, max(map(len, words), default=0))
        table.add_column(Text(printable(name)), overflow="fold", no_wrap=name in _KEPT_WHOLE, min_width=least)
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    make_console().print(table)
