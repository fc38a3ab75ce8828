"""Report metrics of a benchmark's own: ``metric``, and the checks of what it is given.

Standard library only. ``metric`` only appends to a list: torch.compile traces that without a graph break, and repeats
it after every call of the graph. The length of the list is a guard of the compiled code, so whoever records empties
it after each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torchstone.core.details.metric_definitions import (
    Better,
    direction_problem,
    name_problem,
    show_value,
    unit_problem,
)

MOST_METRICS = 100
"""The number of metrics that one case may report."""
LARGEST = 1e100
LARGEST_WHOLE = 2**63 - 1

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
        raise MetricError(f"torchstone.metric({show_value(name)}, ...): {problem}")
    return ReportedNumber(name, _number(name, value), better, unit)


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
        raise MetricError(f"torchstone.metric({name!r}, ...): expected a number, found {show_value(value)}")
    too_large = abs(found) > (LARGEST_WHOLE if isinstance(found, int) else LARGEST)
    if too_large or not math.isfinite(found):
        raise MetricError(
            f"torchstone.metric({name!r}, ...): expected a finite number, found {show_value(found)}"
        )
    return found


ResultMetrics = Callable[..., Any]
"""``metrics(result)`` or ``metrics(result, seconds)``: reports metrics of one call, or returns them by name."""


def report_returned(returned: object) -> None:
    """Report what a ``metrics=`` function returned: nothing, or ``{name: (value, better)}`` or ``(value, better, unit)``."""
    if returned is None:
        return
    if not isinstance(returned, Mapping):
        raise MetricError(
            f"metrics= must return nothing or {{name: (value, better, unit)}}; it returned {show_value(returned)}"
        )
    for name, stated in returned.items():
        if not isinstance(stated, tuple | list) or len(stated) not in {2, 3}:
            raise MetricError(
                f"metrics=: {show_value(name)}: expected (value, better) or (value, better, unit), found {show_value(stated)}"
            )
        metric(name, stated[0], better=stated[1], unit=stated[2] if len(stated) == 3 else "")
