"""Turn training rounds into curves over ranks, and compare two DDP reports.

Percentiles interpolate linearly between the two nearest samples, like NumPy's default.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from torchstone.core.records import Case, Measurement, Outcome
from torchstone.core.vocabulary import PASSED, Probe

PERCENTILES = (75, 95)
_RANKS, _STRATEGY, _BUCKET, _COLLECTIVE, _RANK_LIST = (
    "ranks",
    "strategy",
    "bucket_mb",
    "collective",
    "rank_list",
)
_PLAIN = "none"
"""The strategy of a round without any."""
_MOST = 1e30  # larger numbers are implausible, and sums would overflow
_OF_A_ROUND = (_RANKS, _STRATEGY, _BUCKET, _COLLECTIVE, _RANK_LIST)


class Round(Struct, frozen=True):
    """Seconds per iteration of one model on a given number of ranks."""

    model: str
    batch_size: int
    ranks: int
    samples: tuple[float, ...]


class RoundChange(Struct, frozen=True):
    """A round compared with the base's: by percentile, seconds, examples per second and percent faster."""

    model: str
    batch_size: int
    ranks: int
    percentiles: dict[str, dict[str, float]]


def compare_rounds(base: Sequence[Sequence[Round]], test: Sequence[Sequence[Round]]) -> list[RoundChange]:
    """Compare rounds as PyTorch's script does: paired by position, skipping the first, which is without DDP.

    Models that differ in name or batch size are skipped, as are rounds on different numbers of ranks.
    """
    changes = []
    for base_rounds, test_rounds in zip(base, test, strict=False):
        if (base_rounds[0].model, base_rounds[0].batch_size) != (
            test_rounds[0].model,
            test_rounds[0].batch_size,
        ):
            continue
        for before, after in zip(base_rounds[1:], test_rounds[1:], strict=False):
            if before.ranks == after.ranks:
                changes.append(_change(before, after))
    return changes


def _change(before: Round, after: Round) -> RoundChange:
    at: dict[str, dict[str, float]] = {}
    for level in PERCENTILES:
        old, new = percentile(before.samples, level), percentile(after.samples, level)
        at[str(level)] = {
            "sec_per_iter": round(new, 3),
            "ex_per_sec": int(after.batch_size / new),
            "change_pct": round(-100 * (new - old) / old, 1),
        }
    return RoundChange(after.model, after.batch_size, after.ranks, at)


def percentile(samples: Sequence[float], level: float) -> float:
    """Return a percentile, interpolated linearly.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 75)
    3.25
    """
    ordered = sorted(samples)
    position = (len(ordered) - 1) * level / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


class Point(Struct, frozen=True):
    """Numbers of one round; each is None if unknown, and all are if the round failed or was not measured.

    Times are seconds per iteration, shares are percent, memory is in GB. ``outcome`` is None for a round that
    was only planned.
    """

    case: Case
    ranks: int
    outcome: Outcome | None = None
    seconds: float | None = None
    slow_seconds: float | None = None
    examples: float | None = None
    efficiency: float | None = None
    communication: float | None = None
    rank_spread: float | None = None
    peak: float | None = None


CurveKey = tuple[str, str, str, str]


class Curve(Struct, frozen=True):
    """Rounds that differ only in their number of ranks, in ascending order."""

    strategy: str
    bucket: str
    collective: str
    rank_list: str
    points: tuple[Point, ...]

    @property
    def key(self) -> CurveKey:
        """Return what identifies the curve."""
        return self.strategy, self.bucket, self.collective, self.rank_list


class ScalingSweep(Struct, frozen=True):
    """All rounds of one benchmark in one variant; ``of`` is their common part of the case."""

    of: Case
    curves: tuple[Curve, ...]

    @property
    def points(self) -> list[Point]:
        """Return all rounds, curve by curve."""
        return [point for curve in self.curves for point in curve.points]

    @property
    def smallest(self) -> Point:
        """Return the reference of efficiency: the round with the fewest ranks, preferably without a strategy."""
        return min(self.points, key=_size)


def rank_count(case: Case) -> int | None:
    """Return the number of ranks of a round; None if the case does not state it."""
    stated = dict(case.variant.further).get(_RANKS, "")
    is_count = stated.isascii() and stated.isdigit() and len(stated) < 10 and int(stated) > 0
    return int(stated) if is_count else None


def collect_sweeps(outcomes: Iterable[Outcome], planned: Iterable[Case] = ()) -> list[ScalingSweep]:
    """Group rounds by benchmark and variant, in order of appearance.

    Rounds of ``planned`` without an outcome are included.
    """
    found: dict[Case, list[Point]] = {}
    measured = {outcome.case: outcome for outcome in outcomes}
    for case in dict.fromkeys((*measured, *planned)):
        ranks = rank_count(case)
        if case.probe == Probe.SCALING and ranks is not None:
            found.setdefault(_shared(case), []).append(_read_point(case, ranks, measured.get(case)))
    return [_make_sweep(of, points) for of, points in found.items()]


def _shared(case: Case) -> Case:
    further = tuple(axis for axis in case.variant.further if axis[0] not in _OF_A_ROUND)
    return structs.replace(case, variant=structs.replace(case.variant, further=further))


def _read_point(case: Case, ranks: int, outcome: Outcome | None) -> Point:
    """Read the numbers of a round; derive those that a file without them, such as a DDP report, implies."""
    if outcome is None or outcome.status not in {PASSED, ""}:
        return Point(case, ranks, outcome)
    found = {measurement.metric: measurement for measurement in outcome.measurements}
    times = found.get("iteration_time")
    seconds = _positive(times)
    slow = _positive(found.get("iteration_time_p95"))
    if slow is None and times and seconds is not None:
        slow = _usable(percentile(times.samples, 95))
    examples = _positive(found.get("examples_per_second"))
    if examples is None and seconds is not None:
        examples = _usable((case.variant.batch_size or 0) * ranks / seconds)
    return Point(
        case,
        ranks,
        outcome,
        seconds,
        slow,
        examples,
        _positive(found.get("scaling_efficiency")),
        _finite(found.get("communication_share")),
        _finite(found.get("rank_spread")),
        _positive(found.get("peak_memory")),
    )


def _finite(measurement: Measurement | None) -> float | None:
    return float(measurement.value) if measurement and abs(measurement.value) < _MOST else None


def _positive(measurement: Measurement | None) -> float | None:
    return _usable(float(measurement.value)) if measurement and abs(measurement.value) < _MOST else None


def _usable(value: float) -> float | None:
    """Return the number if it is positive and finite, else None."""
    return value if 1 / _MOST < value < _MOST else None


def _make_sweep(of: Case, points: Sequence[Point]) -> ScalingSweep:
    fewest = min(map(_size, points))
    candidates = [point for point in points if _size(point) == fewest]
    smallest = candidates[0] if len(candidates) == 1 else None
    curves: dict[CurveKey, list[Point]] = {}
    for point in points:
        curves.setdefault(_curve_key(point.case), []).append(_with_efficiency(point, smallest))
    return ScalingSweep(
        of,
        tuple(
            Curve(*key, tuple(sorted(of_key, key=lambda point: point.ranks)))
            for key, of_key in sorted(curves.items(), key=lambda item: _curve_order(item[0]))
        ),
    )


def _size(point: Point) -> tuple[int, bool]:
    return point.ranks, dict(point.case.variant.further).get(_STRATEGY) != _PLAIN


def _curve_key(case: Case) -> CurveKey:
    axes = dict(case.variant.further)
    return axes.get(_STRATEGY, ""), axes.get(_BUCKET, ""), axes.get(_COLLECTIVE, ""), axes.get(_RANK_LIST, "")


def _curve_order(key: CurveKey) -> tuple[bool, str, float, str, str]:
    strategy, bucket, collective, rank_list = key
    return strategy != _PLAIN, strategy, bucket_size(bucket), collective, rank_list


def bucket_size(text: str) -> float:
    """Return a bucket size in MB as a sort key; text that is not a number sorts last."""
    try:
        size = float(text)
    except ValueError:
        return math.inf
    return size if math.isfinite(size) else math.inf


def _with_efficiency(point: Point, smallest: Point | None) -> Point:
    """Fill in a round's efficiency relative to the smallest round, unless it states one."""
    if point.efficiency is not None or not point.examples or not smallest or not smallest.examples:
        return point
    efficiency = 100 * (point.examples / point.ranks) / (smallest.examples / smallest.ranks)
    return structs.replace(point, efficiency=_usable(efficiency))
