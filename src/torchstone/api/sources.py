"""Read the inputs of a request; inputs that are already read are passed through."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.records import Reading
from torchstone.formats import read_file
from torchstone.formats.merge import fill_in, parse_axes

Axes = tuple[tuple[str, str], ...]
Input = str | Reading
"""An input of a request: the name of a file, or a reading."""


def read_inputs(inputs: Sequence[Input], kind: str = "", axes: Axes = ()) -> list[Reading]:
    """Read results, and fill in the axes that the user stated."""
    stated = parse_axes(f"{axis}={value}" for axis, value in axes)
    return [fill_in(read_input(each, kind), stated) for each in inputs]


def read_input(given: Input, kind: str = "") -> Reading:
    """Read a file, unless it is already read."""
    return given if isinstance(given, Reading) else read_file(given, kind)


def names_of(inputs: Sequence[Input]) -> tuple[str, ...]:
    """Return the names of the files."""
    return tuple(each.path if isinstance(each, Reading) else each for each in inputs)
