"""Walks through the code as docs/architecture.md has them: read them, find their functions, and follow them in real calls."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torchstone

PACKAGE = Path(torchstone.__file__).parent
STEP = re.compile(r"^( *)([\w/]+\.py): ([\w.]+)(?: {2,}\S.*)?$")


class Step(NamedTuple):
    """A function of a walk: its module and name, and the steps that it is called by."""

    module: str
    name: str
    callers: tuple[str, ...]

    @property
    def key(self) -> str:
        """The step as it is written."""
        return f"{self.module}: {self.name}"


class Block(NamedTuple):
    """Steps that follow each other in one process."""

    process: str
    steps: tuple[Step, ...]


class Call(NamedTuple):
    """A call that was made, and the calls it was made by."""

    key: str
    callers: frozenset[str]


def read_walks(page: str) -> dict[str, list[Block]]:
    """The walks of a page by their headings; a line that is not a step is an error."""
    walks = {}
    for section in page.split("\n## ")[1:]:
        blocks = re.findall(r"```text\n# ([^\n]+)\n(.*?)```", section, re.DOTALL)
        if blocks:
            walks[section.partition("\n")[0]] = [Block(title, _read_steps(text)) for title, text in blocks]
    return walks


def _read_steps(text: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    path: list[str] = []
    for line in text.splitlines():
        found = STEP.match(line)
        assert found, line
        depth = len(found[1]) // 2
        assert depth <= len(path), f"indented too far: {line}"
        del path[depth:]
        steps.append(Step(found[2], found[3], tuple(path)))
        path.append(steps[-1].key)
    return tuple(steps)


@cache
def names_in(module: str) -> frozenset[str]:
    """All functions and classes that a module defines, with the names of those they are in."""

    def names(node: ast.AST, before: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            inner = before
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{before}{child.name}."
                yield inner[:-1]
            yield from names(child, inner)

    return frozenset(names(ast.parse((PACKAGE / module).read_text()), ""))


@contextmanager
def recorded(keys: Collection[str]) -> Iterator[list[Call]]:
    """Record the calls of these functions that are made meanwhile."""
    calls: list[Call] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and (key := _key_of(frame)) in keys:
            calls.append(Call(key, frozenset(_callers_of(frame))))

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def _key_of(frame: FrameType) -> str:
    module = frame.f_code.co_filename.removeprefix(f"{PACKAGE}/")
    return f"{module}: {frame.f_code.co_qualname.replace('<locals>.', '')}"


def _callers_of(frame: FrameType) -> Iterator[str]:
    caller = frame.f_back
    while caller is not None:
        yield _key_of(caller)
        caller = caller.f_back


def first_not_taken(steps: Sequence[Step], calls: Sequence[Call]) -> str:
    """The first step that no call takes, after the steps before it and below its callers; empty if all are taken."""
    rest = iter(calls)
    for step in steps:
        if not any(call.key == step.key and call.callers.issuperset(step.callers) for call in rest):
            return step.key
    return ""
