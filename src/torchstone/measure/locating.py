"""Where a module would be imported from, and whether it is installed, without importing or executing anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder

from torchstone.suites import ENTRY_POINTS


def installed_path() -> list[str]:
    """Where modules are searched for whatever is measured: not beside the script that was started, nor in the current folder."""
    own = sys.path if sys.flags.safe_path else sys.path[1:]
    here = os.path.realpath(os.getcwd())
    return [each for each in own if each and os.path.realpath(each) != here]


def is_installed_suite(name: str) -> bool:
    """Whether an installed package offers a suite of this name."""
    return any(
        entry.group == ENTRY_POINTS and entry.name == name
        for distribution in metadata.distributions(path=installed_path())
        for entry in distribution.entry_points
    )


def locate(name: str, folder: str) -> list[str]:
    """The files of a module and of the packages around it that importing it would execute, if they are found only with the help of ``folder``.

    None where it is installed, or where there is no such module.
    """
    top = name.partition(".")[0]
    if _find_installed(top) is not None:
        return []
    files: list[str] = []
    search: Sequence[str] | None = [folder]
    full = ""
    for part in name.split("."):
        full = f"{full}.{part}".lstrip(".")
        spec = PathFinder.find_spec(full, search) if search else None
        if spec is None:
            break
        if spec.has_location and spec.origin:
            files.append(os.path.realpath(spec.origin))
        search = list(spec.submodule_search_locations or ())
    return files


def _find_installed(name: str) -> ModuleSpec | None:
    """How a top-level module would be imported without the run's folder."""
    spec = PathFinder.find_spec(name, installed_path())
    if spec is not None and spec.origin is not None:
        return spec
    others = (each for each in sys.meta_path if each is not PathFinder and hasattr(each, "find_spec"))
    return next((found for each in others if (found := each.find_spec(name, None)) is not None), None)
