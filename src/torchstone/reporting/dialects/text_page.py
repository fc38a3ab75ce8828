"""Text for a terminal: wrapped to its width, colored if asked, with nothing in it that a terminal or a CI service would obey."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence

from torchstone.core.errors import printable
from torchstone.core.text.safe_text import escape_commands, escape_lines

INDENT = 13
_SHELL_WORD = re.compile(r"""(?:\$'(?:\\.|[^'\\])*'|[^\s'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*")+""", re.DOTALL)
_COLORS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}


class TextPage:
    """How wide the terminal is, and whether it has colors."""

    def __init__(self, width: int, *, color: bool = False) -> None:
        self.width = max(width, 40)
        self._mark = (
            os.urandom(8).hex() if color else ""
        )  # no foreign text can have it, so it cannot be colored

    def paint(self, text: str, *names: str) -> str:
        """Text in color, or as it is."""
        if not self._mark:
            return text
        codes = ";".join(_COLORS[name] for name in names)
        return f"\x1b[{self._mark}{codes}m{text}\x1b[{self._mark}0m"

    def finish(self, lines: Sequence[str]) -> str:
        """The lines as one text, in which only what was painted has color, and nothing is a command to a terminal or a CI service."""
        text = "\n".join(lines) + "\n"
        if not self._mark:
            return escape_commands(escape_lines(text))
        pieces = re.split(rf"\x1b\[{self._mark}([0-9;]+)m", text)
        painted = (f"\x1b[{piece}m" if odd % 2 else escape_lines(piece) for odd, piece in enumerate(pieces))
        return escape_commands("".join(painted))

    def wrap(self, text: str, first: str, following: str) -> list[str]:
        """Text on as many lines as it needs, with what stands before the first and before the others. Words stay whole."""
        return textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=following,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def wrap_command(self, command: str, first: str) -> list[str]:
        """A command on several lines that can be pasted as they stand: broken between words, never inside quotes."""
        command = printable(command, len(command))
        closed = not _SHELL_WORD.sub("", command).strip()
        words = (
            _SHELL_WORD.findall(command) if closed else [command]
        )  # quotes that do not close: better long than wrong
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
    """Text in so many columns: of a long one, the beginning and the end."""
    if len(text) <= width:
        return text
    end = width // 2
    return f"{text[: width - end - 1]}…{text[-end:]}"
