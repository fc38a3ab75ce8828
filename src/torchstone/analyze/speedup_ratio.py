"""Estimate the ratio of two interleaved series of times, with a confidence interval.

Standard library only.

The estimate is the median ratio over the faster half of the pairs. A temporary slowdown of the machine
affects both sides of a pair and mostly cancels, but not entirely: the side that allocates more, or waits more
for memory, suffers more. The fastest pairs were disturbed least (docs/statistics.md has the numbers behind
this).

Neighbouring pairs are not independent: frequency, caches and other processes drift. So the series is cut into
ten consecutive batches, and the interval comes from the spread of the ten batch medians (non-overlapping
batch means with Student's t; Schmeiser, "Batch size effects in the analysis of simulation output", Operations
Research 30, 1982). A disturbance that lasts for the whole series does not show between batches. Its effect on
the ratio does: the distance between the faster half and all pairs is added to the interval.

Device times are another matter. Blocks of one process differ by a few hundredths of a percent, because nothing on the
host disturbs them; processes differ by more (other addresses, other clocks), which one process cannot show: so that
is part of the interval.
"""

# No annotations from __future__: typing would compile each of the texts of a NamedTuple, which takes 1 ms.
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from torchstone.analyze.student_t import t_quantile

BATCHES = 10
STUDENT_T = 2.262  # 95 % two-sided, 9 degrees of freedom
CONFIDENCE = 0.95
FEWEST_PAIRS = 2 * BATCHES
BETWEEN_PROCESSES = 0.004
"""The usual difference of device times between processes of the same code, as the standard deviation of their logarithm."""
_NORMAL = 1.96
_OF_A_MEDIAN = 1.2533  # its standard error is that of the mean, times this
_FEWEST_BLOCKS = 3
_TIE = 1e-9  # rounding tolerance for equally slow pairs


class Ratio(NamedTuple):
    """A ratio and its confidence interval; ``low`` and ``high`` are None if there are too few pairs."""

    value: float
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float:
        """Return half of the interval relative to the value; infinite if there is no interval."""
        if self.low is None or self.high is None or self.low <= 0:
            return math.inf
        return math.sqrt(self.high / self.low) - 1


def estimate_ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """Estimate the ratio of ``over`` to ``under`` from interleaved times.

    Pairs with a time that is not positive and finite (a clock that stood still) are ignored; if none is left,
    the value is NaN.

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
    # The interval is centred on the reported estimate.
    return Ratio(_exp(middle), _exp(middle - reach), _exp(middle + reach))


def estimate_device_ratio(over: Sequence[float], under: Sequence[float]) -> Ratio:
    """Estimate the ratio of ``over`` to ``under``, block by block; without an interval if there are fewer than three pairs.

    >>> estimate_device_ratio([2.0] * 8, [1.0] * 8)
    Ratio(value=2.0, low=1.9843813052842407, high=2.0157416265454304)
    """
    pairs = [
        (one, other) for one, other in zip(over, under, strict=True) if _is_time(one) and _is_time(other)
    ]
    logs = [math.log(one) - math.log(other) for one, other in pairs]
    if not logs:
        return Ratio(math.nan, None, None)
    middle = median(logs)
    if len(logs) < _FEWEST_BLOCKS:
        return Ratio(math.exp(middle), None, None)
    mean = sum(logs) / len(logs)
    variance = sum((each - mean) ** 2 for each in logs) / (len(logs) - 1)
    error = _OF_A_MEDIAN * math.sqrt(variance / len(logs))
    reach = math.hypot(t_quantile(1 - CONFIDENCE, len(logs) - 1) * error, _NORMAL * BETWEEN_PROCESSES)
    return Ratio(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def standard_error(samples: Sequence[float]) -> float:
    """Return the standard error of the logarithm of the median of one process's samples; 0 if there are too few to tell.

    >>> standard_error([1.0, 1.1] * 20) > 0
    True
    """
    logs = [math.log(sample) for sample in samples if _is_time(sample)]
    return _batch_reach(logs) / STUDENT_T if len(logs) >= FEWEST_PAIRS else 0.0


def _log_ratios(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [math.log(one) - math.log(other) for one, other in pairs]


def _faster_half(pairs: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the pairs no slower than the median pair, in the order they were measured.

    Pairs are ordered by the product of their times. With the sum, the slower side alone would decide, and
    scaling one side would not simply scale the ratio.
    """
    slowness = [math.log(one) + math.log(other) for one, other in pairs]
    limit = median(slowness) + _TIE
    return [pair for pair, slow in zip(pairs, slowness, strict=True) if slow <= limit]


def _batch_reach(logs: Sequence[float]) -> float:
    """Return the half width of the interval from the spread between ten consecutive batches."""
    edges = [round(len(logs) * batch / BATCHES) for batch in range(BATCHES + 1)]
    batches = [median(logs[start:end]) for start, end in pairwise(edges)]
    mean = sum(batches) / BATCHES
    variance = sum((each - mean) ** 2 for each in batches) / (BATCHES - 1)
    # The median of a few numbers varies less, relative to its batch size, than that of many: hence the correction.
    return STUDENT_T * math.sqrt(variance / BATCHES * (1 + BATCHES / len(logs)))


def _is_time(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def median(values: Sequence[float]) -> float:
    """Return the median; NaN if there are no values."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if not ordered:
        return math.nan
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
