"""Format numbers, units, shares and counts as text; nothing else in the code base does."""

from __future__ import annotations

from collections.abc import Sequence


def format_number(value: float) -> str:
    """Format a number: whole numbers with grouped digits, others with four significant digits.

    >>> format_number(12), format_number(1234567), format_number(1.0526315), format_number(0.00001234)
    ('12', '1,234,567', '1.053', '1.234e-05')
    """
    if value == int(value) and abs(value) < 1e18:
        return f"{int(value):,}"
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def short_number(value: float) -> str:
    """Format a number in a few characters, for tables.

    >>> short_number(9999), short_number(12345), short_number(1914643426)
    ('9,999', '12.35k', '1.915G')
    """
    for least, unit, letter in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{value / unit:.4g}{letter}"
    return format_number(value)


_IMPLIED_UNITS = frozenset(
    {
        *("status", "number", "calls", "graphs", "breaks", "frames", "compiles", "instructions"),
        *("look-ups", "% of look-ups", "files", "bytes", "us"),
    }
)
"""Units that the names of our metrics say already."""


def format_value(value: str | float | None, unit: str = "") -> str:
    """Format a value with its unit; ``-`` if there is none."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{format_number(value)}{_spaced(unit)}"


def _spaced(unit: str) -> str:
    """Return the unit as it follows a number: ``1.2x`` but ``3 ms``; empty for counts."""
    if unit in {"x", "%"}:
        return unit
    return "" if unit in _IMPLIED_UNITS or not unit else f" {unit}"


def format_change(actual: float, expected: float) -> str:
    """Format the relative change: ``+3.2%``; the absolute difference if a percentage makes no sense."""
    if expected == 0:
        return f"{actual - expected:+,.6g}"
    change = 100 * ((actual - expected) / abs(expected))
    return f"{change:+.1f}%" if abs(change) >= 0.1 or change == 0 else f"{change:+.2g}%"


def format_limit(ratio: float) -> str:
    """Format a ratio or margin: 0.95, 0.015."""
    return f"{ratio:.6g}"


def format_share(share: float) -> str:
    """Format a share as a percentage.

    >>> format_share(0.02), format_share(0.0295131)
    ('2%', '2.95%')
    """
    return f"{100 * share:.3g}%"


def exact_text(value: float) -> str:
    """Format a number for a file: ints as they are, others with six decimals unless that loses digits.

    >>> exact_text(1.5), exact_text(7), exact_text(0.1234567891)
    ('1.500000', '7', '0.1234567891')
    """
    if isinstance(value, int):
        return str(value)
    six = f"{value:.6f}"
    return six if float(six) == value else repr(value)


def short_text(value: float) -> str:
    """Format a number for a file like ``exact_text``, without zeros at the end.

    >>> short_text(1.5), short_text(2.0), short_text(10)
    ('1.5', '2', '10')
    """
    text = exact_text(value)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def truncate_digits(value: float, digits: int) -> int:
    """Truncate (not round) to this many significant digits, as the original updater does.

    >>> truncate_digits(1234567, 4), truncate_digits(99, 4)
    (1234000, 99)
    """
    whole = int(value)
    step: int = 10 ** max(0, len(str(abs(whole))) - digits)
    return (abs(whole) // step) * step * (-1 if whole < 0 else 1)


def count_of(number: int, noun: str) -> str:
    """Format a number with its noun: ``1 row``, ``2 rows``, ``3 entries``."""
    if number == 1:
        return f"{number:,} {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"


def clock_text(seconds: float) -> str:
    """``0:07``, ``12:30``, ``1:05:00``.

    >>> clock_text(7), clock_text(3900)
    ('0:07', '1:05:00')
    """
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def duration_text(seconds: float) -> str:
    """Format a duration for a sentence.

    >>> duration_text(0.42), duration_text(30), duration_text(90), duration_text(300), duration_text(4000)
    ('0.4 s', '30 s', '1 min 30 s', '5 min', '1 h 7 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    whole, small = divmod(round(seconds), 60)
    if whole < 60:
        return f"{whole} min {small} s" if small else f"{whole} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def some_of(names: Sequence[str], most: int = 5) -> str:
    """Join the first names; an ellipsis stands for the others.

    >>> some_of(["a", "b"]), some_of(["a", "b", "c", "d"], most=3)
    ('a, b', 'a, b, c, ...')
    """
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
