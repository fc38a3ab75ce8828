"""Tables on a terminal (rich), and plain columns where the output goes into a pipe or a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torchstone.config import wants_color
from torchstone.errors import printable

_KEPT_WHOLE = {"", "state", "metric", "old", "new", "since", "expires", "passed"}
_STYLES = {
    "change": "yellow",
    "add": "green",
    "remove": "red",
    "hold": "magenta",
    "expired": "red",
    "active": "green",
}


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, title: str) -> None:
    """Print rows under a header; columns that are empty in every row are left out."""
    used = [index for index, _ in enumerate(header) if any(row[index] for row in rows)]
    shown = [[printable(row[index]) for index in used] for row in rows]
    names = [header[index] for index in used]
    if sys.stdout.isatty():
        _print_rich(names, shown, title)
    else:
        _print_plain(names, shown, title)


def _print_rich(names: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    from rich import box  # noqa: PLC0415  (slow to import, and of no use in a pipe)
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name in _KEPT_WHOLE)
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    Console(color_system="auto" if wants_color(is_terminal=True) else None, highlight=False).print(table)


def _print_plain(names: Sequence[str], rows: Sequence[Sequence[str]], title: str) -> None:
    print(title)
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    for row in (names, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
