"""Divide a series into overlapping windows, so that a change is decided once and for all.

A window sees 512 points and decides about those in its middle: the outer 128 are context. The first window also
decides about the start of the series, the last one about its end. What a window finds depends on its own points
only. So windows can be processed side by side, and a window that is not the last is never processed again.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

LENGTH = 512
STEP = 256
CONTEXT = (LENGTH - STEP) // 2
SEAM = 4
"""Two windows may place one change this far apart; the window that decides first wins."""


class Window(Struct, frozen=True):
    """Points `start` to `stop` are seen, changes from `decides_from` to before `decides_to` are decided."""

    start: int
    stop: int
    decides_from: int
    decides_to: int
    is_last: bool


def divide(count: int, *, resumed: bool = False) -> Iterator[Window]:
    """Yield the windows of a series of `count` points; with `resumed`, index 0 is where a later window starts."""
    start = 0
    while True:
        is_last = start + LENGTH >= count
        yield Window(
            start,
            min(start + LENGTH, count),
            start + CONTEXT if start or resumed else 0,
            count if is_last else start + LENGTH - CONTEXT,
            is_last,
        )
        if is_last:
            return
        start += STEP


def is_known(index: int, last_known: int | None) -> bool:
    """Return whether a change at this index is one that the window before has already decided."""
    return last_known is not None and index - last_known <= SEAM
