"""Find where a module would be imported from, and whether it is installed, without executing anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder

from msgspec import Struct, structs

from torchstone.suites import ENTRY_POINTS

_OF_TORCH = frozenset({"torch_dynamo_backends", "torch.backends"})


def installed_path() -> list[str]:
    """Return the search path of installed modules: without the started script's folder and the current folder."""
    own = sys.path if sys.flags.safe_path else sys.path[1:]
    here = os.path.realpath(os.getcwd())
    return [each for each in own if each and os.path.realpath(each) != here]


def is_installed_suite(name: str) -> bool:
    """Return whether an installed package provides a suite of this name."""
    return any(
        entry.group == ENTRY_POINTS and entry.name == name
        for distribution in metadata.distributions(path=installed_path())
        for entry in distribution.entry_points
    )


class Located(Struct, frozen=True):
    """The files that importing a module would execute, outermost package first; ``is_complete`` is false if the module was not found."""

    files: tuple[str, ...]
    is_installed: bool
    is_complete: bool


def locate(name: str, folder: str) -> Located:
    """Find where a worker would import a module from; it searches ``folder`` after installed modules."""
    found = _walk(name, installed_path())
    if found.files:
        return structs.replace(found, is_installed=True)
    return _walk(name, [*installed_path(), folder])


def _walk(name: str, search: Sequence[str]) -> Located:
    """Find a module and its packages, outermost first, as the import system would."""
    files: list[str] = []
    full = ""
    for part in name.split("."):
        spec = _find(full, part, search)
        if spec is None:
            return Located(tuple(files), is_installed=False, is_complete=False)
        full = f"{full}.{part}".lstrip(".")
        if spec.origin:
            files.append(os.path.realpath(spec.origin) if spec.has_location else f"({spec.origin})")
        search = list(spec.submodule_search_locations or ())
    return Located(tuple(files), is_installed=False, is_complete=True)


def _find(parent: str, part: str, search: Sequence[str]) -> ModuleSpec | None:
    """Return the spec of a module; a top-level one may also be built in, frozen, or found by an installed finder."""
    name = f"{parent}.{part}".lstrip(".")
    spec = PathFinder.find_spec(name, search) if search else None
    if parent or (spec is not None and spec.origin is not None):
        return spec
    others = (each for each in sys.meta_path if each is not PathFinder and hasattr(each, "find_spec"))
    return next((found for each in others if (found := each.find_spec(name, None)) is not None), spec)


def extends_torch(name: str) -> bool:
    """Return whether a module is in an installed package that registers a backend or device with torch, which torch imports anyway."""
    top = name.partition(".")[0]
    return any(
        entry.group in _OF_TORCH and entry.value.partition(":")[0].partition(".")[0].strip() == top
        for distribution in metadata.distributions(path=installed_path())
        for entry in distribution.entry_points
    )
