"""Merge, subtract and look up JSON objects, whose values may have any type."""

from __future__ import annotations

from torchstone.core.run_settings import JsonObject
from torchstone.core.text.safe_text import is_plain


def object_at(value: JsonObject, name: str) -> JsonObject:
    """Return the object under a key; an empty one where there is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def non_empty(record: JsonObject) -> JsonObject:
    """Drop the keys whose value is empty or None."""
    return {key: value for key, value in record.items() if value not in ("", {}, [], None)}


def absent_from(record: JsonObject, known: JsonObject) -> JsonObject:
    """Return the keys of ``known`` that ``record`` lacks, as null."""
    absent: JsonObject = {}
    for key, value in known.items():
        if key not in record:
            absent[key] = None
        elif isinstance(value, dict) and isinstance(record[key], dict):
            absent |= {key: inner} if (inner := absent_from(record[key], value)) else {}
    return absent


def without(record: JsonObject, absent: JsonObject) -> JsonObject:
    """Return ``record`` without the keys that are null in ``absent``."""
    return {
        key: without(value, absent[key])
        if isinstance(value, dict) and isinstance(absent.get(key), dict)
        else value
        for key, value in record.items()
        if absent.get(key, "") is not None
    }


def subtract(record: JsonObject, known: JsonObject) -> JsonObject:
    """Return the leaves of ``record`` that ``known`` lacks or has with another value."""
    rest: JsonObject = {}
    for key, value in record.items():
        if key not in known:
            rest[key] = value
        elif isinstance(value, dict) and isinstance(known[key], dict):
            if (inner := subtract(value, known[key])) or not value:
                rest[key] = inner
        elif value != known[key] or type(value) is not type(known[key]):
            rest[key] = value
    return rest


def merge(known: JsonObject, rest: JsonObject) -> JsonObject:
    """Return ``known`` with ``rest`` merged over it."""
    merged = dict(known)
    for key, value in rest.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def plain_text(value: object) -> str:
    """Return a text that can be part of a case id; empty otherwise."""
    return value if isinstance(value, str) and is_plain(value) else ""


def text_at(facts: JsonObject, name: str) -> str:
    """Return the one-line text under a key; empty otherwise."""
    return plain_text(facts.get(name))
