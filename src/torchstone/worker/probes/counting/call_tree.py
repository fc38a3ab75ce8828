"""Record every Python call by the stack it was made from."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import Any

from torch._dynamo.eval_frame import skip_code

from torchstone.worker.probes.counting.counters import place_of

DEEPEST = 120
"""The maximum depth; deeper calls count for the deepest frame that is kept."""
LEAST_SHARE = 0.0005
"""Minimum share of all calls; smaller stacks are merged with their neighbours."""


class _Node:
    """A function in its calling context: number of calls, and its callees."""

    __slots__ = ("below", "own")

    def __init__(self) -> None:
        self.own = 0
        self.below: dict[CodeType | str, _Node] = {}

    def child(self, key: CodeType | str) -> _Node:
        node = self.below.get(key)
        if node is None:
            node = self.below[key] = _Node()
        return node


class CallTree:
    """Record calls between ``start`` and ``stop``, which may be repeated."""

    def __init__(self) -> None:
        self._root = _Node()
        self._stack = [self._root]
        for watching in (CallTree._note, _Node.child):  # otherwise dynamo would try to compile the profiler
            skip_code(watching.__code__)

    def start(self) -> None:
        """Start recording."""
        del self._stack[1:]
        sys.setprofile(self._note)

    def stop(self) -> None:
        """Stop recording."""
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, called: Any) -> None:  # noqa: ANN401  (depends on the event)
        stack = self._stack
        if event == "call":
            node = stack[-1].child(frame.f_code) if len(stack) <= DEEPEST else stack[-1]
            node.own += 1
            stack.append(node)
        elif event == "return":
            if len(stack) > 1:
                stack.pop()
        elif event == "c_call" and called is not sys.setprofile:
            name = getattr(called, "__qualname__", None) or type(called).__name__
            stack[-1].child(name).own += 1

    def total(self) -> int:
        """Return the number of calls."""
        return _sums(self._root)[id(self._root)]

    def as_lists(self, name: str) -> list[Any]:
        """Return ``[name, own, children]``, most calls first, with small children merged."""
        sums = _sums(self._root)
        return _as_lists(self._root, name, sums, LEAST_SHARE * sums[id(self._root)])


def _sums(root: _Node) -> dict[int, int]:
    """Return the inclusive count of each node."""
    sums: dict[int, int] = {}
    waiting = [(root, False)]
    while waiting:
        node, is_below_done = waiting.pop()
        if is_below_done:
            sums[id(node)] = node.own + sum(sums[id(each)] for each in node.below.values())
        else:
            waiting.append((node, True))
            waiting += [(each, False) for each in node.below.values()]
    return sums


def _as_lists(node: _Node, name: str, sums: dict[int, int], least: float) -> list[Any]:
    large = [(key, each) for key, each in node.below.items() if sums[id(each)] >= least]
    large.sort(key=lambda item: (-sums[id(item[1])], _name(item[0])))
    rest = sum(sums[id(each)] for each in node.below.values()) - sum(sums[id(each)] for _, each in large)
    below = [_as_lists(each, _name(key), sums, least) for key, each in large]
    return [name, node.own, [*below, *([["(rest)", rest, []]] if rest else [])]]


def _name(key: CodeType | str) -> str:
    file, function = place_of(key)
    return f"{function} ({file})" if file else function
