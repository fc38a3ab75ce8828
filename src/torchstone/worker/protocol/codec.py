"""Encode the records of the protocol as JSON, and decode and validate them."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from torchstone.core.text.safe_text import is_plain

LARGEST_INTEGER = 2**63 - 1
LARGEST_NUMBER = 1e100
"""No measured number is larger, and sums and products of numbers below it stay finite."""

DEEPEST = 260
"""Maximum nesting of lists and objects in a field of any JSON: two lists for each frame of the deepest call tree."""

Json = Any
"""Any JSON value."""

Message = dict[str, object]
"""A JSON object, as it is sent between processes."""

Check = Callable[[object, str], Any]
Record = TypeVar("Record")


class MalformedError(ValueError):
    """Raised for a message that does not fit the protocol: the field, what was expected, and what was found."""


@dataclasses.dataclass(frozen=True)
class AtLeast:
    """Annotation for the minimum of a number."""

    least: float


@dataclasses.dataclass(frozen=True)
class AtMost:
    """Annotation for the maximum of a number."""

    most: float


@dataclasses.dataclass(frozen=True)
class OneLine:
    """Annotation for a name: not empty, and without control characters."""


Count = Annotated[int, AtLeast(0)]
Seconds = Annotated[float, AtLeast(0)]
Name = Annotated[str, OneLine()]


def to_json(record: Any) -> Message:  # noqa: ANN401  (any dataclass)
    """Convert a record to a JSON object, without the fields that have their default value."""
    found: Message = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            found[field.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:  # noqa: ANN401  (any JSON value)
    if dataclasses.is_dataclass(value):
        return to_json(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def from_json(kind: type[Record], value: object, place: str = "") -> Record:
    """Convert a JSON object to a record; raise a MalformedError that names the first field that does not fit."""
    check: Check = _check_of(kind)  # type: ignore[arg-type]
    record: Record = check(value, place or kind.__name__)
    return record


def shown(value: object) -> str:
    """Return a short one-line description of a value, for error messages."""
    if isinstance(value, dict):
        return f"an object with {len(value)} fields" if value else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    text = repr(value) if not isinstance(value, int) or abs(value) <= LARGEST_INTEGER else "a huge integer"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _wrong(place: str, expected: str, value: object) -> MalformedError:
    return MalformedError(f"{place}: expected {expected}, found {shown(value)}")


@cache
def _check_of(kind: Any) -> Check:  # noqa: ANN401  (any annotation)
    """Return the function that validates values of a type."""
    if dataclasses.is_dataclass(kind):
        return _record_check(kind)
    if simple := _SIMPLE.get(kind):
        return simple
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return _bounded_check(_check_of(arguments[0]), arguments[1:])
    if origin is Literal:
        return _literal_check(arguments)
    if origin is tuple:
        return _list_check(arguments)
    if origin is dict:
        return _object_check(_check_of(arguments[1]))
    if origin in {types.UnionType, typing.Union}:
        return _union_check(arguments)
    raise TypeError(f"no check for {kind}")


def _record_check(kind: Any) -> Check:  # noqa: ANN401  (a dataclass)
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {field.name: (_check_of(hints[field.name]), field) for field in dataclasses.fields(kind)}

    def check(value: object, place: str) -> Any:  # noqa: ANN401  (any value)
        if not isinstance(value, dict):
            raise _wrong(place, "an object", value)
        found = {}
        for name, (check_field, field) in fields.items():
            if name in value:
                found[name] = check_field(value[name], f"{place}.{name}")
            elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise MalformedError(f"{place}: the field '{name}' is missing")
        if unknown := next((name for name in value if name not in fields), None):
            raise MalformedError(f"{place}: unknown field {shown(unknown)}")
        try:
            return kind(**found)
        except MalformedError:
            raise
        except ValueError as error:
            raise MalformedError(f"{place}: {error}") from None

    return check


def _list_check(arguments: tuple[Any, ...]) -> Check:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        each_check = _check_of(arguments[0])

        def check(value: object, place: str) -> tuple[Any, ...]:
            if not isinstance(value, list | tuple):
                raise _wrong(place, "a list", value)
            return tuple(each_check(each, f"{place}[{index}]") for index, each in enumerate(value))

        return check
    checks = [_check_of(each) for each in arguments]

    def check_all(value: object, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) != len(checks):
            raise _wrong(place, f"a list of {len(checks)}", value)
        pairs = enumerate(zip(checks, value, strict=True))
        return tuple(one(each, f"{place}[{index}]") for index, (one, each) in pairs)

    return check_all


def _object_check(each_check: Check) -> Check:
    def check(value: object, place: str) -> Message:
        if not isinstance(value, dict):
            raise _wrong(place, "an object", value)
        return {
            _text(key, f"{place}: a key"): each_check(each, f"{place}.{shown(key)}")
            for key, each in value.items()
        }

    return check


def _union_check(arguments: tuple[Any, ...]) -> Check:
    checks = [_check_of(each) for each in arguments]

    def check(value: object, place: str) -> Any:  # noqa: ANN401  (any value)
        problem: MalformedError | None = None
        for one in checks:
            try:
                return one(value, place)
            except MalformedError as error:
                problem = problem or error
        raise problem or _wrong(place, "nothing", value)

    return check


def _literal_check(known: tuple[Any, ...]) -> Check:
    def check(value: object, place: str) -> Any:  # noqa: ANN401  (any value)
        if not isinstance(value, str) or value not in known:
            raise _wrong(place, f"one of {', '.join(known)}", value)
        return value

    return check


def _bounded_check(check_value: Check, bounds: tuple[Any, ...]) -> Check:
    def check(value: object, place: str) -> Any:  # noqa: ANN401  (any value)
        found = check_value(value, place)
        for bound in bounds:
            if isinstance(bound, AtLeast) and found < bound.least:
                raise _wrong(place, f"at least {bound.least:g}", value)
            if isinstance(bound, AtMost) and found > bound.most:
                raise _wrong(place, f"at most {bound.most:g}", value)
            if isinstance(bound, OneLine) and not (found and is_plain(found)):
                raise _wrong(place, "a name on one line", value)
        return found

    return check


def _text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise _wrong(place, "a text", value)
    if not value.isascii() and any("\ud800" <= each <= "\udfff" for each in value):
        raise MalformedError(f"{place}: expected a text, found one that is not valid Unicode")
    return value


def _integer(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > LARGEST_INTEGER:
        raise _wrong(place, "an integer", value)
    return value


def _number(value: object, place: str) -> float:
    """Check for a finite number that is not huge; an integer stays one."""
    if isinstance(value, int):
        return _integer(value, place)
    if not isinstance(value, float) or not math.isfinite(value) or abs(value) > LARGEST_NUMBER:
        raise _wrong(place, "a finite number", value)
    return value


def _boolean(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(place, "true or false", value)
    return value


def _nothing(value: object, place: str) -> None:
    if value is not None:
        raise _wrong(place, "null", value)


def _any_json(value: object, place: str, depth: int = 0) -> Any:  # noqa: ANN401  (any value)
    """Check for any JSON that can be written to a file and read again."""
    if depth > DEEPEST:
        raise MalformedError(f"{place}: lists and objects are nested too deeply")
    if isinstance(value, dict):
        return {
            _text(key, f"{place}: a key"): _any_json(each, f"{place}.{shown(key)}", depth + 1)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_any_json(each, f"{place}[{index}]", depth + 1) for index, each in enumerate(value)]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, place)
    return _number(value, place)


_SIMPLE: dict[Any, Check] = {
    str: _text,
    int: _integer,
    float: _number,
    bool: _boolean,
    type(None): _nothing,
    Any: _any_json,
}
