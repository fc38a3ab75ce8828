"""Adjust p-values for the number of comparisons.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence


def adjust(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values to control the false discovery rate (Benjamini-Hochberg).

    The k-th smallest of n p-values is multiplied by n / k, and capped by the next larger one (Benjamini and
    Hochberg, "Controlling the false discovery rate", Journal of the Royal Statistical Society B 57, 1995).
    This holds for independent and for positively dependent comparisons, such as the metrics of one case
    (Benjamini and Yekutieli, Annals of Statistics 29, 2001).

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
