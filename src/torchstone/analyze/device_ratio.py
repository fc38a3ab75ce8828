"""Estimate the ratio of two device times from pairs of blocks in one process, with an interval for other processes. Standard library only.

Blocks of one process differ by a few hundredths of a percent, because nothing on the host disturbs them; processes differ by more
(other addresses, other clocks). Seven processes of GPT2ForSequenceClassification on an H200 had ratios with a standard deviation of
0.34 % (docs/statistics.md). One process cannot show that, so it is part of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, stdev

from torchstone.analyze.speedup_ratio import Ratio
from torchstone.analyze.student_t import t_quantile

BETWEEN_PROCESSES = 0.004
"""The usual difference of device times between processes of the same code, as the standard deviation of their logarithm."""
CONFIDENCE = 0.95
_NORMAL = 1.96
_OF_A_MEDIAN = 1.2533  # its standard error is that of the mean, times this
_FEWEST = 3


def estimate_device_ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """Estimate the ratio of ``over`` to ``under``, block by block; without an interval if there are fewer than three pairs.

    >>> estimate_device_ratio([2.0] * 8, [1.0] * 8)
    Ratio(value=2.0, low=1.9843813052842407, high=2.0157416265454304)
    """
    pairs = [(one, other) for one, other in zip(over, under, strict=True) if one > 0 and other > 0]
    logs = [math.log(one) - math.log(other) for one, other in pairs]
    if not logs:
        return Ratio(math.nan, None, None)
    middle = median(logs)
    if len(logs) < _FEWEST:
        return Ratio(math.exp(middle), None, None)
    error = _OF_A_MEDIAN * stdev(logs) / math.sqrt(len(logs))
    reach = math.hypot(t_quantile(1 - CONFIDENCE, len(logs) - 1) * error, _NORMAL * BETWEEN_PROCESSES)
    return Ratio(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))
