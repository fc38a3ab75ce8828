"""Between what the next value of a row will lie, judging by values of past runs; standard library only.

Values are compared as logarithms, oldest first, and each is of a run of its own. A level that shifted in the past, by a change that somebody accepted, is no noise: the past is first cut into levels, where
values before and after lie apart by their ranks (Mann and Whitney, Annals of Mathematical Statistics 18, 1947) more clearly than one in twenty series without a shift would show anywhere; it takes ten values
to see one. What is left is how far values lie from their own level, and the next one is predicted around the last level:

- from few values, by the interval of Student's t (Hahn and Meeker, "Statistical Intervals", 1991: mean ± t s √(1 + 1/m) for a level of m values), and never narrower than what was seen;
- from as many as the rate asks for (99 for 1 %), by what was seen and nothing else: of the n distances from the middle of their level's other values, the ⌈(n + 1)(1 - rate)⌉-th smallest. That holds whatever the
  noise is like, if the order of values means nothing (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2005; leaving one out: Barber, Candès, Ramdas and
  Tibshirani, Annals of Statistics 49, 2021).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from statistics import fmean, median

from msgspec import Struct, structs

from torchstone.analyze.student_t import whole_t_quantile

FEWEST = 5
"""The past values that a margin takes: from fewer, the interval is so wide that it is of no use."""
SHORTEST_LEVEL = 3
SHIFT_CHANCE = 0.05
_SHIFTED = 0.1  # of the false alarms: what is as rare as that begins a level of its own
_MOST = 50.0  # of the logarithm: beyond it no margin is of use, and exponentials overflow
_LARGEST = 700.0  # of which an exponential is still a number
_SLACK = 1e-12  # what logarithms and exponentials do to a number that does not change


class Forecast(Struct, frozen=True):
    """Between what the next value will lie, the values of the last level, and how that was found."""

    low: float
    high: float
    level: tuple[float, ...]
    shifts: int
    from_ranks: bool

    @property
    def middle(self) -> float:
        """What the next value will be, more or less."""
        return median(self.level)


def forecast(values: Sequence[float], false_alarms: float) -> Forecast:
    """Where the next value will lie, but for a share ``false_alarms`` of all times; ``values`` are positive, oldest first, and ``FEWEST`` or more."""
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
    """The same, where a newest value is known: one more of the last level, or, if it lies far beyond what was to be expected, the first of a new one.

    What lies only just outside is more often one of the few that do than a new level, around which most of the next values would then lie outside.
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
    """The values cut where their level shifts: none of the parts shows another shift.

    >>> find_levels([1, 2, 1, 2, 1, 7, 8, 7, 8, 7])
    [[1, 2, 1, 2, 1], [7, 8, 7, 8, 7]]
    """
    at = _find_shift(values)
    return [*find_levels(values[:at]), *find_levels(values[at:])] if at else [list(values)]


def _find_shift(values: Sequence[float]) -> int:
    """Where the values before and after lie apart most clearly; 0 if that may well be chance."""
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
    """The rank of each value, equal ones sharing theirs, and the sum over all ties of t³ - t."""
    ranks, ties, before = [0.0] * len(values), 0, 0
    for _, group in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        same = list(group)
        for index in same:
            ranks[index] = before + (len(same) + 1) / 2
        before += len(same)
        ties += len(same) ** 3 - len(same)
    return ranks, ties


def _has_enough(logs: Sequence[float], false_alarms: float) -> bool:
    """Whether there are so many values that their own ranks say what so rare a value is."""
    return _rank_of_limit(len(logs), false_alarms) <= len(logs)


def _rank_of_limit(count: int, false_alarms: float) -> int:
    return math.ceil((count + 1) * (1 - false_alarms) - 1e-9)


def _reach(levels: Sequence[Sequence[float]], size: int, false_alarms: float) -> float:
    """How far from the middle of a level of ``size`` values the next one may lie."""
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
    """How far each value lies from the middle of the others, in units that do not depend on how many others there are."""
    ordered = sorted(level)
    known = math.sqrt(1 + 1 / (len(level) - 1))
    return [abs(value - _middle_without(ordered, at)) / known for at, value in enumerate(ordered)]


def _middle_without(ordered: Sequence[float], left_out: int) -> float:
    """The median of all sorted values but one."""
    half = (len(ordered) - 1) // 2
    upper = ordered[half + (half >= left_out)]
    if (len(ordered) - 1) % 2:
        return upper
    return (ordered[half - 1 + (half - 1 >= left_out)] + upper) / 2


def _exp(log: float) -> float:
    return math.exp(log) if log < _LARGEST else math.inf
