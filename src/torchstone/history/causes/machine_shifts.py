"""Tell a shift of a whole machine from changes of the code: most of its times move together, and nothing else does.

For each series, the distance of its newest values from those before is divided by what noise makes of it. A machine has shifted if
the median of these distances is beyond 3 x 1.253 / sqrt(n), n being the number of series that vary independently, if at least 60 %
of them moved the same way, and 75 % at least half as far as the median: a part that stayed is no matter of a machine. The same revision must not have moved another machine that measured it.
Where control cases were measured they must have moved, too. Where there are neither, every kind of time has to have moved.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

FEWEST_SERIES = 8
"""With fewer, nobody can say what a whole machine does."""
_FEWEST_BEFORE = 5
_BEYOND = 3 * 1.253
_SAME_WAY, _ALONG = 0.6, 0.75
_CLEARLY, _IN_PART = 3.0, 0.2
_AS_DEVIATION = 1.4826
_LEAST_NOISE = 1e-4
_OF_A_MEDIAN = 1.57  # the variance of the median of n normal values is 1.57 / n
_MANY_SERIES = 5  # of one metric: fewer are no evidence against a shift


class TimedSeries(Struct, frozen=True):
    """The times of one series in the runs before a change and in those behind it; by run, in logarithms."""

    metric: str
    before: dict[int, float]
    behind: dict[int, float]


class _Distance(Struct, frozen=True):
    """How far a series moved: as a logarithm (``shift``), and in units of what noise alone would do; and the noise of one run."""

    series: TimedSeries
    shift: float
    moved: float
    level: float
    noise: float


def has_shifted(
    machine: Sequence[TimedSeries],
    others: Iterable[Sequence[TimedSeries]],
    controls: Sequence[TimedSeries] = (),
) -> bool:
    """Return whether a whole machine moved. ``others`` are other machines at the same revisions, ``controls`` the machine's control cases."""
    way = find_way(machine)
    if not way:
        return False
    witnesses = [each for each in map(_distances, others) if len(each) >= FEWEST_SERIES]
    if any(_has_moved(each, way) for each in witnesses):
        return False
    steady = _distances(controls)
    if steady:
        return way * median(each.moved for each in steady) > _BEYOND / math.sqrt(len(steady))
    return bool(witnesses) or _every_metric_moved(_distances(machine), way)


def find_way(series: Sequence[TimedSeries]) -> int:
    """Return 1 if most series became slower together, -1 if faster, 0 if neither."""
    return _way(_distances(series))


def _distances(series: Iterable[TimedSeries]) -> list[_Distance]:
    found = []
    for each in series:
        before, behind = list(each.before.values()), list(each.behind.values())
        if len(before) < _FEWEST_BEFORE or not behind:
            continue
        level = median(before)
        noise = max(_AS_DEVIATION * median(abs(value - level) for value in before), _LEAST_NOISE)
        of_newest = (1.0 if len(behind) == 1 else _OF_A_MEDIAN) / len(behind)
        scale = noise * math.sqrt(of_newest + _OF_A_MEDIAN / len(before))
        shift = median(behind) - level
        found.append(_Distance(each, shift, shift / scale, level, noise))
    return found


def _way(distances: Sequence[_Distance]) -> int:
    if len(distances) < FEWEST_SERIES:
        return 0
    middle = median(each.moved for each in distances)
    way = 1 if middle > 0 else -1
    same_way = sum(way * each.moved > 0 for each in distances)
    half = median(each.shift for each in distances) / 2
    along = sum(way * each.shift >= way * half for each in distances)
    beyond = abs(middle) > _BEYOND / math.sqrt(_independent(distances))
    is_whole = same_way >= _SAME_WAY * len(distances) and along >= _ALONG * len(distances)
    return way if beyond and is_whole else 0


def _has_moved(distances: Sequence[_Distance], way: int) -> bool:
    """Return whether a machine moved the same way, if only in part: the code does not have to move everything everywhere."""
    clearly = sum(way * each.moved > _CLEARLY for each in distances)
    return _way(distances) == way or clearly >= _IN_PART * len(distances)


def _independent(distances: Sequence[_Distance]) -> float:
    """Return as how many independent series these vary: a busy machine moves all of them in one run."""
    by_run: dict[int, list[float]] = {}
    for each in distances:
        for run, value in each.series.before.items():
            by_run.setdefault(run, []).append((value - each.level) / each.noise)
    middles = [median(values) for values in by_run.values() if len(values) >= FEWEST_SERIES]
    if len(middles) < _FEWEST_BEFORE:
        return len(distances)
    common = _AS_DEVIATION * median(abs(value - median(middles)) for value in middles)
    return max(1.0, min(len(distances), _OF_A_MEDIAN / max(common, 1e-9) ** 2))


def _every_metric_moved(distances: Sequence[_Distance], way: int) -> bool:
    by_metric: dict[str, list[float]] = {}
    for each in distances:
        by_metric.setdefault(each.series.metric, []).append(each.moved)
    return all(
        sum(way * moved > 1 for moved in values) >= _SAME_WAY * len(values)
        for values in by_metric.values()
        if len(values) >= _MANY_SERIES
    )
