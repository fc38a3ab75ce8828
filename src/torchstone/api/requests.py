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


def make_request(kind: type[Request], given: Mapping[str, object]) -> Request:
    """Make a request from the arguments of a call. Raise a ``UsageError`` for a wrong name or type.

    A field that is a tuple also accepts a single value; a mapping becomes pairs.
    """
    types = {field.name: field.type for field in structs.fields(kind)}
    values = {}
    for name, value in given.items():
        if name not in types:
            raise UsageError(
                f"unknown argument '{printable(name)}'",
                advice=f"{did_you_mean(name, types)}the arguments are {', '.join(types)}",
            )
        if value is None:
            continue
        taken = str(types[name])
        values[name] = _as_tuple(value, taken) if taken.startswith("tuple") else _plain(value)
        if not _fits(values[name], types[name]):
            raise UsageError(f"{name}={describe_value(value)}: expected {describe_type(types[name])}")
    return msgspec.convert(values, kind)


def _fits(value: object, kind: object) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _as_tuple(value: object, taken: str) -> object:
    if isinstance(value, Mapping):
        are_texts = "tuple[str, str]" in taken
        return tuple((key, axis_text(each) if are_texts else each) for key, each in value.items())
    if isinstance(value, str | os.PathLike | Reading | ReadResult) or not isinstance(value, Iterable):
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
