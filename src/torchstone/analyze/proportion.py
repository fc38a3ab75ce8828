"""Compute confidence limits of a proportion.

Standard library only.

The limits are exact for counts (Clopper and Pearson, "The use of confidence or fiducial limits illustrated in
the case of the binomial", Biometrika 26, 1934): no false alarm in twenty tries only shows that their rate is
below 14 %.
"""

from __future__ import annotations

import math

CONFIDENCE = 0.95
_STEPS = 60


def upper_limit(times: int, tries: int, confidence: float = CONFIDENCE) -> float:
    """Return the one-sided upper confidence limit of a proportion.

    >>> round(upper_limit(0, 20), 4)
    0.1391
    """
    if times >= tries:
        return 1.0
    low, high = times / tries, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _at_most(times, tries, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def lower_limit(times: int, tries: int, confidence: float = CONFIDENCE) -> float:
    """Return the one-sided lower confidence limit of a proportion.

    >>> round(lower_limit(20, 20), 4)
    0.8609
    """
    return 1.0 - upper_limit(tries - times, tries, confidence) if tries else 0.0


def _at_most(times: int, tries: int, share: float) -> float:
    """Return the binomial probability of at most this many successes."""
    if share >= 1:
        return 0.0
    if share <= 0:
        return 1.0
    return math.fsum(
        math.exp(
            math.lgamma(tries + 1)
            - math.lgamma(count + 1)
            - math.lgamma(tries - count + 1)
            + count * math.log(share)
            + (tries - count) * math.log1p(-share)
        )
        for count in range(times + 1)
    )
