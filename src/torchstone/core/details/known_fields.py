"""Split a JSON object into the fields that a record knows and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from msgspec import Struct, ValidationError, convert, to_builtins

from torchstone.core.text.redaction import redact_values

_Details = TypeVar("_Details", bound=Struct)


def take_known(
    stated: Mapping[str, object], kind: type[_Details]
) -> tuple[_Details | None, dict[str, object] | None]:
    """Return the fields of ``stated`` that fit the record, and the rest; None for either if there are none.

    A value of another form than the field's stays in the rest:

    >>> from torchstone.core.details.capture_details import CaptureDetails
    >>> take_known({"recompile_reasons": ["size"], "graph_breaks": "many"}, CaptureDetails)
    (CaptureDetails(graph_breaks=(), recompile_reasons=('size',)), {'graph_breaks': 'many'})
    """
    known = {name: stated[name] for name in kind.__struct_fields__ if name in stated}
    if not known:
        return None, dict(stated) or None
    try:
        record = convert(known, kind)
    except ValidationError:
        known = {name: value for name, value in known.items() if _fits(name, value, kind)}
        record = convert(known, kind)
    rest = {name: value for name, value in stated.items() if name not in known}
    return record if known else None, rest or None


def _fits(name: str, value: object, kind: type[Struct]) -> bool:
    try:
        convert({name: value}, kind)
    except ValidationError:
        return False
    return True


def facts_of(details: Struct | None, extra: Mapping[str, object] | None) -> dict[str, object]:
    """Return everything that is stated, by name: the fields of the record, then the keys that have none."""
    known: dict[str, object] = to_builtins(details) if details is not None else {}
    return {**known, **(extra or {})}


def redact_details(details: _Details | None) -> _Details | None:
    """Return the same record without the credentials of URLs."""
    return details and convert(redact_values(to_builtins(details)), type(details))
