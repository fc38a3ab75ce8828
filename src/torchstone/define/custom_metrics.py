"""Report metrics of a benchmark's own: ``metric``, and the checks of what it is given.

Standard library only. ``metric`` only appends to a list: torch.compile traces that without a graph break, and repeats
it after every call of the graph. The length of the list is a guard of the compiled code, so whoever records empties
it after each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from torchstone.core.text.safe_text import is_plain
from torchstone.core.vocabulary import FORMER_NAMES, METRICS

Better = Literal["higher", "lower", "equal"]
DIRECTIONS: tuple[Better, ...] = ("higher", "lower", "equal")
MOST_METRICS = 100
"""The number of metrics that one case may report."""
LONGEST_NAME = 60
LONGEST_UNIT = 30
LARGEST = 1e100
LARGEST_WHOLE = 2**63 - 1
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_COLUMNS = frozenset({"name", "dev", "batch_size", "tag", "status", "metric", "margin", "expected"})
"""Names that tables of results use for other columns."""

Report = tuple[Any, Any, Any, Any]
"""Name, value, direction and unit, as given: not checked yet."""

_REPORTS: list[Report] = []
_recording = False


class MetricError(Exception):
    """An invalid metric; the message is for the author of the benchmark."""


class ReportedNumber(NamedTuple):
    """A checked report: a finite number, and the definition of its metric."""

    name: str
    value: float
    better: Better
    unit: str = ""


def metric(name: str, value: Any, *, better: Better, unit: str = "") -> None:  # noqa: ANN401  (a number, or a tensor of one element)
    """Report a number of the benchmark's own: while it is built, or in every call.

    ``value`` is a number, or a tensor or array with one element. ``better`` is ``higher``, ``lower`` or ``equal``.
    Outside a measurement this does nothing, so that the file also works as a script.

    >>> metric("tokens_per_second", 1200.0, better="higher", unit="1/s")
    """
    if _recording:
        _REPORTS.append((name, value, better, unit))


def set_recording(on: bool) -> None:
    """Start or stop recording; reports that nobody took are dropped."""
    global _recording  # noqa: PLW0603  (a constant of the module, as far as torch.compile is concerned)
    _recording = on
    _REPORTS.clear()


def take_reports() -> list[Report]:
    """Return the reports since the last call."""
    taken = list(_REPORTS)
    _REPORTS.clear()
    return taken


def check_report(report: Report) -> ReportedNumber:
    """Check a report; raise a MetricError that says what is wrong."""
    name, value, better, unit = report
    if problem := name_problem(name) or direction_problem(better) or unit_problem(unit):
        raise MetricError(f"torchstone.metric({_shown(name)}, ...): {problem}")
    return ReportedNumber(name, _number(name, value), better, unit)


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
    return f"better={_shown(better)}: expected 'higher', 'lower' or 'equal'"


def unit_problem(unit: object) -> str:
    """Return what is wrong with a unit; empty if nothing is."""
    if isinstance(unit, str) and is_plain(unit) and unit == unit.strip() and len(unit) <= LONGEST_UNIT:
        return ""
    return f"unit={_shown(unit)}: expected a text on one line of at most {LONGEST_UNIT} characters, such as '1/s'"


def _number(name: str, value: Any) -> float:  # noqa: ANN401  (whatever was reported)
    found = value
    if not isinstance(found, int | float) and callable(getattr(found, "item", None)):
        try:
            found = found.item()
        except (RuntimeError, ValueError, TypeError) as error:
            raise MetricError(
                f"torchstone.metric({name!r}, ...): expected one number, found a {type(value).__name__} ({error})"
            ) from None
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise MetricError(f"torchstone.metric({name!r}, ...): expected a number, found {_shown(value)}")
    too_large = abs(found) > (LARGEST_WHOLE if isinstance(found, int) else LARGEST)
    if too_large or not math.isfinite(found):
        raise MetricError(
            f"torchstone.metric({name!r}, ...): expected a finite number, found {_shown(found)}"
        )
    return found


def _shown(value: object) -> str:
    try:
        text = ascii(value)
    except Exception:  # noqa: BLE001  (the value is the user's, and may fail at anything)
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


ResultMetrics = Callable[..., Any]
"""``metrics(result)`` or ``metrics(result, seconds)``: reports metrics of one call, or returns them by name."""


def report_returned(returned: object) -> None:
    """Report what a ``metrics=`` function returned: nothing, or ``{name: (value, better)}`` or ``(value, better, unit)``."""
    if returned is None:
        return
    if not isinstance(returned, Mapping):
        raise MetricError(
            f"metrics= must return nothing or {{name: (value, better, unit)}}; it returned {_shown(returned)}"
        )
    for name, stated in returned.items():
        if not isinstance(stated, tuple | list) or len(stated) not in {2, 3}:
            raise MetricError(
                f"metrics=: {_shown(name)}: expected (value, better) or (value, better, unit), found {_shown(stated)}"
            )
        metric(name, stated[0], better=stated[1], unit=stated[2] if len(stated) == 3 else "")
