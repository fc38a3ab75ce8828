"""Predict the next value of a row from its past values.

Standard library only.

Values are given oldest first, one per run, and compared as logarithms. Accepted changes shift the level, and
a shift is not noise: so the series is first cut into levels, wherever the values before and after differ by
the rank test of Mann and Whitney (Annals of Mathematical Statistics 18, 1947) at a level that one in twenty
series without a shift would reach anywhere; that takes ten values. The next value is predicted around the
last level, from the distances of all values to their own level:

- from few values, by Student's t prediction interval (Hahn and Meeker, "Statistical Intervals", 1991:
  mean ± t s √(1 + 1/m) for a level of m values), and never narrower than the observed range;
- from enough values for the rate (99 for 1 %), by ranks alone: of the n distances from the median of the
  other values of the level, the ⌈(n + 1)(1 - rate)⌉-th smallest. That holds for any noise if the values
  are exchangeable (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005; leaving
  one out: Barber, Candès, Ramdas and Tibshirani, Annals of Statistics 49, 2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, median

from msgspec import Struct, structs

from torchstone.analyze.student_t import whole_t_quantile

FEWEST = 5
"""The minimum number of past values; with fewer, the interval is uselessly wide."""
SHORTEST_LEVEL = 3
SHIFT_CHANCE = 0.05
_SHIFTED = 0.1  # of the false alarms: a rarer value starts a new level
_MOST = 50.0  # of the logarithm: a larger margin is useless, and exponentials overflow
_LARGEST = 700.0  # largest exponent without overflow
_SLACK = 1e-12  # rounding of exp(log(x))


class Forecast(Struct, frozen=True):
    """Prediction interval of the next value, the values of the last level, and the method."""

    low: float
    high: float
    level: tuple[float, ...]
    shifts: int
    from_ranks: bool

    @property
    def middle(self) -> float:
        """Return the predicted value."""
        return median(self.level)


def forecast(values: Sequence[float], false_alarms: float) -> Forecast:
    """Predict the next value, with a share ``false_alarms`` of values outside the interval.

    ``values`` are positive, oldest first, and at least ``FEWEST``.
    """
    logs = [math.log(value) for value in values]
    levels = find_levels(logs)
    reach = _reach(levels, len(levels[-1]), false_alarms)
    center = median(levels[-1]) if _has_enough(logs, false_alarms) else fmean(levels[-1])
    return Forecast(
        math.exp(center - reach),
        _exp(center + reach),
        tuple(values[len(values) - len(levels[-1]) :]),
        len(levels) - 1,
        _has_enough(logs, false_alarms),
    )


def forecast_around(values: Sequence[float], now: float, false_alarms: float) -> Forecast:
    """Predict the next value, given the newest value ``now``.

    ``now`` joins the last level, or starts a new one if it lies far outside the prediction. A value just
    outside is more likely an outlier than a new level; a new level around it would put most later values
    outside.
    """
    known = forecast(values, false_alarms * _SHIFTED)
    if known.low * (1 - _SLACK) <= now <= known.high * (1 + _SLACK):
        level = forecast([*values, now], false_alarms)
        low = level.low if level.low * (1 - _SLACK) <= now else now
        high = level.high if now <= level.high * (1 + _SLACK) else now
        return structs.replace(level, low=low, high=high)
    reach = _reach(find_levels([math.log(value) for value in values]), 1, false_alarms)
    return Forecast(
        now * math.exp(-reach), _exp(math.log(now) + reach), (now,), known.shifts + 1, known.from_ranks
    )


def find_levels(values: Sequence[float]) -> list[list[float]]:
    """Cut the values where their level shifts, until no part shows another shift.

    >>> find_levels([1, 2, 1, 2, 1, 7, 8, 7, 8, 7])
    [[1, 2, 1, 2, 1], [7, 8, 7, 8, 7]]
    """
    at = _find_shift(values)
    return [*find_levels(values[:at]), *find_levels(values[at:])] if at else [list(values)]


def _find_shift(values: Sequence[float]) -> int:
    """Return the most significant split position; 0 if it may well be chance."""
    count = len(values)
    cuts = range(SHORTEST_LEVEL, count - SHORTEST_LEVEL + 1)
    ranks, ties = _rank(values)
    scale = (count + 1 - ties / (count * (count - 1))) / 12 if count > 1 else 0.0
    if not cuts or scale <= 0:
        return 0
    found, clearest, below = 0, 0.0, sum(ranks[: SHORTEST_LEVEL - 1])
    for at in cuts:
        below += ranks[at - 1]
        apart = abs(below - at * (count + 1) / 2) / math.sqrt(at * (count - at) * scale)
        if apart > clearest:
            found, clearest = at, apart
    chance = max(math.erfc(clearest / math.sqrt(2)), 2 / math.comb(count, found)) if found else 1.0
    return found if len(cuts) * chance < SHIFT_CHANCE else 0


def _rank(values: Sequence[float]) -> tuple[list[float], int]:
    """Return the rank of each value (ties share theirs), and the sum of t³ - t over all ties."""
    ranks, ties, before = [0.0] * len(values), 0, 0
    for _, group in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        same = list(group)
        for index in same:
            ranks[index] = before + (len(same) + 1) / 2
        before += len(same)
        ties += len(same) ** 3 - len(same)
    return ranks, ties


def _has_enough(logs: Sequence[float], false_alarms: float) -> bool:
    """Return whether there are enough values to use their ranks alone."""
    return _rank_of_limit(len(logs), false_alarms) <= len(logs)


def _rank_of_limit(count: int, false_alarms: float) -> int:
    return math.ceil((count + 1) * (1 - false_alarms) - 1e-9)


def _reach(levels: Sequence[Sequence[float]], size: int, false_alarms: float) -> float:
    """Return how far from the median of a level of ``size`` values the next one may lie."""
    count = sum(map(len, levels))
    distances = sorted(distance for level in levels for distance in _distances(level))
    limit = _rank_of_limit(count, false_alarms)
    if limit <= count:
        return min(_MOST, distances[limit - 1] * math.sqrt(1 + 1 / size))
    freedom = count - len(levels)
    squares = math.fsum((value - fmean(level)) ** 2 for level in levels for value in level)
    usual = whole_t_quantile(false_alarms, freedom) * math.sqrt(squares / freedom)
    return min(_MOST, max(usual, distances[-1]) * math.sqrt(1 + 1 / size))


def _distances(level: Sequence[float]) -> list[float]:
    """Return the distance of each value to the median of the others, scaled to be independent of their number."""
    ordered = sorted(level)
    known = math.sqrt(1 + 1 / (len(level) - 1))
    return [abs(value - _middle_without(ordered, at)) / known for at, value in enumerate(ordered)]


def _middle_without(ordered: Sequence[float], left_out: int) -> float:
    """Return the median of sorted values with one left out."""
    half = (len(ordered) - 1) // 2
    upper = ordered[half + (half >= left_out)]
    if (len(ordered) - 1) % 2:
        return upper
    return (ordered[half - 1 + (half - 1 >= left_out)] + upper) / 2


def _exp(log: float) -> float:
    return math.exp(log) if log < _LARGEST else math.inf
