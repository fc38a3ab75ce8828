"""Detect drift: small steps in one direction that add up.

Standard library only.

Values are given oldest first. They drift if all of this holds: the median of the newest three differs from
that of the oldest three by more than the margin; no single step exceeded the margin; and the Mann-Kendall
trend test rejects "no trend" at 1 % (Mann, "Nonparametric tests against trend", Econometrica 13, 1945;
Kendall's variance, with ties). Fewer than six values rarely suffice: four or five must all go the same way.

A step larger than the margin that stayed is not drift: the gate reported it and somebody accepted it. The
series begins after the last such step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

FEWEST = 4
"""The minimum number of values: three steps."""
FEWEST_FOR_A_TREND = 6
SIGNIFICANCE_LEVEL = 0.01
END = 3  # values that define the level at either end


class Drift(Struct, frozen=True):
    """Relative distance between start and end of a drifting series, and the index where it starts."""

    change: float
    since: int


def find_drift(values: Sequence[float], margin: float) -> Drift | None:
    """Find drift in values given oldest first; None if there is none or too little data."""
    if len(values) < FEWEST or min(values) <= 0 or not 0 < margin < 1:
        return None
    allowed = math.log1p(margin)
    logs = [math.log(value) for value in values]
    start = _last_jump(logs, allowed)
    series = logs[start:]
    if len(series) < FEWEST:
        return None
    few = len(series) < FEWEST_FOR_A_TREND
    moved = series[-1] - series[0] if few else median(series[-END:]) - median(series[:END])
    if abs(moved) <= allowed:
        return None
    if not (goes_one_way(series) if few else trend_p_value(series) < SIGNIFICANCE_LEVEL):
        return None
    return Drift(math.expm1(moved), start)


def goes_one_way(values: Sequence[float]) -> bool:
    """Return whether the values are strictly increasing or strictly decreasing.

    >>> goes_one_way([1, 2, 5]), goes_one_way([1, 2, 2])
    (True, False)
    """
    steps = [after - before for before, after in pairwise(values)]
    return all(step > 0 for step in steps) or all(step < 0 for step in steps)


def trend_p_value(values: Sequence[float]) -> float:
    """Return the p-value of the Mann-Kendall trend test.

    >>> round(trend_p_value([1, 2, 3, 4, 5, 6]), 4)
    0.0085
    """
    count = len(values)
    score = sum(
        (after > before) - (after < before) for at, before in enumerate(values) for after in values[at + 1 :]
    )
    ties = sum(same * (same - 1) * (2 * same + 5) for same in Counter(values).values())
    variance = (count * (count - 1) * (2 * count + 5) - ties) / 18
    if variance <= 0 or score == 0:
        return 1.0
    return math.erfc((abs(score) - 1) / math.sqrt(2 * variance))


def _last_jump(logs: Sequence[float], allowed: float) -> int:
    """Return the index after the last step that exceeded the limit and persisted; 0 if there is none."""
    for at in range(len(logs) - 2, 0, -1):  # a step at the very end may not last
        stayed = abs(median(logs[at : at + END]) - median(logs[max(0, at - END) : at]))
        if abs(logs[at] - logs[at - 1]) > allowed and stayed > allowed:
            return at
    return 0
