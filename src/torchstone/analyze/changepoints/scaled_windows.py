"""Scale windows to units of their noise, and lay them side by side as rows of one array.

Positive values are scaled as logarithms, so that a change is a ratio.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from torchstone.analyze.changepoints.features import Scaled
from torchstone.analyze.changepoints.noise_estimate import Floats, estimate_noise, middle
from torchstone.analyze.changepoints.segmentation import choose_levels

FEWEST = 4
"""Fewer points have no changes."""
FINEST = 1e-12
"""Smaller relative differences are rounding errors."""
DIGITS = 6
"""Scaled points are rounded, so that rounding errors of another unit decide nothing."""
ROWS_AT_ONCE = 256


class Unit(Struct, frozen=True):
    """How a scaled point becomes a value again."""

    centre: float
    noise: float
    largest: float
    is_log: bool

    def restore(self, point: float) -> float:
        """Return the value that a scaled point stands for."""
        scaled = point * self.noise + self.centre
        return float(np.exp(scaled)) if self.is_log else scaled * self.largest


class WindowBlock(Struct, frozen=True):
    """Windows side by side: their numbers, their points, the levels to try, and the units of each row."""

    numbers: list[int]
    windows: Scaled
    levels: Floats
    units: list[Unit]


class _ScaledRow(Struct, frozen=True):
    number: int
    points: Floats
    noise_at_lag_1: float
    spread: float
    levels: Floats
    unit: Unit


def make_blocks(windows: Sequence[Floats]) -> Iterator[WindowBlock]:
    """Yield the windows in blocks; those that are too short or constant are left out."""
    by_length: dict[int, list[int]] = {}
    for number, values in enumerate(windows):
        by_length.setdefault(len(values), []).append(number)
    rows: list[_ScaledRow] = []
    for length in sorted(by_length):
        if length >= FEWEST:
            rows += _scale(by_length[length], np.stack([windows[number] for number in by_length[length]]))
    for first in range(0, len(rows), ROWS_AT_ONCE):
        yield _join(rows[first : first + ROWS_AT_ONCE])


def _scale(numbers: list[int], values: Floats) -> list[_ScaledRow]:
    """Scale windows of equal length."""
    is_log = values.min(axis=1) > 0
    largest = np.maximum(np.abs(values).max(axis=1), np.finfo(np.float64).tiny)
    with np.errstate(divide="ignore", invalid="ignore"):
        points = np.where(is_log[:, None], np.log(values), values / largest[:, None])
    centre = middle(points)
    at_lag_1, noise = estimate_noise(points)
    varies = np.ptp(points, axis=1) > FINEST
    noise = np.maximum(noise, FINEST)
    points = np.round((points - centre[:, None]) / noise[:, None], DIGITS)
    low, high = np.quantile(points, [0.05, 0.95], axis=1)
    levels = choose_levels(points)
    return [
        _ScaledRow(
            numbers[row],
            points[row],
            float(max(at_lag_1[row], FINEST) / noise[row]),
            float(max(high[row] - low[row], 1)),
            levels[row],
            Unit(float(centre[row]), float(noise[row]), float(largest[row]), bool(is_log[row])),
        )
        for row in np.flatnonzero(varies)
    ]


def _join(rows: list[_ScaledRow]) -> WindowBlock:
    counts = np.array([len(row.points) for row in rows], dtype=np.intp)
    points = np.zeros((len(rows), counts.max()))
    for place, row in enumerate(rows):
        points[place, : counts[place]] = row.points
    windows = Scaled(
        points,
        counts,
        np.array([row.noise_at_lag_1 for row in rows]),
        np.array([row.spread for row in rows]),
    )
    return WindowBlock(
        [row.number for row in rows],
        windows,
        np.stack([row.levels for row in rows]),
        [row.unit for row in rows],
    )
