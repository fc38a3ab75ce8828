"""Write Markdown safely, whatever it contains, up to a maximum length.

There are code spans, tables, escaped text, and a page that stops growing at a limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from torchstone.core.errors import printable

Thing = TypeVar("Thing")


class LimitedPage:
    """Text that stops growing at a limit."""

    def __init__(self, limit: int) -> None:
        self._parts: list[str] = []
        self._used = 0
        self._limit = limit

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._parts)

    def add(self, part: str, *, must: bool = False, share: float = 1) -> bool:
        """Add a part unless the text would exceed this share of the limit; return whether it was added."""
        fits = must or self._used + len(part.encode()) <= self._limit * share
        if fits:
            self._parts.append(part)
            self._used += len(part.encode())
        return fits

    def add_each(
        self, things: Sequence[Thing], write: Callable[[Thing], str], left_out: str, *, share: float = 1
    ) -> None:
        """Add the text of each thing; from the first that does not fit on, things are only counted."""
        for number, thing in enumerate(things):
            if not self.add(write(thing), share=share):
                self.add(left_out.format(f"{len(things) - number:,}"), must=True)
                return


def table_head(columns: Sequence[str]) -> str:
    """Format the head of a table whose rows follow one by one."""
    cells = "|".join(f" {column} " if column else " " for column in columns)
    return f"|{cells}|\n|{'---|' * len(columns)}\n"


def make_table(rows: list[list[str]]) -> str:
    """Format rows as a table; the first row is the head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str, *, in_table: bool = False, limit: int = 400) -> str:
    """Format any text as a code span; in a table, bars are escaped."""
    shown = printable(text, limit)
    if in_table:
        shown = shown.replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"{fence}{shown}{fence}"


def escape(text: str) -> str:
    """Escape text so that nothing in it is markup, a mention or a link to an issue."""
    shown = printable(text, 400).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|#~])", r"\\\1", shown).replace("@", "&#64;")
