"""Whether small moves in one direction have added up, in a series of values oldest first; standard library only.

There is drift where all of this holds: the level at the end (the median of the newest three values) lies farther from that at the beginning (of the oldest three) than the margin; no single step did that; and
the values keep going one way more than chance would have it: less than one series in a hundred without a trend does (Mann, "Nonparametric tests against trend", Econometrica 13, 1945; Kendall's variance, with
ties). Fewer than six values cannot be that clear: four or five have to go one way at every single step.

A step that was larger than the margin, and stayed, is no drift: the gate has seen it, and somebody accepted it. The series begins after the last such step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct

FEWEST = 4
"""The values that it takes: three moves."""
FEWEST_FOR_A_TREND = 6
CHANCE = 0.01
END = 3  # values that make up the level at either end


class Drift(Struct, frozen=True):
    """How far values have moved, as a share of where they began, and since which value."""

    change: float
    since: int


def find_drift(values: Sequence[float], margin: float) -> Drift | None:
    """The drift in values, the newest last; None where there is none, or nothing can be said."""
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
    if not (goes_one_way(series) if few else trend_chance(series) < CHANCE):
        return None
    return Drift(math.expm1(moved), start)


def goes_one_way(values: Sequence[float]) -> bool:
    """Whether each value is larger than the one before it, or each is smaller.

    >>> goes_one_way([1, 2, 5]), goes_one_way([1, 2, 2])
    (True, False)
    """
    steps = [after - before for before, after in pairwise(values)]
    return all(step > 0 for step in steps) or all(step < 0 for step in steps)


def trend_chance(values: Sequence[float]) -> float:
    """How likely values without a trend are to go one way as much as these do, by Mann and Kendall.

    >>> round(trend_chance([1, 2, 3, 4, 5, 6]), 4)
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
    """Where the values after the last step begin that was too large to be a small one, and that did not come back; 0 if there is none."""
    for at in range(len(logs) - 2, 0, -1):  # of a step at the very end nobody knows whether it stays
        stayed = abs(median(logs[at : at + END]) - median(logs[max(0, at - END) : at]))
        if abs(logs[at] - logs[at - 1]) > allowed and stayed > allowed:
            return at
    return 0
