"""Compute the spread of repeated counts, and the margin that the next count needs.

Standard library only.

The margin is a 99.9 % prediction interval, assuming independent, log-normal values (Hahn and Meeker,
"Statistical Intervals", 1991: mean ± t(n - 1) s √(1 + 1/n)). A confidence interval would not do: it locates
the mean and shrinks with more repeats, while single values keep their spread. A multiple of the observed
range would not do either: three values rarely show the range of a hundred, and Student's t accounts for that.
Hence few repeats give wide margins: 36 standard deviations from three values, 7.4 from six, 4.8 from eleven.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal

FEWEST = 3  # values; with two, Student's t would be 637
CONFIDENCE = 0.999
DIGITS = 2

# 99.9 % two-sided Student's t by degrees of freedom; in between, the smaller number applies, which is wider.
STUDENT_T = {
    2: 31.599,
    3: 12.924,
    4: 8.610,
    5: 6.869,
    6: 5.959,
    7: 5.408,
    8: 5.041,
    9: 4.781,
    10: 4.587,
    12: 4.318,
    15: 4.073,
    20: 3.850,
    30: 3.646,
    60: 3.460,
    120: 3.373,
}
_MOST = 50.0  # of the logarithm: a larger margin is useless, and exponentials overflow


def spread(values: Sequence[float]) -> float:
    """Return (max - min) / min of the values; 0 if there are none.

    >>> spread([100, 103, 101])
    0.03
    """
    smallest = min(values, default=0)
    return (max(values) - smallest) / smallest if smallest > 0 else 0.0


def predict(values: Sequence[float]) -> tuple[float, float]:
    """Return the prediction interval of the next value; it always contains the observed values.

    It is unbounded if there are too few values, or one is not positive.
    """
    if len(values) < FEWEST or min(values) <= 0:
        return 0.0, math.inf
    logs = [math.log(value) for value in values]
    count = len(logs)
    mean = math.fsum(logs) / count
    deviation = math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (count - 1))
    t = STUDENT_T[max(freedom for freedom in STUDENT_T if freedom <= count - 1)]
    reach = min(_MOST, t * deviation * math.sqrt(1 + 1 / count))
    return min(math.exp(mean - reach), *values), max(math.exp(mean + reach), *values)


def find_margin(values: Sequence[float], around: float, least: float) -> float:
    """Return the relative margin around an expected value that the next value will stay within.

    It is rounded up to two digits, and infinite if nothing can be predicted.

    >>> find_margin([1000, 1000, 1000, 1000], around=1000, least=0.001)
    0.001
    """
    low, high = predict(values)
    if around <= 0 or math.isinf(high):
        return math.inf
    return round_up(max(least, high / around - 1, 1 - low / around))


def round_up(share: float) -> float:
    """Round a share up to two significant digits.

    >>> round_up(0.01201), round_up(0.0012), round_up(0.0999)
    (0.013, 0.0012, 0.1)
    """
    exact = Decimal(f"{share:.12g}")  # exact decimals: 0.1 must not become a little more
    if not exact:
        return 0.0
    return float(exact.quantize(Decimal(1).scaleb(exact.adjusted() + 1 - DIGITS), ROUND_CEILING))
