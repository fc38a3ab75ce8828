"""Compare DDP bucket sizes: time per iteration with each, and which is the fastest.

Each trial (a job) contributes one number: jobs are independent of each other, iterations of one job are not.
If a size was measured in one job only, its iterations are cut into ten consecutive batches (as in
``analyze.ratio``). That shows how much the job varied, but not how much the next job would differ; a note
says so. All ranks iterate in step, so the median rank represents each iteration.

The fastest size is picked after looking at the data, so every other size is compared with it at a
Bonferroni-adjusted level: 5 % of sweeps contain an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from torchstone.analyze.evidence import Comparison, Evidence
from torchstone.analyze.ratio_interval import compare_trials, mean_effect, more_trials
from torchstone.analyze.scaling_curves import Point, ScalingSweep, bucket_size
from torchstone.analyze.speedup_ratio import BATCHES, FEWEST_PAIRS, median
from torchstone.core.records import Case, Measurement, Number

ALPHA = 0.05
SAME = 0.01
"""Sizes that differ by less than this count as equally fast."""
_METRIC = "iteration_time"


class Bucket(Struct, frozen=True):
    """Results of one bucket size. Intervals are None if there is too little data.

    ``ratio`` is relative to the fastest size. ``trials`` counts the jobs; ``more`` is the number of further
    jobs per size that would tell it from the fastest, if known.
    """

    size: str
    point: Point
    seconds: float | None = None
    interval: tuple[float, float] | None = None
    ratio: float | None = None
    ratio_interval: tuple[float, float] | None = None
    trials: int = 0
    more: int | None = None

    @property
    def is_slower(self) -> bool:
        """Return whether it is significantly slower than the fastest."""
        return self.ratio_interval is not None and self.ratio_interval[0] > 1

    @property
    def is_as_fast(self) -> bool:
        """Return whether it is equivalent to the fastest, within ``SAME``."""
        return self.ratio_interval is not None and self.ratio_interval[1] < 1 + SAME


class BucketSweep(Struct, frozen=True):
    """The bucket sizes of one benchmark on a given number of ranks, in ascending order."""

    of: Case
    strategy: str
    collective: str
    rank_list: str
    ranks: int
    buckets: tuple[Bucket, ...]

    @property
    def best(self) -> Bucket | None:
        """Return the size with the shortest iterations; None if none was measured."""
        timed = [bucket for bucket in self.buckets if bucket.seconds is not None]
        return min(timed, key=lambda bucket: bucket.seconds or 0.0, default=None)

    @property
    def trials(self) -> int:
        """Return the smallest number of jobs that any size was measured in."""
        return min((bucket.trials for bucket in self.buckets if bucket.trials), default=0)


def sweep_buckets(sweep: ScalingSweep) -> list[BucketSweep]:
    """Compare all bucket sizes with the fastest, for each number of ranks with more than one size."""
    found: dict[tuple[str, str, str, int], list[tuple[str, Point]]] = {}
    for curve in sweep.curves:
        for point in curve.points if curve.bucket else ():
            key = (curve.strategy, curve.collective, curve.rank_list, point.ranks)
            found.setdefault(key, []).append((curve.bucket, point))
    return [
        BucketSweep(sweep.of, *key, _compare(sorted(sizes, key=lambda each: bucket_size(each[0]))))
        for key, sizes in sorted(found.items())
        if len(sizes) > 1
    ]


def _compare(sizes: Sequence[tuple[str, Point]]) -> tuple[Bucket, ...]:
    timed = [(point.seconds, point) for _, point in sizes if point.seconds is not None]
    if not timed:
        return tuple(Bucket(size, point) for size, point in sizes)
    best = min(timed, key=lambda pair: pair[0])[1]
    alpha = ALPHA / max(1, len(timed) - 1)
    return tuple(_bucket(size, point, best, alpha) for size, point in sizes)


def _bucket(size: str, point: Point, best: Point, alpha: float) -> Bucket:
    times, best_times = _times(point), _times(best)
    if point.seconds is None or best.seconds is None or times is None or best_times is None:
        return Bucket(size, point)
    ours = independent_values(times)
    ratio = point.seconds / best.seconds
    compared = None
    if point is not best:
        compared = _against(ours, independent_values(best_times), alpha)
    return Bucket(
        size,
        point,
        point.seconds,
        _interval(ours, point.seconds),
        ratio,
        _around(compared, ratio) if compared else None,
        len(times.trials),
        more_trials(compared, margin=SAME, alpha=alpha) if compared and len(times.trials) > 1 else None,
    )


def _times(point: Point) -> Measurement | None:
    found = (m for m in point.outcome.measurements if m.metric == _METRIC) if point.outcome else iter(())
    return next(found, None)


def independent_values(times: Measurement) -> tuple[float, ...]:
    """Return independent values: one per trial, or the medians of ten batches of a single trial.

    Return none if the single trial is too short.
    """
    if len(times.trials) > 1:
        return tuple(map(float, times.trial_values))
    iterations = _middle_ranks(times.samples, times.details.ranks if times.details else ())
    if len(iterations) < FEWEST_PAIRS:
        return ()
    edges = [round(len(iterations) * batch / BATCHES) for batch in range(BATCHES + 1)]
    return tuple(median(iterations[start:end]) for start, end in pairwise(edges))


def _middle_ranks(samples: Sequence[Number], counts: Sequence[int]) -> list[float]:
    """Return the median over ranks of each iteration.

    Samples are stored rank by rank. If the counts per rank are unknown, the samples are used as they are.
    """
    values = list(map(float, samples))
    if len(counts) < 2:
        return values
    each = counts[0]
    if each < 1 or set(counts) != {each} or each * len(counts) != len(values):
        return values
    return [median(values[index::each]) for index in range(each)]


def _interval(values: Sequence[float], seconds: float) -> tuple[float, float] | None:
    """Compute Student's t interval of the geometric mean, widened to contain the value itself."""
    if len(values) < 2 or not all(math.isfinite(value) and value > 0 for value in values):
        return None
    mean = mean_effect(values, ALPHA)
    return min(seconds, mean.low), max(seconds, mean.high)


def _against(ours: Sequence[float], best: Sequence[float], alpha: float) -> Comparison | None:
    if not ours or not best:
        return None
    sides = (Evidence(tuple(values), len(values)) for values in (best, ours))
    return compare_trials(*sides, alpha=alpha)


def _around(compared: Comparison, ratio: float) -> tuple[float, float] | None:
    if compared.obstacle:
        return None
    return min(ratio, compared.low), max(ratio, compared.high)
