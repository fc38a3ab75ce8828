"""Estimate what percentage of time is saved, with a confidence interval over repeats.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

# 95 % two-sided Student's t by degrees of freedom.
STUDENT_T = (math.inf, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306)
CONFIDENCE = 0.95
MOST = 100.0  # percent: nothing saves more than everything


class Saving(NamedTuple):
    """A saving in percent with its confidence interval; limits are None if there are too few repeats."""

    percent: float
    low: float | None
    high: float | None


def estimate_saving(before: Sequence[float], after: Sequence[float]) -> Saving | None:
    """Return (1 - sum(after) / sum(before)) * 100; None if ``before`` sums to zero.

    The two are paired by repeat. From two repeats on there is a confidence interval: that of a ratio of two
    means, linearised, with Student's t.

    >>> estimate_saving([10.0, 10.0], [2.0, 2.0])
    Saving(percent=80.0, low=80.0, high=80.0)
    """
    total = sum(before)
    if not before or total <= 0 or not all(map(math.isfinite, (*before, *after))):
        return None
    share = sum(after) / total
    percent = 100 * (1 - share)
    count = len(before)
    if count < 2 or len(after) != count:
        return Saving(percent, None, None)
    apart = [late - share * early for early, late in zip(before, after, strict=True)]
    variance = sum(each * each for each in apart) / (count - 1)
    reach = (
        100 * STUDENT_T[min(count - 1, len(STUDENT_T) - 1)] * math.sqrt(variance / count) / (total / count)
    )
    return Saving(percent, percent - reach, max(percent, min(MOST, percent + reach)))
