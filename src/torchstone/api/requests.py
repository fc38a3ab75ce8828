"""Make request records from the arguments of Python calls: single values or several, paths, mappings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from torchstone.api.argument_types import describe_type, describe_value
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Reading, axis_text
from torchstone.core.text.suggestions import did_you_mean

Request = TypeVar("Request", bound=Struct)

Path = str | os.PathLike[str]


class ReadResult(Struct, frozen=True):
    """A result that is a file that was read, or could be: another call can take it in place of the file."""

    reading: Reading


Source = Path | Reading | ReadResult
"""Results: a file in any format that torchstone reads, or the result of ``read`` or ``run``."""
Sources = Source | Iterable[Source]
Texts = str | Iterable[str]
"""One string or several."""
Paths = Path | Iterable[Path]
"""One path or several."""
_SINGLE = (str, bytes, bytearray, os.PathLike, Reading, ReadResult)
"""Types of single values, although one can iterate over some of them."""


def make_request(kind: type[Request], given: Mapping[str, object]) -> Request:
    """Make a request from the arguments of a call. Raise a ``UsageError`` for a wrong name or type.

    A field that is a tuple also accepts a single value; a mapping becomes pairs.
    """
    fields = {field.name: field for field in structs.fields(kind)}
    values = {}
    for name, value in given.items():
        if name not in fields:
            raise UsageError(
                f"unknown argument '{printable(name)}'",
                advice=f"{did_you_mean(name, fields)}the arguments are {', '.join(fields)}",
            )
        if value is not None or fields[name].required:
            values[name] = take(name, value, fields[name].type)
    return msgspec.convert(values, kind)


def take(name: str, value: object, kind: Any) -> Any:  # noqa: ANN401  (any annotation, and a value of that type)
    """Return an argument as a value of a type. Raise a ``UsageError`` if it is none."""
    taken = str(kind)
    plain = _as_tuple(value, taken) if taken.startswith("tuple") else _plain(value)
    for text in plain if isinstance(plain, tuple) else (plain,):
        _refuse_unusable(name, text)
    try:
        return msgspec.convert(plain, kind)
    except (msgspec.ValidationError, UnicodeEncodeError):
        raise UsageError(f"{name}={describe_value(value)}: expected {describe_type(kind)}") from None


def path_of(value: Path, name: str = "path") -> str:
    """Return a path as a string. Raise a ``UsageError`` if it is none."""
    path: str = take(name, value, str)
    if not path:
        raise UsageError(f"{name}='': expected a path")
    return path


def _refuse_unusable(name: str, text: object) -> None:
    """Raise an error for a text that no file and no case can be named."""
    if not isinstance(text, str):
        return
    try:
        is_usable = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_usable = False
    if not is_usable:
        raise UsageError(f"{name}={describe_value(text)}: expected a text without invalid characters")


def _as_tuple(value: object, taken: str) -> object:
    if isinstance(value, Mapping):
        are_texts = "tuple[str, str]" in taken
        return tuple((key, axis_text(each) if are_texts else each) for key, each in value.items())
    if isinstance(value, _SINGLE) or not isinstance(value, Iterable):
        return (_plain(value),)
    return tuple(_plain(each) for each in value)


def _plain(value: object) -> object:
    """Return a path as a string, and a result as its reading; anything else unchanged."""
    if isinstance(value, ReadResult):
        return value.reading
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def command_words(*options: tuple[str, Any]) -> tuple[str, ...]:
    """Return options as words of a command line, without those that have no value.

    >>> command_words(("--only", ("a", "b")), ("--trust", True), ("--kind", ""), ("--margin", 0.02))
    ('--only', 'a', '--only', 'b', '--trust', '--margin', '2%')
    """
    words: list[str] = []
    for flag, value in options:
        if value is True:
            words.append(flag)
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [flag, _word(each)] if each is not None and each != "" and each is not False else []
    return tuple(words)


def _word(value: str | float | date | tuple[Any, Any]) -> str:
    match value:
        case tuple():
            return f"{value[0]}={_word(value[1])}"
        case float():
            return f"{100 * value:.12g}%"
        case date():
            return value.isoformat()
        case _:
            return str(value)
