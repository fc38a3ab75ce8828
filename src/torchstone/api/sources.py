"""The inputs of a request -> readings: files are read, readings are taken as they are."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.records import Reading
from torchstone.formats import read_file
from torchstone.formats.merge import fill_in, parse_axes

Axes = tuple[tuple[str, str], ...]
Input = str | Reading
"""A source in a request: the name of a file that is still to be read, or a reading."""


def read_inputs(inputs: Sequence[Input], kind: str = "", axes: Axes = ()) -> list[Reading]:
    """Read results; axes that the user states are filled in."""
    stated = parse_axes(f"{axis}={value}" for axis, value in axes)
    return [fill_in(read_input(each, kind), stated) for each in inputs]


def read_input(given: Input, kind: str = "") -> Reading:
    """Read one file, unless it is a reading already."""
    return given if isinstance(given, Reading) else read_file(given, kind)


def names_of(inputs: Sequence[Input]) -> tuple[str, ...]:
    """The files, as the user named them."""
    return tuple(each.path if isinstance(each, Reading) else each for each in inputs)
