"""The ratio of two interleaved series of times, and how sure one process can be of it; standard library only.

The estimate is the median, over all pairs, of one time divided by the other. What slows the machine for a while slows both sides of a pair, and so
cancels; the ratio of the two medians, which is what the original runner prints, is the same on a quiet machine and several times more
scattered on a busy one, though not for every model (docs/statistics.md has the numbers).

Neighbouring pairs are not independent: frequency, caches and neighbours drift. So the series is cut into ten consecutive batches, the median is
taken in each, and the spread of these ten gives the interval (non-overlapping batch means with Student's t; Schmeiser, "Batch size effects in the
analysis of simulation output", Operations Research 30, 1982). Drift slower than a batch shows up between batches and widens the
interval, as it should.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

BATCHES = 10
STUDENT_T = 2.262  # 95 % two-sided, 9 degrees of freedom
CONFIDENCE = 0.95
FEWEST_PAIRS = 2 * BATCHES


class Ratio(NamedTuple):
    """A ratio and its interval; ``low`` and ``high`` are None where there are too few pairs to say."""

    value: float
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float:
        """Half of the interval as a share of the value; infinite where there is no interval."""
        if self.low is None or self.high is None or self.low <= 0:
            return math.inf
        return math.sqrt(self.high / self.low) - 1


def estimate_ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """How many times ``over`` is ``under``, for two series that were taken in turns: the median of the pairs' ratios.

    A pair with a time that is not positive and finite (a clock that stood still) says nothing, and is left out; with no pair left the value is NaN.

    >>> estimate_ratio([2.0] * 40, [1.0] * 40)
    Ratio(value=2.0, low=2.0, high=2.0)
    """
    pairs = zip(over, under, strict=True)
    logs = [math.log(one) - math.log(other) for one, other in pairs if _is_time(one) and _is_time(other)]
    if not logs:
        return Ratio(math.nan, None, None)
    middle = median(logs)
    value = _exp(middle)
    if len(logs) < FEWEST_PAIRS:
        return Ratio(value, None, None)
    edges = [round(len(logs) * batch / BATCHES) for batch in range(BATCHES + 1)]
    batches = [median(logs[start:end]) for start, end in pairwise(edges)]
    mean = sum(batches) / BATCHES
    variance = sum((each - mean) ** 2 for each in batches) / (BATCHES - 1)
    # The median of a few numbers is less scattered, for its size, than that of many: of two it is their mean. Hence a little more.
    reach = STUDENT_T * math.sqrt(variance / BATCHES * (1 + BATCHES / len(logs)))
    # Centred on the estimate that is reported; the batches only say how far it may be off.
    return Ratio(value, _exp(middle - reach), _exp(middle + reach))


def _is_time(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle; NaN of nothing."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return math.nan
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
