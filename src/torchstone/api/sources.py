"""Read the inputs of a request; inputs that are already read are passed through."""

from __future__ import annotations

import os
from collections.abc import Sequence

from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Reading
from torchstone.formats import read_file
from torchstone.formats.merge import fill_in, parse_axes

Axes = tuple[tuple[str, str], ...]
ENDINGS = (".jsonl", ".json", ".csv")
"""Endings of the names of files of results and baselines."""
Input = str | Reading
"""An input of a request: the name of a file, or a reading."""


def require_given(inputs: Sequence[Input], example: str) -> None:
    """Raise an error if a request has no results; ``example`` is a command that has some."""
    if not inputs:
        raise UsageError("no results given", advice=f"for example: {example}")


def read_inputs(inputs: Sequence[Input], kind: str = "", axes: Axes = ()) -> list[Reading]:
    """Read results, and fill in the axes that the user stated."""
    stated = parse_axes(f"{axis}={value}" for axis, value in axes)
    return [fill_in(read_input(each, kind), stated) for each in inputs]


def read_input(given: Input, kind: str = "") -> Reading:
    """Read a file, unless it is already read."""
    return given if isinstance(given, Reading) else read_file(given, kind)


def list_baselines(inputs: Sequence[Input]) -> tuple[Input, ...]:
    """Return the inputs with each folder replaced by the baselines in it, sorted by name."""
    if not any(isinstance(each, str) and os.path.isdir(each) for each in inputs):
        return tuple(inputs)
    return tuple(
        file
        for each in inputs
        for file in (
            files_in(each, needed=True) if isinstance(each, str) and os.path.isdir(each) else (each,)
        )
    )


def files_in(folder: str, *, needed: bool = False) -> list[str]:
    """Return the files of a folder that may be results or baselines, sorted by name; raise an error if one is needed."""
    listed = sorted(name for name in os.listdir(folder) if name.endswith(ENDINGS) and name[0] != ".")
    if needed and not listed:
        raise InputError(
            "no baseline in this folder",
            path=folder,
            advice=f"start one with 'torchstone accept RESULTS --baseline {folder} --add-new', or name a file",
        )
    return [os.path.join(folder, name) for name in listed]


def names_of(inputs: Sequence[Input]) -> tuple[str, ...]:
    """Return the names of the files."""
    return tuple(each.path if isinstance(each, Reading) else each for each in inputs)
