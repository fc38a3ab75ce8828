"""How often something happens, from how often it happened: limits that hold for any number of tries; standard library only.

The limits are exact for counts (Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika 26, 1934): of no false alarm in
twenty tries follows no more than that they come in less than 14 % of all.
"""

from __future__ import annotations

import math

CONFIDENCE = 0.95
_STEPS = 60


def upper_limit(times: int, tries: int, confidence: float = CONFIDENCE) -> float:
    """The share that is exceeded only if luck as good as this has a probability of less than 1 - confidence.

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
    """The share that is reached unless luck as good as this has a probability of less than 1 - confidence.

    >>> round(lower_limit(20, 20), 4)
    0.8609
    """
    return 1.0 - upper_limit(tries - times, tries, confidence) if tries else 0.0


def _at_most(times: int, tries: int, share: float) -> float:
    """The probability of so many or fewer out of so many tries."""
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
