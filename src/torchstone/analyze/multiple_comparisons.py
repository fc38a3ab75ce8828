"""Many comparisons at once: how certain each is, given how many there are; standard library only."""

from __future__ import annotations

from collections.abc import Sequence


def adjust(p_values: Sequence[float]) -> list[float]:
    """Each p-value made larger for the number of them, so that of all that stay below a level, no larger share is false than that level.

    The k-th smallest of n becomes n / k times as large, and no larger than the next (Benjamini and Hochberg, "Controlling the false discovery rate", Journal of the Royal
    Statistical Society B 57, 1995). It holds for independent comparisons and for those that tend to err together, as the metrics of one case do (Benjamini and
    Yekutieli, Annals of Statistics 29, 2001).

    >>> adjust([0.01, 0.04, 0.02, 0.5])
    [0.04, 0.05333333333333333, 0.04, 0.5]
    """
    count = len(p_values)
    adjusted = [1.0] * count
    least = 1.0
    by_size = sorted(range(count), key=p_values.__getitem__, reverse=True)
    for place, index in enumerate(by_size):
        least = min(least, p_values[index] * (count / (count - place)))
        adjusted[index] = least
    return adjusted
