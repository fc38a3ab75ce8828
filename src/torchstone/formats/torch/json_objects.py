"""Merge, subtract and look up JSON objects, whose values may have any type."""

from __future__ import annotations

from collections.abc import Mapping

from torchstone.core.text.safe_text import is_plain


def object_at(value: Mapping[str, object], name: str) -> dict[str, object]:
    """Return the object under a key; an empty one where there is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def non_empty(record: Mapping[str, object]) -> dict[str, object]:
    """Drop the keys whose value is empty or None."""
    return {key: value for key, value in record.items() if value not in ("", {}, [], None)}


def absent_from(record: Mapping[str, object], known: Mapping[str, object]) -> dict[str, object]:
    """Return the keys of ``known`` that ``record`` lacks, as null."""
    absent: dict[str, object] = {}
    for key, value in known.items():
        if key not in record:
            absent[key] = None
        elif isinstance(value, dict) and isinstance(there := record[key], dict):
            absent |= {key: inner} if (inner := absent_from(there, value)) else {}
    return absent


def without(record: Mapping[str, object], absent: Mapping[str, object]) -> dict[str, object]:
    """Return ``record`` without the keys that are null in ``absent``."""
    return {
        key: without(value, inner)
        if isinstance(value, dict) and isinstance(inner := absent.get(key), dict)
        else value
        for key, value in record.items()
        if absent.get(key, "") is not None
    }


def subtract(record: Mapping[str, object], known: Mapping[str, object]) -> dict[str, object]:
    """Return the leaves of ``record`` that ``known`` lacks or has with another value."""
    rest: dict[str, object] = {}
    for key, value in record.items():
        if key not in known:
            rest[key] = value
        elif isinstance(value, dict) and isinstance(there := known[key], dict):
            if (inner := subtract(value, there)) or not value:
                rest[key] = inner
        elif value != known[key] or type(value) is not type(known[key]):
            rest[key] = value
    return rest


def merge(known: Mapping[str, object], rest: Mapping[str, object]) -> dict[str, object]:
    """Return ``known`` with ``rest`` merged over it."""
    merged = dict(known)
    for key, value in rest.items():
        there = merged.get(key)
        merged[key] = merge(there, value) if isinstance(value, dict) and isinstance(there, dict) else value
    return merged


def plain_text(value: object) -> str:
    """Return a text that can be part of a case id; empty otherwise."""
    return value if isinstance(value, str) and is_plain(value) else ""


def text_at(facts: Mapping[str, object], name: str) -> str:
    """Return the one-line text under a key; empty otherwise."""
    return plain_text(facts.get(name))
