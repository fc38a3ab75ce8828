"""Drop candidates, the least certain first, until all that remain are certain enough.

The certainty of a candidate is a logistic function of its features. Its weights were fitted to the marks of people
on series of benchmarks (docs/changes.md says how, and how well it does on series that it was not fitted to). A dropped
candidate joins the levels on both sides, so its neighbours are described anew.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from torchstone.analyze.changepoints.change_point import FRESH
from torchstone.analyze.changepoints.features import Candidates, Scaled, describe

INTERCEPT = -5.5
WEIGHTS = (0.61, 0.61, 2.0, 0.4, -1.2, 0.3, 0.47, 0.43)
"""One for each of FEATURES in the module of features."""
HEAD_START = 1.5
"""In log odds: while the last candidate is fresh, it has so much less to prove."""


_AT_ONCE = 512  # candidates described in one piece: their pairs of points take memory


class Kept(Struct, frozen=True):
    """A candidate that remains, with its certainty and the levels beside it in units of the noise."""

    at: int
    certainty: float
    before: float
    after: float


class _Standing(Struct):
    """What is known about a candidate as long as its neighbours stay."""

    at: int
    score: float = math.nan
    before: float = 0.0
    after: float = 0.0


def prune(
    windows: Scaled, candidates: list[list[int]], is_last: list[bool], certainty: float
) -> list[list[Kept]]:
    """Return what remains of the candidates of each window.

    In the last window of a series, the last candidate is kept on less evidence if it is fresh.
    """
    rows = [[_Standing(at) for at in each] for each in candidates]
    needed = math.log(certainty / (1 - certainty))
    stale = [(row, place) for row, standings in enumerate(rows) for place in range(len(standings))]
    while stale:
        _score(windows, rows, stale)
        touched = sorted({row for row, _ in stale})
        stale = []
        for row in touched:
            fresh_from = windows.counts[row] - FRESH if is_last[row] else math.inf
            place = _find_weakest(rows[row], needed, fresh_from)
            if place is not None:
                del rows[row][place]
                stale += [(row, each) for each in (place - 1, place) if 0 <= each < len(rows[row])]
    return [[Kept(e.at, _logistic(e.score), e.before, e.after) for e in each] for each in rows]


def _score(windows: Scaled, rows: list[list[_Standing]], stale: list[tuple[int, int]]) -> None:
    """Describe the stale candidates, given the neighbours that they have now."""
    for first in range(0, len(stale), _AT_ONCE):
        part = stale[first : first + _AT_ONCE]
        features, before, after = describe(windows, _tabulate(windows, rows, part))
        scores = INTERCEPT + (features * WEIGHTS).sum(axis=1)
        for (row, place), *facts in zip(part, scores.tolist(), before.tolist(), after.tolist(), strict=True):
            rows[row][place] = _Standing(rows[row][place].at, *facts)


def _tabulate(windows: Scaled, rows: list[list[_Standing]], part: list[tuple[int, int]]) -> Candidates:
    table = np.empty((4, len(part)), dtype=np.intp)
    for column, (row, place) in enumerate(part):
        row_of = rows[row]
        start = row_of[place - 1].at if place else 0
        stop = row_of[place + 1].at if place + 1 < len(row_of) else windows.counts[row]
        table[:, column] = row, start, row_of[place].at, stop
    return Candidates(*table)


def _find_weakest(standings: list[_Standing], needed: float, fresh_from: float) -> int | None:
    """Return the place of the candidate that falls short by most; None if all suffice."""
    short = [
        standing.score - needed + (HEAD_START if at_end and standing.at >= fresh_from else 0)
        for standing, at_end in zip(standings, [*[False] * (len(standings) - 1), True], strict=True)
    ]
    place = min(range(len(short)), key=short.__getitem__)
    return place if short[place] < 0 else None


def _logistic(score: float) -> float:
    return 1 / (1 + math.exp(-score))
