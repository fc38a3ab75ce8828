"""Blocks of text: lines and tables, printed by a command or joined to a text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from torchstone.core.errors import printable
from torchstone.core.text.safe_text import clean_log, escape_commands, escape_lines
from torchstone.reporting.dialects.columns import columns
from torchstone.reporting.views.result_table import ResultTable

WIDTH = 100
"""Columns of running text where it is not printed on a narrower terminal."""

Block = str | ResultTable
"""A text of one or more lines, or a table."""


def wrapped(text: str, first: str, further: str, width: int = WIDTH) -> str:
    """Wrap text to a width, without breaking URLs and paths."""
    lines = textwrap.wrap(
        printable(text, max(1, len(text))),
        width,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def indented(text: str, indent: str = "    ") -> str:
    """Indent a traceback or a log, without control characters."""
    lines = escape_lines(clean_log(text)).rstrip("\n").splitlines()
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def cut(text: str, limit: int) -> str:
    """Shorten text to a limit, at a word boundary unless that would drop half of it.

    >>> cut("look at https://pytorch.org", 16)
    'look at https:/…'
    >>> cut("please look at https://pytorch.org", 20)
    'please look at …'
    """
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    whole = kept[: max(kept.rfind(" "), kept.rfind("\n")) + 1]
    return f"{whole if len(whole) > limit // 2 else kept}…"


def join_blocks(blocks: Iterable[Block]) -> str:
    """Join blocks to a text that is safe to print; tables have their full width."""
    return escape_commands(escape_lines("\n".join(_texts(blocks)) + "\n"))


def _texts(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, str):
            yield block
            continue
        if block.rows:
            yield columns(block.header, block.rows, title=block.title).rstrip("\n")
        else:
            yield block.title
        yield from block.notes
