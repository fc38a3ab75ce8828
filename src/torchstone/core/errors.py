"""The exceptions torchstone raises on purpose.

    TorchstoneError         anything a user can mend; shown as one message, never as a traceback
    ├── InputError          a file says something it cannot mean: names file, line and column
    └── UsageError          the command line asks for something that cannot be done

Both end the process with exit code 2.
"""

from __future__ import annotations

from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import escape_line


class TorchstoneError(Exception):
    """What went wrong, in words for the person at the terminal; ``advice`` says what to do about it."""

    exit_code = 2

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(redact(message))
        self.message = printable(redact(message), 2000)
        self.advice = printable(redact(advice), 2000)

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


class UsageError(TorchstoneError):
    """The options or arguments of a command do not make sense together."""


class InputError(TorchstoneError):
    """A file that cannot be used as it is, and where in it the trouble lies.

    ``line`` counts from 1; ``column`` is the name of a table's column or the number of a character.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str,
        line: int | None = None,
        column: str | int | None = None,
        advice: str = "",
    ) -> None:
        super().__init__(message, advice=advice)
        self.path = path
        self.line = line
        self.column = column

    @property
    def place(self) -> str:
        """Where it is, as ``file:line: column x``; editors and terminals make a link of the first part."""
        place = printable(redact(self.path))
        if self.line is not None:
            place += f":{self.line}"
        if isinstance(self.column, int):
            place += f":{self.column}"
        elif self.column:
            place += f": column {printable(self.column)}"
        return place

    def __str__(self) -> str:
        return f"{self.place}: {super().__str__()}"


def printable(text: str, limit: int = 200) -> str:
    """``text`` on one line, safe for a terminal: control characters escaped, the middle of a long one cut out.

    >>> printable("two\\nlines")
    'two\\\\nlines'
    """
    if len(text) > limit:
        text = f"{text[: limit // 2]}...{text[-limit // 4 :]}"
    return escape_line(text)
