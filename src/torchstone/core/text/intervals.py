"""Format values with their confidence intervals: ``0.15x (0.05 to 0.90)``.

Every command uses these functions.
"""

from __future__ import annotations

from math import floor, inf, isfinite, log10

from torchstone.core.text.units import format_number, format_value

WIDEST = 0.5
"""The width of an interval, relative to its value, above which the value makes no headline and no mean."""

_MOST_DIGITS = 4
_SMALLEST_DECIMAL = 1e-3  # smaller numbers are written with an exponent

Interval = tuple[float, float]


def is_too_wide(value: float, interval: Interval | None) -> bool:
    """Return whether an interval is wider than half of its value. Without an interval nothing is known, and the answer is no.

    >>> is_too_wide(1.0, (0.8, 1.2)), is_too_wide(0.15, (0.05, 0.9)), is_too_wide(1.0, None)
    (False, True, False)
    """
    if interval is None:
        return False
    width = interval[1] - interval[0]
    return not isfinite(width) or width > WIDEST * abs(value)


def format_interval(low: float, high: float) -> str:
    """Format an interval in as many digits as it has to offer: two of its width, but at most four of its ends.

    >>> format_interval(1.2307, 1.2555), format_interval(0.052, 0.9), format_interval(0.5, inf)
    ('1.231 to 1.256', '0.05 to 0.90', 'at least 0.5')
    """
    if not low <= high or not (isfinite(low) or isfinite(high)):
        return "not known"
    if high == inf:
        return f"at least {format_number(low)}"
    if low == -inf:
        return f"at most {format_number(high)}"
    decimals = _decimals(low, high)
    first, last = _rounded(low, decimals), _rounded(high, decimals)
    return first if first == last else f"{first} to {last}"


def format_with_interval(value: float, interval: Interval | None, unit: str = "") -> str:
    """Format a value with its interval. An interval that is narrower than the digits shown is left out.

    >>> format_with_interval(0.153, (0.052, 0.9), "x"), format_with_interval(3.42, (3.31, 3.6), "ms")
    ('0.15x (0.05 to 0.90)', '3.42 ms (3.31 to 3.60)')
    >>> format_with_interval(1.24321, (1.24319, 1.24323), "x"), format_with_interval(1.5, None, "x")
    ('1.243x', '1.500x')
    """
    if interval is None or not all(map(isfinite, interval)) or interval[0] > interval[1]:
        alone = _ratio(value) if unit == "x" else format_value(value, unit)
        return alone if interval is None else f"{alone} ({format_interval(*interval)})"
    low, high = interval
    decimals = _decimals(low, high)
    text, ends = _rounded(value, decimals), format_interval(low, high)
    suffix = format_value(0, unit).removeprefix("0")
    return f"{text}{suffix}" if ends == text else f"{text}{suffix} ({ends})"


def _ratio(value: float) -> str:
    return f"{value:.3f}x" if 0.001 <= abs(value) < 1000 else f"{format_number(value)}x"


def _decimals(low: float, high: float) -> int:
    """Return the number of decimals; negative for numbers that are written with an exponent."""
    largest = max(abs(low), abs(high))
    if 0 < largest < _SMALLEST_DECIMAL:
        return -1
    most = _MOST_DIGITS - 1 - floor(log10(largest)) if largest else 0
    wanted = 1 - floor(log10(high - low)) if high > low else most
    return max(0, min(most, wanted))


def _rounded(number: float, decimals: int) -> str:
    """Format a number with these decimals; one that would become 0 keeps a digit."""
    if decimals < 0:
        return f"{number:.3g}"
    text = f"{number:,.{decimals}f}"
    return f"{number:.1g}" if number and not any(digit in text for digit in "123456789") else text
