"""Collect what the files state about code and machine: common facts once, differences by file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from torchstone.core.records import Reading

NOT_STATED = "(not stated)"


class FactDifference(Struct, frozen=True):
    """A fact in which files differ: each value as text, with its files."""

    path: tuple[str, ...]
    values: tuple[tuple[str, tuple[str, ...]], ...]


class FileFacts(Struct, frozen=True):
    """Revision, environment and settings of all files. ``silent`` are the files that state none of them."""

    common: Mapping[str, Mapping[str, object]]
    differences: tuple[FactDifference, ...] = ()
    silent: tuple[str, ...] = ()


def collect_facts(readings: Sequence[Reading]) -> FileFacts:
    """Collect the facts of all files."""
    stated = {reading.path: document for reading in readings if (document := _document(reading))}
    silent = tuple(reading.path for reading in readings if reading.path not in stated)
    differences: list[FactDifference] = []
    common = _common((), stated, differences)
    sections = {name: part for name, part in common.items() if isinstance(part, dict)}
    return FileFacts(sections, tuple(differences), silent)


def _document(reading: Reading) -> dict[str, object]:
    run = reading.run
    revision: dict[str, object] = msgspec.to_builtins(run.revision)
    parts = {
        "revision": revision,
        "environment": run.environment.to_mapping(),
        "settings": run.settings.to_mapping(),
    }
    return {name: part for name, part in parts.items() if part}


def _common(
    path: tuple[str, ...], documents: Mapping[str, Mapping[str, object]], differences: list[FactDifference]
) -> dict[str, object]:
    """Return the facts that all documents share; the others are added to ``differences``."""
    common: dict[str, object] = {}
    for key in dict.fromkeys(key for document in documents.values() for key in document):
        values = {file: document.get(key, NOT_STATED) for file, document in documents.items()}
        first, *others = values.values()
        if all(value == first for value in others):
            common[key] = first
        elif len(inner := {file: v for file, v in values.items() if isinstance(v, dict)}) == len(values):
            if below := _common((*path, key), inner, differences):
                common[key] = below
        else:
            differences.append(_difference((*path, key), values))
    return common


def _difference(path: tuple[str, ...], values: Mapping[str, object]) -> FactDifference:
    files: dict[str, list[str]] = {}
    for file, value in values.items():
        files.setdefault(text_of(value), []).append(file)
    return FactDifference(path, tuple((text, tuple(names)) for text, names in files.items()))


def text_of(value: object) -> str:
    """Format a fact: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
