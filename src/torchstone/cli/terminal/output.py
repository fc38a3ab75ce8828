"""The one way out: whatever is printed goes through here, and leaves nothing in it that a terminal or a CI service would obey.

Plain text has no escape sequences at all. Text that we have colored may have colors, and a live display may move the cursor; both come in
through doors of their own, and only onto a terminal.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from torchstone.core.config import wants_color
from torchstone.core.text.safe_text import SGR, escape_commands, escape_lines

if TYPE_CHECKING:
    from rich.console import Console

_COLORS = rf"({SGR})"
_LIVE = rf"({SGR}|\x1b\[(?:[0-9]*[ABCDGHJK]|\?25[lh])|\r)"
_ONLY_BLANK = re.compile(rf"(?:[^\S\n]|{SGR})*:?")
_HALF_A_MARK = re.compile(r"#(?:#[\w.-]*)?\Z")


class SafeStream:
    """A text stream that makes safe what is written to it. ``allowed`` is a pattern for the sequences that may pass, in one group."""

    def __init__(self, stream: TextIO, allowed: str = "") -> None:
        self.stream = stream
        self._allowed = allowed
        self._begun = ""  # what matters of the line that was begun: whether all of it is blank, and half a mark at its end

    def write(self, text: str) -> int:
        """Write text of any origin."""
        self.stream.write(self._without_commands(self._without_controls(text)))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write several pieces of text."""
        for line in lines:
            self.write(line)

    def _without_controls(self, text: str) -> str:
        if not self._allowed:
            return escape_lines(text)
        pieces = re.split(self._allowed, text)  # every other one is a sequence that may pass
        return "".join(piece if odd % 2 else escape_lines(piece) for odd, piece in enumerate(pieces))

    def _without_commands(self, text: str) -> str:
        begun = self._begun
        whole = escape_commands(begun + text)
        line = whole.rpartition("\n")[2]
        if _ONLY_BLANK.fullmatch(line):
            self._begun = line
        else:
            half = _HALF_A_MARK.search(line)
            self._begun = f".{half[0] if half else ''}"
        return whole[len(begun) :]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever a stream has)
        if name in {"buffer", "raw", "detach", "reconfigure"}:
            raise AttributeError(name)  # ways around this class
        return getattr(self.stream, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """While a command runs, standard output and standard error are safe."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _guard(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guard(stream: TextIO | None) -> TextIO | SafeStream | None:
    """The stream, made safe; one that is closed, or is safe already, stays as it is."""
    return stream if stream is None or isinstance(stream, SafeStream) else SafeStream(stream)


def _bare(stream: TextIO) -> TextIO:
    return stream.stream if isinstance(stream, SafeStream) else stream


def write_colored(text: str) -> None:
    """Print text that may have colors of ours."""
    SafeStream(_bare(sys.stdout), _COLORS).write(text)


def write_exactly(text: str) -> None:
    """Print text as it is: workflow commands of our own, or data that somebody asked for as it is."""
    _bare(sys.stdout).write(text)


def make_console() -> Console:
    """A terminal for tables and live displays, with colors if the person wants them."""
    from rich.console import Console  # noqa: PLC0415  (slow to import, and of no use in a pipe)

    terminal = cast("TextIO", SafeStream(_bare(sys.stdout), _LIVE))
    colors = "auto" if wants_color(is_terminal=True) else None
    return Console(color_system=colors, highlight=False, file=terminal)  # type: ignore[arg-type]


def write_status(text: str) -> None:
    """Put a line in the place of the last one, on the terminal that standard error is."""
    SafeStream(_bare(sys.stderr), _LIVE).write(text)
    sys.stderr.flush()
