"""Collect what the files state about code and machine: common facts once, differences by file."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from torchstone.core.records import Reading
from torchstone.core.run_settings import JsonObject

NOT_STATED = "(not stated)"


class FactDifference(Struct, frozen=True):
    """A fact in which files differ: each value as text, with its files."""

    path: tuple[str, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]


class FileFacts(Struct, frozen=True):
    """Revision, environment and settings of all files. ``silent`` are the files that state none of them."""

    common: JsonObject
    differences: tuple[FactDifference, ...] = ()
    silent: tuple[str, ...] = ()


def collect_facts(readings: Sequence[Reading]) -> FileFacts:
    """Collect the facts of all files."""
    stated = {reading.path: document for reading in readings if (document := _document(reading))}
    silent = tuple(reading.path for reading in readings if reading.path not in stated)
    differences: list[FactDifference] = []
    common = _common((), stated, differences)
    return FileFacts(common, tuple(differences), silent)


def _document(reading: Reading) -> JsonObject:
    run = reading.run
    revision: JsonObject = msgspec.to_builtins(run.revision)
    parts = {
        "revision": revision,
        "environment": run.environment.to_mapping(),
        "settings": run.settings.to_mapping(),
    }
    return {name: part for name, part in parts.items() if part}


def _common(
    path: tuple[str, ...], documents: dict[str, JsonObject], differences: list[FactDifference]
) -> JsonObject:
    """Return the facts that all documents share; the others are added to ``differences``."""
    common: JsonObject = {}
    for key in dict.fromkeys(key for document in documents.values() for key in document):
        values = {file: document.get(key, NOT_STATED) for file, document in documents.items()}
        first, *others = values.values()
        if all(value == first for value in others):
            common[key] = first
        elif all(isinstance(value, dict) for value in values.values()):
            if below := _common((*path, key), values, differences):
                common[key] = below
        else:
            differences.append(_difference((*path, key), values))
    return common


def _difference(path: tuple[str, ...], values: JsonObject) -> FactDifference:
    files: dict[str, list[str]] = {}
    for file, value in values.items():
        files.setdefault(text_of(value), []).append(file)
    return FactDifference(path, tuple((text, tuple(names)) for text, names in files.items()))


def text_of(value: object) -> str:
    """Format a fact: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
