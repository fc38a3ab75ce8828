"""Find how far noise may have moved a change: where its level may begin, given the points around it.

The cost of a point is its squared distance from a level in units of the noise, at most 9, as where candidates are found. A
place is possible as long as the levels fit the points there almost as well as at the best place: the logarithm of the
likelihood is at most 3 less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torchstone.analyze.changepoints.change_point import ChangePoint

AROUND = 30
"""Points on each side that count."""
MOST_COST = 9.0
SLACK = 6.0
"""How much worse than the best place a possible place may be: twice the difference of log likelihoods."""
_TO_DEVIATION = 1.4826  # of a median absolute deviation


def find_places(
    values: Sequence[float], change: ChangePoint, start: int = 0, stop: int | None = None
) -> tuple[int, int]:
    """Return the first and the last index at which the new level may begin.

    ``start`` and ``stop`` bound the two levels: the changes before and after, or the ends of the series.

    >>> values = [10.0, 10.2, 9.8, 10.1, 9.9, 10.0, 12.1, 11.9, 12.0, 12.2, 11.8, 12.0]
    >>> find_places(values, ChangePoint(6, 0.99, 10.0, 12.0))
    (6, 6)
    """
    first = max(start, change.index - AROUND)
    last = min(len(values) if stop is None else stop, change.index + AROUND)
    around = values[first:last]
    is_log = min(*around, change.before, change.after) > 0
    points = [math.log(value) for value in around] if is_log else list(around)
    before, after = (math.log(each) if is_log else each for each in (change.before, change.after))
    at = change.index - first
    noise = _noise([*(each - before for each in points[:at]), *(each - after for each in points[at:])])
    if noise <= 0:
        return change.index, change.index
    costs = [0.0]  # of a level that begins at each index, against one that begins at the first
    for each in points:
        old, new = (min(((each - level) / noise) ** 2, MOST_COST) for level in (before, after))
        costs.append(costs[-1] + old - new)
    inner = costs[1:-1] or [0.0]  # each level has a point
    least = min(*inner, costs[at])
    possible = [place for place, cost in enumerate(inner, start=1) if cost <= least + SLACK]
    return first + min(*possible, at), first + max(*possible, at)


def _noise(residuals: Sequence[float]) -> float:
    """Return the spread around the levels, whatever outliers there are."""
    ordered = sorted(abs(each) for each in residuals)
    return _TO_DEVIATION * ordered[len(ordered) // 2]


def describe_level(values: Sequence[float]) -> tuple[float, float, bool]:
    """Return the median of a level, the spread around it, and whether both are of logarithms: all values are positive."""
    ordered = sorted(values)
    is_log = ordered[0] > 0
    points = [math.log(value) for value in ordered] if is_log else ordered
    level = points[len(points) // 2]
    return level, _noise([point - level for point in points]), is_log
