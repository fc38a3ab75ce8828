"""Safe output: everything printed passes through here, and escapes whatever a terminal or a CI service would interpret.

Data for other programs is written exactly, unless it goes to a terminal or to the log of a CI service.
Plain text has no escape sequences. Our own colored text may have colors, and live displays may move the cursor; both have functions
of their own, and are used on a terminal only.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

from torchstone.cli.terminal.streams import require_output
from torchstone.core.config import in_ci_job, wants_color
from torchstone.core.text.safe_text import SGR, escape_commands, escape_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_COLORS = rf"({SGR})"
_LIVE = rf"({SGR}|\x1b\[(?:[0-9]*[ABCDGHJK]|\?25[lh])|\r)"
_ONLY_BLANK = rf"(?:[^\S\n]|{SGR})*:?"
_HALF_A_MARK = r"#(?:#[\w.-]*)?\Z"


class SafeStream:
    """A text stream that escapes unsafe text. ``allowed`` is a pattern, in one group, for escape sequences to keep."""

    def __init__(self, stream: TextIO, allowed: str = "") -> None:
        self.stream = stream
        self._allowed = allowed
        self._begun = (
            ""  # state of the current line: whether it is blank so far, and a partial marker at its end
        )

    def write(self, text: str) -> int:
        """Write untrusted text."""
        self.stream.write(self._without_commands(self._without_controls(text)))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Write several pieces of text."""
        for line in lines:
            self.write(line)

    def _without_controls(self, text: str) -> str:
        if not self._allowed:
            return escape_lines(text)
        pieces = re.split(self._allowed, text)  # every other piece is an allowed sequence
        return "".join(piece if odd % 2 else escape_lines(piece) for odd, piece in enumerate(pieces))

    def _without_commands(self, text: str) -> str:
        begun = self._begun
        whole = escape_commands(begun + text)
        line = whole.rpartition("\n")[2]
        if not line or re.fullmatch(_ONLY_BLANK, line):
            self._begun = line
        else:
            half = re.search(_HALF_A_MARK, line) if "#" in line else None
            self._begun = f".{half[0] if half else ''}"
        return whole[len(begun) :]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever a stream has)
        if name in {"buffer", "raw", "detach", "reconfigure"}:
            raise AttributeError(name)  # these would bypass this class
        return getattr(self.stream, name)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Make standard output and standard error safe while a command runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", _guard(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _guard(stream: TextIO | None) -> TextIO | SafeStream | None:
    """Return a safe stream; a closed or already safe one is returned unchanged."""
    return stream if stream is None or isinstance(stream, SafeStream) else SafeStream(stream)


def _bare(stream: TextIO) -> TextIO:
    return stream.stream if isinstance(stream, SafeStream) else stream


def write_colored(text: str) -> None:
    """Print our own text, which may have colors."""
    SafeStream(_bare(sys.stdout), _COLORS).write(text)


def require_stdout() -> None:
    """Raise an error if standard output cannot be written."""
    require_output(_bare(sys.stdout))


def write_exactly(text: str) -> None:
    """Print text byte for byte: our own workflow commands, or data that was requested unchanged.

    The bytes are the same as ``write_text`` writes to a file, regardless of the encoding of the terminal.
    """
    require_stdout()
    stream = _bare(sys.stdout)
    buffer = getattr(stream, "buffer", None)
    if buffer is None:
        stream.write(text)
        return
    stream.flush()
    buffer.write(text.encode("utf-8", "backslashreplace"))


def write_data(text: str) -> None:
    """Print data: exactly, if it goes to a pipe or a file; otherwise escape what a terminal or a CI service would interpret."""
    if not _is_interpreted(_bare(sys.stdout)):
        write_exactly(text)
        return
    require_stdout()
    sys.stdout.write(text)
    if not sys.stdout.isatty() and escape_commands(escape_lines(text)) != text:
        sys.stderr.write(
            "caution: the output contains text that the CI service would interpret; it was escaped, so the data "
            "are not exact; write them to a file instead\n"
        )


def write_in_style(text: str, style: str) -> None:
    """Print a result: data exactly, and text for people as everything else they read."""
    if style == "text":
        sys.stdout.write(text)
    else:
        write_data(text)


def _is_interpreted(stream: TextIO) -> bool:
    """Return whether a terminal, or a CI service with workflow commands, would interpret the text.

    In a CI job, a pipe may lead to the log; a regular file does not.
    """
    if stream.isatty():
        return True
    if not in_ci_job():
        return False
    try:
        return not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # an in-memory stream
        return False


def make_console() -> Console:
    """Return a console for tables and live displays, with colors unless the user disabled them."""
    from rich.console import Console  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

    terminal = cast("TextIO", SafeStream(_bare(sys.stdout), _LIVE))
    colors = "auto" if wants_color(is_terminal=True) else None
    return Console(color_system=colors, highlight=False, file=terminal)  # type: ignore[arg-type]


def make_live(view: RenderableType) -> Live:
    """Return a display that is drawn only on request, below what is printed, and disappears when it ends."""
    from rich.live import Live  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

    return Live(view, console=make_console(), auto_refresh=False, transient=True, redirect_stdout=False)


def write_status(text: str) -> None:
    """Replace the current line on standard error, which must be a terminal."""
    SafeStream(_bare(sys.stderr), _LIVE).write(text)
    sys.stderr.flush()
