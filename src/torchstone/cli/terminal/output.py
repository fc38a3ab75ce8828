"""The one way out: whatever is printed goes through here, and leaves nothing in it that a terminal or a CI service would obey.

Data for other programs is written exactly, unless it would end up on a terminal or in the log of a CI service.
Plain text has no escape sequences at all. Text that we have colored may have colors, and a live display may move the cursor; both come in
through doors of their own, and only onto a terminal.
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


def require_stdout() -> None:
    """Refuse to go on if standard output cannot take the product of a command."""
    require_output(_bare(sys.stdout))


def write_exactly(text: str) -> None:
    """Print the product of a command byte for byte: workflow commands of our own, or data that somebody asked for as it is.

    The bytes are those that ``write_text`` would put into a file, whatever encoding the terminal has.
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
    """Print the product of a command: exactly, if it goes into a pipe or a file; else with nothing in it that a terminal or a CI service would obey."""
    if not _is_interpreted(_bare(sys.stdout)):
        write_exactly(text)
        return
    require_stdout()
    sys.stdout.write(text)
    if not sys.stdout.isatty() and escape_commands(escape_lines(text)) != text:
        sys.stderr.write(
            "caution: text that the CI service would obey was escaped, so these are not the exact data; "
            "write them to a file\n"
        )


def _is_interpreted(stream: TextIO) -> bool:
    """Whether somebody obeys what is in the text: a terminal, or the log of a CI service that has workflow commands.

    In a job of such a service a pipe may be its log, and nothing tells; a regular file is none.
    """
    if stream.isatty():
        return True
    if not in_ci_job():
        return False
    try:
        return not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # a stream within this process
        return False


def make_console() -> Console:
    """A terminal for tables and live displays, with colors if the person wants them."""
    from rich.console import Console  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

    terminal = cast("TextIO", SafeStream(_bare(sys.stdout), _LIVE))
    colors = "auto" if wants_color(is_terminal=True) else None
    return Console(color_system=colors, highlight=False, file=terminal)  # type: ignore[arg-type]


def write_status(text: str) -> None:
    """Put a line in the place of the last one, on the terminal that standard error is."""
    SafeStream(_bare(sys.stderr), _LIVE).write(text)
    sys.stderr.flush()
