"""Places in the source code of a model: short paths, whose code it is, and the text of a line."""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from functools import cache

LONGEST_SOURCE = 200
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = ("site-packages", "dist-packages")
_GENERATED = re.compile(r"torchinductor|^<|fxgraph|(?:^|[/\\])\w\w[/\\]c\w{40,}\.py$")
_FRAMEWORK = ("torch/", "torch" + os.sep, "torchstone/worker/")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@cache
def shorten(file: str) -> str:
    """Return a path relative to the longest import path that contains it, as torch's profiler does."""
    folders = sorted((os.path.abspath(path) + os.sep for path in sys.path if path), key=len, reverse=True)
    return next((file[len(folder) :] for folder in folders if file.startswith(folder)), file)


@cache
def _resolve(short: str) -> str:
    """Return the file that a short path stands for."""
    if os.path.isabs(short):
        return short
    return next((path for folder in sys.path if os.path.isfile(path := os.path.join(folder, short))), short)


@cache
def is_of_user(short: str) -> bool:
    """Return whether a file may be the model's code: not torch's, not Python's, not generated, not torchstone's."""
    if short.startswith(_FRAMEWORK) or _GENERATED.search(short):
        return False
    file = _resolve(short)
    if file.startswith(_STANDARD_LIBRARY):
        return any(f"{os.sep}{folder}{os.sep}" in file for folder in _PACKAGES)
    return os.path.isabs(file)


def read_line(place: str) -> str:
    """Return the source line at a place; empty if it cannot be read."""
    short, _, line = place.rpartition(":")
    if not short or not line.isdigit():
        return ""
    return linecache.getline(_resolve(short), int(line)).strip()[:LONGEST_SOURCE]


def innermost_place(stack: str) -> str:
    """Return the innermost place of the model's code in a formatted stack; empty if there is none."""
    places = [f"{short}:{line}" for file, line in _FRAME.findall(stack) if is_of_user(short := shorten(file))]
    return places[-1] if places else ""
