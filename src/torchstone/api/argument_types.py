"""Describe types and values of arguments, for errors of the Python API."""

from __future__ import annotations

from datetime import date
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from torchstone.core.errors import printable
from torchstone.core.records import Reading

_LONGEST = 60
_WORDS: dict[object, tuple[str, str]] = {
    str: ("a string", "strings"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "True or False"),
    date: ("a date", "dates"),
    Reading: ("a result", "results"),
    NoneType: ("None", "None"),
}
"""One value of a type, and several."""


def describe_type(kind: Any) -> str:  # noqa: ANN401  (any annotation)
    """Describe what an argument may be.

    >>> describe_type(tuple[str, ...]), describe_type(float | None)
    ('a string, or several strings', 'a number')
    """
    arguments = get_args(kind)
    if get_origin(kind) is not tuple:
        return _describe_one(kind)
    if Ellipsis not in arguments:
        return f"two {_words(arguments[0])[1]}"
    if get_origin(arguments[0]) is tuple:
        return f"a dictionary of {_words(get_args(arguments[0])[1])[1]}"
    return f"{_describe_one(arguments[0])}, or several {_describe_several(arguments[0])}"


def describe_value(value: object) -> str:
    """Return a value as Python shows it, or its type where that is too long."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  (a user's object may fail even at this)
        text = ""
    return printable(text) if text and len(text) <= _LONGEST else f"({type(value).__name__})"


def _describe_one(kind: object) -> str:
    parts = _parts(kind)
    if Reading in parts:
        return "a path or a result"
    return describe_type(parts[0]) if get_origin(parts[0]) is tuple else _words(parts[0])[0]


def _describe_several(kind: object) -> str:
    parts = _parts(kind)
    return "of these" if len(parts) > 1 or parts[0] is bool else _words(parts[0])[1]


def _parts(kind: object) -> list[object]:
    """Return the alternatives of a type, without None, which stands for an argument that is not given."""
    alternatives = get_args(kind) if get_origin(kind) in {UnionType, Union} else (kind,)
    return [each for each in alternatives if each is not NoneType]


def _words(kind: object) -> tuple[str, str]:
    return _WORDS.get(kind, ("another value", "other values"))
