"""The ratio of two interleaved series of times, and how sure one process can be of it; standard library only.

The estimate is the median, over the faster half of the pairs, of one time divided by the other. What slows the machine for a while slows both sides
of a pair and so cancels, but not altogether: the side that allocates more, or waits more for memory, suffers more. The fastest
pairs are those that were disturbed least (docs/statistics.md has the numbers that led to this).

Neighbouring pairs are not independent: frequency, caches and neighbours drift. So the series is cut into ten consecutive batches, the median is
taken in each, and the spread of these ten gives the interval (non-overlapping batch means with Student's t; Schmeiser, "Batch size effects in the
analysis of simulation output", Operations Research 30, 1982). A disturbance that outlasts the whole series cannot be seen between batches. What can
be seen is how much the ratio depends on being disturbed: how far the faster half is from all pairs. That is added to the interval.
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
_TIE = 1e-9  # what rounding may make of two pairs that were equally slow


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
    """How many times ``over`` is ``under``, for two series that were taken in turns: the median ratio of the faster half of the pairs.

    A pair with a time that is not positive and finite (a clock that stood still) says nothing, and is left out; with no pair left the value is NaN.

    >>> estimate_ratio([2.0] * 40, [1.0] * 40)
    Ratio(value=2.0, low=2.0, high=2.0)
    """
    pairs = [pair for pair in zip(over, under, strict=True) if all(map(_is_time, pair))]
    if not pairs:
        return Ratio(math.nan, None, None)
    all_logs = _log_ratios(pairs)
    logs = _log_ratios(_faster_half(pairs))
    middle = median(logs)
    if len(pairs) < FEWEST_PAIRS:
        return Ratio(_exp(middle), None, None)
    reach = math.hypot(_batch_reach(logs), middle - median(all_logs))
    # Centred on the estimate that is reported; the rest only says how far it may be off.
    return Ratio(_exp(middle), _exp(middle - reach), _exp(middle + reach))


def _log_ratios(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [math.log(one) - math.log(other) for one, other in pairs]


def _faster_half(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The pairs that were no slower than the pair in the middle; in the order in which they were taken.

    How slow a pair is, is the product of its two times: with their sum, the longer side alone would decide, and a factor on one side would not simply
    be a factor of the ratio.
    """
    slowness = [math.log(one) + math.log(other) for one, other in pairs]
    limit = median(slowness) + _TIE
    return [pair for pair, slow in zip(pairs, slowness, strict=True) if slow <= limit]


def _batch_reach(logs: Sequence[float]) -> float:
    """How far the median may be off, from how much it differs between ten consecutive batches."""
    edges = [round(len(logs) * batch / BATCHES) for batch in range(BATCHES + 1)]
    batches = [median(logs[start:end]) for start, end in pairwise(edges)]
    mean = sum(batches) / BATCHES
    variance = sum((each - mean) ** 2 for each in batches) / (BATCHES - 1)
    # The median of a few numbers is less scattered, for its size, than that of many: of two it is their mean. Hence a little more.
    return STUDENT_T * math.sqrt(variance / BATCHES * (1 + BATCHES / len(logs)))


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
