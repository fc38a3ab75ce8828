"""Describe candidates by eight numbers, from up to 30 points on each side of them.

All numbers are free of units: they stay the same if the values are shifted, scaled or reversed in time (apart from
points beside the change that are not symmetric).
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from torchstone.analyze.changepoints.noise_estimate import Floats, Indices
from torchstone.analyze.changepoints.segmentation import MOST_COST

REACH = 30
NEXT_TO_IT = 3
SMALLEST_NOISE = 0.3
"""Noise beside a candidate counts as at least this part of the window's noise at lag 1."""
FEATURES = (
    "distance of the levels / noise beside the candidate, log",
    "gain in cost from two levels instead of one, log",
    "rank: share of pairs that moved in the direction of the change, minus those that moved against it",
    "abruptness: jump of the three nearest points / distance of the levels",
    "autocorrelation at lag 1 of the points around their levels",
    "points to the nearer neighbour or end, log",
    "distance of the levels / spread of the window, log",
    "misfit of one straight line / misfit of two levels, log",
)


class Scaled(Struct, frozen=True):
    """Windows in units of their noise: points with padding, number of points, noise at lag 1, spread."""

    points: Floats
    counts: Indices
    noise_at_lag_1: Floats
    spread: Floats


class Candidates(Struct, frozen=True):
    """Candidates as columns: row of the window, neighbour or start before, index, neighbour or end after."""

    row: Indices
    start: Indices
    at: Indices
    stop: Indices


class _Sides(Struct, frozen=True):
    """Points before and after each candidate, nearest first; NaN beyond a neighbour."""

    before: Floats
    after: Floats
    counts_before: Indices
    counts_after: Indices

    @property
    def both(self) -> Floats:
        return np.concatenate([self.before, self.after], axis=1)

    @property
    def counts(self) -> Indices:
        return self.counts_before + self.counts_after


def describe(windows: Scaled, candidates: Candidates) -> tuple[Floats, Floats, Floats]:
    """Return the features of each candidate as a row, and the levels before and after it."""
    sides = _gather(windows, candidates)
    low, high = _median(sides.before, sides.counts_before), _median(sides.after, sides.counts_after)
    distance = np.abs(high - low) + 1e-9
    sign = np.where(high > low, 1.0, -1.0)
    deviations = np.abs(np.concatenate([sides.before - low[:, None], sides.after - high[:, None]], axis=1))
    at_lag_1 = windows.noise_at_lag_1[candidates.row]
    noise = np.maximum(_median(deviations, sides.counts) * 1.4826, SMALLEST_NOISE * at_lag_1)
    noise = np.maximum(noise, 1e-6)
    room = np.minimum(candidates.at - candidates.start, candidates.stop - candidates.at)
    columns = [
        _log(distance / noise, 0.05, 20),
        _log(_gain(sides, deviations, low, high, noise), 1, 500),
        sign * _dominance(sides),
        np.clip(sign * _jump(sides) / distance, -1, 2),
        _autocorrelation(sides, low, high, noise),
        _log(room, 1, np.inf),
        _log(distance / windows.spread[candidates.row], 0.02, 2),
        _log(_misfit_of_line(sides, deviations, noise), 0.2, 5),
    ]
    return np.stack(columns, axis=1), low, high


def _gather(windows: Scaled, candidates: Candidates) -> _Sides:
    steps = np.arange(REACH)
    before, after = candidates.at[:, None] - 1 - steps, candidates.at[:, None] + steps
    inside, within = before >= candidates.start[:, None], after < candidates.stop[:, None]
    rows = candidates.row[:, None]
    last = windows.points.shape[1] - 1
    return _Sides(
        np.where(inside, windows.points[rows, np.maximum(before, 0)], np.nan),
        np.where(within, windows.points[rows, np.minimum(after, last)], np.nan),
        inside.sum(axis=1),
        within.sum(axis=1),
    )


def _median(values: Floats, counts: Indices) -> Floats:
    """Return the median of each row's numbers; NaN is padding, and sorts to the end."""
    ordered = np.sort(values, axis=1)
    row = np.arange(len(ordered))
    return np.asarray((ordered[row, (counts - 1) // 2] + ordered[row, counts // 2]) / 2, dtype=np.float64)


def _sum(values: Floats) -> Floats:
    """Return the sum of each row's numbers: much faster than nansum for small arrays."""
    return np.asarray(np.add.reduce(np.where(np.isnan(values), 0, values), axis=1), dtype=np.float64)


def _log(values: Floats | Indices, least: float, most: float) -> Floats:
    return np.asarray(np.log(np.clip(values, least, most)), dtype=np.float64)


def _gain(sides: _Sides, deviations: Floats, low: Floats, high: Floats, noise: Floats) -> Floats:
    both = sides.both
    middle = _median(both, sides.counts)
    one = np.min([_cost(np.abs(both - level[:, None]), noise) for level in (middle, low, high)], axis=0)
    return np.asarray(one - _cost(deviations, noise), dtype=np.float64)


def _cost(deviations: Floats, noise: Floats) -> Floats:
    return np.asarray(_sum(np.minimum((deviations / noise[:, None]) ** 2, MOST_COST)))


def _autocorrelation(sides: _Sides, low: Floats, high: Floats, noise: Floats) -> Floats:
    """Return the lag-1 autocorrelation around both levels, of deviations of at most three times the noise."""
    products, squares = np.zeros(len(low)), np.full(len(low), 1e-9)
    for values, level in ((sides.before, low), (sides.after, high)):
        deviations = np.clip((values - level[:, None]) / noise[:, None], -3, 3)
        products += _sum(deviations[:, 1:] * deviations[:, :-1])
        squares += _sum(deviations * deviations)
    return np.asarray(products / squares, dtype=np.float64)


def _dominance(sides: _Sides) -> Floats:
    """Return Cliff's delta: the share of pairs with a higher value after, minus that with a lower one."""
    before, after = sides.before[:, :, None], sides.after[:, None, :]
    higher = np.count_nonzero(after > before, axis=(1, 2))
    lower = np.count_nonzero(after < before, axis=(1, 2))
    return np.asarray((higher - lower) / (sides.counts_before * sides.counts_after), dtype=np.float64)


def _jump(sides: _Sides) -> Floats:
    ends = []
    for values, counts in ((sides.before, sides.counts_before), (sides.after, sides.counts_after)):
        ends.append(_median(values[:, :NEXT_TO_IT], np.minimum(counts, NEXT_TO_IT)))
    return ends[1] - ends[0]


def _misfit_of_line(sides: _Sides, deviations: Floats, noise: Floats) -> Floats:
    """Return the deviations from the least-squares line over those from two levels: small for a slow drift."""
    both = sides.both
    steps = np.arange(REACH)
    positions = np.where(np.isnan(both), np.nan, np.concatenate([-1 - steps, steps])[None])
    counts = sides.counts[:, None]
    x = positions - _sum(positions)[:, None] / counts
    y = both - _sum(both)[:, None] / counts
    slope = _sum(x * y) / _sum(x * x)
    most = 9 * noise[:, None]
    line = _sum(np.minimum(np.abs(y - slope[:, None] * x), most))
    levels = _sum(np.minimum(deviations, most))
    return np.asarray((line + 1e-9) / (levels + 1e-9), dtype=np.float64)
