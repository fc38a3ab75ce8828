"""The exceptions that torchstone raises deliberately.

    TorchstoneError         an error that the user can fix; shown as a message, never as a traceback
    ├── InputError          a file is invalid: names file, line and column
    └── UsageError          options or arguments are invalid

Both end the process with exit code 2.
"""

from __future__ import annotations

from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import escape_line


class TorchstoneError(Exception):
    """An error with a message for the user; ``advice`` says what to do about it."""

    exit_code = 2

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(redact(message))
        self.message = printable(redact(message), 2000)
        self.advice = printable(redact(advice), 2000)

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


class UsageError(TorchstoneError):
    """The options or arguments of a command are invalid."""


class InputError(TorchstoneError):
    """A file is invalid, at a given place.

    ``line`` counts from 1; ``column`` is the name of a table column or the number of a character.
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
        """Return the place as ``file:line: column x``; editors and terminals link the first part."""
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
    """Return ``text`` on one line, safe for a terminal: escaped, and with the middle cut out if it is long.

    >>> printable("two\\nlines")
    'two\\\\nlines'
    """
    if len(text) > limit:
        text = f"{text[: limit // 2]}...{text[-limit // 4 :]}"
    return escape_line(text)
