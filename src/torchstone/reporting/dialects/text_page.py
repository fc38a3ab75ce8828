"""Lay out text for a terminal: wrapped, optionally colored, without control sequences or CI commands."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from torchstone.core.errors import printable
from torchstone.core.text.safe_text import escape_commands, escape_lines

INDENT = 13
_SHELL_WORD = r"""(?s:\$'(?:\\.|[^'\\])*'|[^\s'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*")+"""
_COLORS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}


class TextPage:
    """A page of text with a width and optional colors."""

    def __init__(self, width: int, *, color: bool = False) -> None:
        self.width = max(width, 40)
        self._mark = (
            os.urandom(8).hex() if color else ""
        )  # random, so that foreign text cannot contain it and color itself

    def paint(self, text: str, *names: str) -> str:
        """Color text, if colors are on."""
        if not self._mark:
            return text
        codes = ";".join(_COLORS[name] for name in names)
        return f"\x1b[{self._mark}{codes}m{text}\x1b[{self._mark}0m"

    def finish(self, lines: Sequence[str]) -> str:
        """Join the lines; only painted text has color, and commands to a terminal or a CI service are escaped."""
        text = "\n".join(lines) + "\n"
        if not self._mark:
            return escape_commands(escape_lines(text))
        pieces = re.split(rf"\x1b\[{self._mark}([0-9;]+)m", text)
        painted = (f"\x1b[{piece}m" if odd % 2 else escape_lines(piece) for odd, piece in enumerate(pieces))
        return escape_commands("".join(painted))

    def wrap(self, text: str, first: str, following: str) -> list[str]:
        """Wrap text, with a prefix for the first line and one for the others. Words are never split."""
        if text and text == text.strip() and text.isprintable() and len(first) + len(text) <= self.width:
            return [first + text]
        import textwrap  # noqa: PLC0415  (start-up: a report of passing rows has only short lines)

        return textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=following,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def wrap_command(self, command: str, first: str) -> list[str]:
        """Wrap a command so that it can be pasted: lines break between words, never inside quotes."""
        command = printable(command, len(command))
        closed = not re.sub(_SHELL_WORD, "", command).strip()
        words = re.findall(_SHELL_WORD, command) if closed else [command]  # unclosed quotes: do not wrap
        lines, line, used = [], first, INDENT
        for word in words:
            if used > INDENT and used + 1 + len(word) > self.width - 2:
                lines.append(f"{line} \\")
                line, used = " " * (INDENT + 2) + word, INDENT + 2 + len(word)
            else:
                space = " " if used > INDENT else ""
                line, used = f"{line}{space}{word}", used + len(space) + len(word)
        return [*lines, line]


def cut(text: str, width: int) -> str:
    """Cut the middle out of a text that is wider than this."""
    if len(text) <= width:
        return text
    end = width // 2
    return f"{text[: width - end - 1]}…{text[-end:]}"
