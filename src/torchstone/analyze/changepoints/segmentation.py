"""Find candidates: divide each window into levels so that the cost of all points, plus a penalty per change, is least.

The cost of a point is its squared distance from the level in units of the noise, but at most 9: an outlier costs as
much as any other outlier, and a few of them never pay for two changes. This is the biweight loss of Fearnhead and
Rigaill, "Changepoint detection in the presence of outliers" (arXiv 1609.07363; JASA 114, 2019). Their recursion

    Q[t](level) = min(Q[t-1](level), min Q[t-1] + penalty) + cost(x[t], level)

is exact for every real level. Here levels come from a grid of 128, taken from medians of neighbouring points, so that
all windows and all levels advance together in one array operation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from torchstone.analyze.changepoints.noise_estimate import Floats, Indices

MOST_COST = 9.0
PENALTY = 3.0
"""Times the logarithm of the number of points. Low: it is for pruning to decide."""
LEVELS = 128
_MEDIANS = ((5, 2), (15, 5), (41, 10))
"""Medians of so many neighbours, one every so many points: their quantiles are the grid."""
_AT_ONCE = 32
"""Points whose costs are computed in one piece, to stay in the processor's cache."""


def choose_levels(rows: Floats) -> Floats:
    """Return the grid of each row: sorted values if it is short, otherwise quantiles of moving medians."""
    points = rows.shape[1]
    if points <= LEVELS:
        pool = np.sort(rows, axis=1)
    else:
        views = [
            np.median(np.lib.stride_tricks.sliding_window_view(rows, width, axis=1)[:, ::stride], axis=2)
            for width, stride in _MEDIANS
        ]
        pool = np.sort(np.concatenate(views, axis=1), axis=1)
    picked = np.linspace(0, pool.shape[1] - 1, LEVELS).round().astype(np.intp)
    return np.asarray(pool[:, picked], dtype=np.float64)


def segment(points: Floats, counts: Indices, levels: Floats) -> list[list[int]]:
    """Return the first index of each new level, for each row of `points`; a row has `counts` points, then padding."""
    rows, steps = points.shape
    penalty = PENALTY * np.log(counts)
    total = np.zeros_like(levels)  # Q
    flat = total.reshape(-1)
    starts = np.arange(rows) * levels.shape[1]
    best = np.empty((steps, rows), dtype=np.intp)  # which level is cheapest
    is_new = np.empty((steps, *levels.shape), dtype=bool)  # which levels are cheaper after a change
    allowed = np.full((rows, 1), np.inf)
    for first in range(0, steps, _AT_ONCE):
        for at, cost in enumerate(_cost(points, counts, levels, first), start=first):
            np.greater(total, allowed, out=is_new[at])
            np.minimum(total, allowed, out=total)
            np.add(total, cost, out=total)
            total.argmin(axis=1, out=best[at])
            np.add(flat.take(best[at] + starts), penalty, out=allowed[:, 0])
    return [_trace(is_new[:, row], best[:, row], int(count)) for row, count in enumerate(counts)]


def _cost(points: Floats, counts: Indices, levels: Floats, first: int) -> Floats:
    part = points[:, first : first + _AT_ONCE].T
    cost = part[:, :, None] - levels[None]
    np.multiply(cost, cost, out=cost)
    np.minimum(cost, MOST_COST, out=cost)
    if counts.min() < first + _AT_ONCE:
        cost[np.arange(first, first + len(part))[:, None] >= counts[None]] = 0  # padding costs nothing
    return cost


def _trace(is_new: NDArray[np.bool_], best: Indices, count: int) -> list[int]:
    """Go back from the cheapest level at the end to where it began, and from there to the cheapest level before."""
    changes: list[int] = []
    at = count - 1
    while (news := np.flatnonzero(is_new[: at + 1, best[at]])).size:
        changes.append(int(news[-1]))
        at = changes[-1] - 1
    return changes[::-1]
