"""Read callgrind's output: the total, and each function's own count.

Run as a program, it reads the named files and prints their contents, so that a process under valgrind can
delegate reading to one that is not.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence

_NAMED = re.compile(r"(c?)(ob|fl|fi|fe|fn)=(?:\((\d+)\))?\s*(.*)")
_UNKNOWN = "???"
_TAIL = 4096  # bytes to read from the end of a file: the last line has the total


class CallgrindError(Exception):
    """Raised for a file that callgrind did not write."""


def read_total(path: str) -> int:
    """Return the total number of instructions, from the end of the file."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _TAIL))
        for line in file.read().splitlines():
            if line.startswith(b"totals:"):
                return int(line.split()[1])
    raise CallgrindError("it has no totals")


def read_elsewhere(paths: Sequence[str]) -> list[dict[tuple[str, str], int]]:
    """Run ``read_functions`` on these files in a process that is not under valgrind."""
    if not paths:
        return []
    command = [sys.executable, "-P", os.path.abspath(__file__)]
    done = subprocess.run(  # noqa: S603  (our own interpreter, and this file)
        command, input=json.dumps(list(paths)), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CallgrindError(done.stderr.strip().rpartition("\n")[2])
    return [{(library, name): cost for library, name, cost in found} for found in json.loads(done.stdout)]


def main() -> None:
    """Read the files named on standard input, and print their functions."""
    found = []
    for path in json.loads(sys.stdin.read()):
        with open(path, errors="replace") as file:
            found.append([[library, name, cost] for (library, name), cost in read_functions(file).items()])
    sys.stdout.write(json.dumps(found))


def read_functions(lines: Iterable[str]) -> dict[tuple[str, str], int]:
    """Return each function's own instructions by library and name, excluding its callees."""
    names = _FunctionNames()
    costs: dict[tuple[str, str], int] = {}
    place = ("", "")
    follows_call = False
    for line in lines:
        start = line[:1]
        if start in "0123456789+-*":
            if not follows_call and (cost := _cost_of(line)):
                costs[place] = costs.get(place, 0) + cost
            follows_call = False
        elif line.startswith("calls="):
            follows_call = True
        elif (found := _NAMED.match(line)) is not None:
            called, kind, number, name = found.groups()
            known = names.name("file" if kind in {"fl", "fi", "fe"} else kind, number, name)
            if not called and kind == "ob":
                place = (known, place[1])
            elif not called and kind == "fn":
                place = (place[0], known)
    return {(os.path.basename(library), name): cost for (library, name), cost in _merged(costs)}


def _merged(costs: dict[tuple[str, str], int]) -> Iterator[tuple[tuple[str, str], int]]:
    """Merge inlined parts and multiple entries of a function, which callgrind marks with a quote and a number."""
    merged: dict[tuple[str, str], int] = {}
    for (library, name), cost in costs.items():
        key = (library or _UNKNOWN, re.sub(r"'\d+$", "", name) or _UNKNOWN)
        merged[key] = merged.get(key, 0) + cost
    yield from merged.items()


def _cost_of(line: str) -> int:
    parts = line.split()
    return int(parts[1]) if len(parts) > 1 else 0


class _FunctionNames:
    """Names that are written once and referred to by number afterwards."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}

    def name(self, kind: str, number: str | None, name: str) -> str:
        """Return the name for a number; remember a new one."""
        if number is None:
            return name
        if name:
            self._known[kind, number] = name
        return self._known.get((kind, number), _UNKNOWN)


if __name__ == "__main__":
    main()
