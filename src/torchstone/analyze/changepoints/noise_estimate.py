"""Estimate the noise of a series from differences between its points, so that changes of level do not count.

The median absolute deviation of x[t + k] - x[t] estimates the spread around a level without knowing the levels. Neighbours (k = 1) of
an autocorrelated series are alike, and would make its noise look small: the noise is the larger of that at
lag 1 and that at lags 6 to 10. In a short series with two changes, most of these pairs would span a change: its lags are 2 to 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

LAGS = (6, 7, 8, 9, 10)
LAGS_IF_SHORT = (2, 3, 4)
SHORT = 64
"""With fewer points, a series is short."""
FEWEST = 16
"""Fewer points have lag 1 only."""
_QUANTILES = ((0.5, 0.6745), (0.6, 0.8416), (0.7, 1.0364), (0.8, 1.2816), (0.9, 1.6449), (0.95, 1.96))
"""Quantiles of |difference|, and of |z| for a standard normal z. The first that is positive is used: most points of
a series may be equal to their neighbours."""


def estimate_noise(rows: Floats) -> tuple[Floats, Floats]:
    """Return, for each row, the noise at lag 1 and the noise to compare changes with; 0 for a constant row."""
    near = _spread_at(rows, 1)
    far = near
    if rows.shape[1] >= FEWEST:
        is_short = rows.shape[1] < SHORT
        lags = LAGS_IF_SHORT if is_short else LAGS
        far = np.median([_spread_at(rows, lag, is_centred=not is_short) for lag in lags], axis=0)
    for row in np.flatnonzero((near <= 0) | (far <= 0)):
        spread = _spread_with_ties(rows[row])
        near[row] = max(near[row], spread)
        far[row] = max(far[row], spread)
    return near, np.maximum(near, far)


def _spread_at(rows: Floats, lag: int, *, is_centred: bool = True) -> Floats:
    moved = rows[:, lag:] - rows[:, :-lag]
    moved = np.abs(moved - middle(moved)[:, None] if is_centred else moved)
    return np.asarray(middle(moved) / (_QUANTILES[0][1] * np.sqrt(2)), dtype=np.float64)


def middle(rows: Floats) -> Floats:
    """Return the median of each row: faster than NumPy's for short rows."""
    ordered = np.sort(rows, axis=1)
    count = rows.shape[1]
    return np.asarray((ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2, dtype=np.float64)


def _spread_with_ties(values: Floats) -> float:
    moved = np.sort(np.abs(np.diff(values)))
    if moved[-1] == 0:
        return 0.0
    for share, normal in _QUANTILES:
        if (quantile := moved[int(share * len(moved))]) > 0:
            return float(quantile / normal / np.sqrt(2))
    return float(moved[moved > 0][0] / 2 / np.sqrt(2))
