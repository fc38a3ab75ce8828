"""Find changes of pass rates: each point is how many passed of how many.

A window is divided into levels by optimal partitioning (Jackson et al., "An algorithm for optimal partitioning of
data on an interval", IEEE Signal Processing Letters 12, 2005) with the binomial likelihood and a penalty of
3 ln(points) per change. If neighbouring points differ by more than the binomial distribution allows, as happens when
one cause fails several cases, likelihoods are divided by that excess. The certainty of a change is 1 minus the
p-value of its likelihood ratio (chi-square, one degree of freedom) times the number of points.
"""

from __future__ import annotations

import math

import numpy as np

from torchstone.analyze.changepoints.change_point import CONFIRMED, FRESH, ChangePoint
from torchstone.analyze.changepoints.noise_estimate import Floats
from torchstone.analyze.changepoints.segmentation import PENALTY

MOST = 1e12
"""Larger totals are none that anybody counted."""
_MEDIAN_OF_CHI_SQUARE = 0.4549  # one degree of freedom


def find_in_pass_rates(
    windows: list[Floats], is_last: list[bool], certainty: float
) -> list[list[ChangePoint]]:
    """Return the changes of each window of pairs (passed, total)."""
    return [
        _find_in_window(window, at_end=at_end, certainty=certainty)
        for window, at_end in zip(windows, is_last, strict=True)
    ]


def _find_in_window(window: Floats, *, at_end: bool, certainty: float) -> list[ChangePoint]:
    totals = np.clip(window[:, 1], 1, MOST)
    passed = np.clip(window[:, 0], 0, totals)
    if len(window) < 2 or np.ptp(passed / totals) == 0:
        return []
    sums = np.concatenate([np.zeros((1, 2)), np.cumsum(np.stack([passed, totals], axis=1), axis=0)])
    excess = _estimate_excess(passed, totals)
    bounds = _drop_single_points(sums, _partition(sums, excess), excess)
    changes = []
    for start, at, stop in zip(bounds, bounds[1:], bounds[2:], strict=False):
        ratio = _gain(sums, start, at, stop) / excess
        sure = 1 - min(1.0, len(window) * math.erfc(math.sqrt(max(ratio, 0) / 2)))
        if sure >= certainty:
            points = len(window) - at
            is_fresh = at_end and stop == len(window) and points <= FRESH
            provisional = is_fresh and (points == 1 or sure < CONFIRMED)
            before, after = (_rate(sums, *bounds) for bounds in ((start, at), (at, stop)))
            changes.append(ChangePoint(at, sure, before, after, provisional))
    return changes


def _estimate_excess(passed: Floats, totals: Floats) -> float:
    """Return the variance between neighbours in units of the binomial variance, at least 1."""
    rate = passed.sum() / totals.sum()
    variance = rate * (1 - rate) * (1 / totals[1:] + 1 / totals[:-1])
    if variance.min() <= 0:  # hardly anything passed, or hardly anything failed
        return 1.0
    moved = np.diff(passed / totals) ** 2 / variance
    return max(1.0, float(np.median(moved)) / _MEDIAN_OF_CHI_SQUARE)


def _partition(sums: Floats, excess: float) -> list[int]:
    """Return the bounds of the levels, with both ends of the window."""
    points = len(sums) - 1
    penalty = PENALTY * math.log(points)
    best = np.full(points + 1, -penalty)
    began = np.zeros(points + 1, dtype=np.intp)
    for stop in range(1, points + 1):
        cost = best[:stop] + _misfit(sums[stop] - sums[:stop]) / excess + penalty
        began[stop] = int(cost.argmin())
        best[stop] = cost[began[stop]]
    bounds = [points]
    while bounds[-1] > 0:
        bounds.append(int(began[bounds[-1]]))
    return bounds[::-1]


def _drop_single_points(sums: Floats, bounds: list[int], excess: float) -> list[int]:
    """Join levels around a single point, if they do not differ: one bad night is no level."""
    penalty = PENALTY * math.log(len(sums) - 1)
    kept = bounds[:1]
    place = 1
    while place < len(bounds):
        at = bounds[place]
        if place + 2 < len(bounds) and bounds[place + 1] - at == 1:
            after = bounds[place + 2]
            levels = np.stack([sums[at] - sums[kept[-1]], sums[after] - sums[at + 1]])
            if (_misfit(levels.sum(axis=0)) - _misfit(levels).sum()) / excess < penalty:
                place += 2
                continue
        kept.append(at)
        place += 1
    return kept


def _misfit(counts: Floats) -> Floats:
    """Return -2 log likelihood of (passed, total) at the observed rate."""
    passed, total = counts[..., 0], counts[..., 1]
    failed = total - passed
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = passed * np.log(passed / total) + failed * np.log(failed / total)
        only_one = (passed <= 0) | (failed <= 0)
    return np.asarray(np.where(only_one, 0.0, -2 * likelihood), dtype=np.float64)


def _gain(sums: Floats, start: int, at: int, stop: int) -> float:
    both, low, high = sums[stop] - sums[start], sums[at] - sums[start], sums[stop] - sums[at]
    return float(_misfit(both) - _misfit(low) - _misfit(high))


def _rate(sums: Floats, start: int, stop: int) -> float:
    passed, total = sums[stop] - sums[start]
    return float(passed / total)
