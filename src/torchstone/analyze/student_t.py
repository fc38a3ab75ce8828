"""Compute p-values and quantiles of Student's t distribution.

Standard library only.

The p-value is a regularised incomplete beta function, computed as a continued fraction (Abramowitz and
Stegun, "Handbook of Mathematical Functions", 26.5.8 and 26.7.1) with Lentz's method (Applied Optics 15,
1976). Degrees of freedom may be fractional, as in Welch's test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

_TINY = 1e-300
_PRECISE = 1e-13
_CLOSE = 1e-6  # of the last step: the remaining error is about its square
_TERMS = tuple(map(float, range(1, 500)))  # floats only, for speed
_MOST_STEPS = 60
_MOST_LOG = 50.0  # beyond it nothing is known, and exponentials overflow


def two_sided_p(t: float, freedom: float) -> float:
    """Return the two-sided p-value of ``t``.

    >>> round(two_sided_p(2.776445, 4), 6)
    0.05
    """
    if math.isnan(t) or freedom <= 0:
        return 1.0
    square = t * t
    if math.isinf(square):
        return 0.0
    return _beta_share(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))


def t_quantile(alpha: float, freedom: float, near: float = 3.0) -> float:
    """Return the two-sided quantile: |t| exceeds it with probability ``alpha``.

    ``near`` is the starting point of Newton's method. It runs on logarithms, where the curve is concave:
    after the first step it converges from one side without overshooting.

    >>> round(t_quantile(0.05, 4), 4)
    2.7764
    """
    if not 0 < alpha < 1 or freedom <= 0:
        raise ValueError("alpha is a share between 0 and 1, and there is at least some freedom")
    t = near
    for _ in range(_MOST_STEPS):
        p = two_sided_p(t, freedom)
        if p == 0:  # the p-value underflows
            t /= 2
            continue
        step = math.log(p / alpha) * p / (2 * t * _density(t, freedom))
        t *= math.exp(max(-3.0, min(3.0, step)))
        if abs(step) < _CLOSE:
            break
    return t


@cache
def whole_t_quantile(alpha: float, freedom: int) -> float:
    """Return the quantile for whole degrees of freedom, from a cache."""
    return t_quantile(alpha, freedom)


def _density(t: float, freedom: float) -> float:
    log = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(freedom * math.pi)
    return math.exp(log - (freedom + 1) / 2 * math.log1p(t * t / freedom))


def _beta_share(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularised incomplete beta function at ``x``; ``rest`` is 1 - x, passed separately for precision."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Evaluate the continued fraction with Lentz's method."""
    both = a + b
    upper, lower = 1.0, 1.0 / ((1.0 - both * x / (a + 1.0)) or _TINY)
    value = lower
    for term in _TERMS:
        place = a + 2.0 * term
        even = term * (b - term) * x / ((place - 1.0) * place)
        odd = -(a + term) * (both + term) * x / (place * (place + 1.0))
        lower = 1.0 / ((1.0 + even * lower) or _TINY)
        upper = (1.0 + even / upper) or _TINY
        value *= lower * upper
        lower = 1.0 / ((1.0 + odd * lower) or _TINY)
        upper = (1.0 + odd / upper) or _TINY
        step = lower * upper
        value *= step
        if -_PRECISE < step - 1.0 < _PRECISE:
            break
    return value


def spread_of(values: Sequence[float]) -> float | None:
    """Return the standard deviation of the logarithms of trials, which is their relative deviation if it is small.

    None for fewer than two trials, and for trials that are not positive.

    >>> round(spread_of([0.98, 1.0, 1.02]), 4)
    0.02
    """
    found = _mean_and_spread(values)
    return found[1] if found else None


def interval_around(values: Sequence[float], middle: float, confidence: float) -> tuple[float, float] | None:
    """Return the confidence interval of the mean over trials, of which each is one process; it contains ``middle``.

    None for fewer than two trials, and for trials that are not positive.
    """
    if (found := _mean_and_spread(values)) is None:
        return None
    mean, spread = found
    reach = min(_MOST_LOG, t_quantile(1 - confidence, len(values) - 1) * spread / math.sqrt(len(values)))
    return min(middle, math.exp(mean - reach)), max(middle, math.exp(mean + reach))


def _mean_and_spread(values: Sequence[float]) -> tuple[float, float] | None:
    """Return mean and standard deviation of the logarithms."""
    if len(values) < 2 or not all(math.isfinite(value) and value > 0 for value in values):
        return None
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    return mean, math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (len(logs) - 1))
