"""Check the definitions of metrics that benchmarks report themselves: name, direction and unit.

Standard library only.
"""

from __future__ import annotations

from typing import Literal

from torchstone.core.text.safe_text import is_plain
from torchstone.core.vocabulary import FORMER_NAMES, METRICS

Better = Literal["higher", "lower", "equal"]
DIRECTIONS: tuple[Better, ...] = ("higher", "lower", "equal")
LONGEST_NAME = 60
LONGEST_UNIT = 30
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_COLUMNS = frozenset({"name", "dev", "batch_size", "tag", "status", "metric", "margin", "expected"})
"""Names that tables of results use for other columns."""


def name_problem(name: object) -> str:
    """Return what is wrong with the name of a metric; empty if nothing is."""
    fits = isinstance(name, str) and _NAME.issuperset(name) and 0 < len(name) <= LONGEST_NAME
    if not isinstance(name, str) or not fits or not name[0].isalpha():
        return f"expected a name of at most {LONGEST_NAME} letters, digits, '_', '-' and '.', that starts with a letter"
    if name in METRICS or name in FORMER_NAMES:
        return "torchstone has a metric of this name: choose another one"
    if name.lower() in _COLUMNS:
        return "tables of results have a column of this name: choose another one"
    return ""


def direction_problem(better: object) -> str:
    """Return what is wrong with the better direction; empty if nothing is."""
    if isinstance(better, str) and better in DIRECTIONS:
        return ""
    return f"better={show_value(better)}: expected 'higher', 'lower' or 'equal'"


def unit_problem(unit: object) -> str:
    """Return what is wrong with a unit; empty if nothing is."""
    if isinstance(unit, str) and is_plain(unit) and unit == unit.strip() and len(unit) <= LONGEST_UNIT:
        return ""
    return f"unit={show_value(unit)}: expected a text on one line of at most {LONGEST_UNIT} characters, such as '1/s'"


def show_value(value: object) -> str:
    """Return a value as it is written in code, shortened to 60 characters."""
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001  (the value is the user's, and may fail at anything)
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
