"""Write the results of a run as one plain table, for spreadsheets and data frames: one row per case and metric.

The table summarises: it has no samples and no environment, and is not read back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.analyze.student_t import interval_around
from torchstone.core.records import AXES, Case, Measurement, Outcome, Run, axis_text, unit_of
from torchstone.formats import table

_CASE = ("suite", "benchmark", "probe", *AXES)
_RESULT = ("status", "metric", "value", "low", "high", "unit", "trials", "samples")
_CONFIDENCE = 0.95


def write(run: Run) -> str:
    """Write one row per case and metric; a case without numbers has one row, without a metric.

    A planned case without an outcome has no status either. Further axes follow the usual ones, each in a column of its own.
    """
    further = sorted({axis for case in run.plan for axis, _ in case.variant.further})
    header = [*_CASE, *(_column(axis) for axis in further), *_RESULT]
    outcomes = {outcome.case: outcome for outcome in run.outcomes}
    cases = dict.fromkeys((*run.plan, *outcomes))
    rows = [[*_axes(case, further), *cells] for case in cases for cells in _results(outcomes.get(case))]
    return table.render_rows([header, *rows])


def _column(axis: str) -> str:
    """Return the column of a further axis, whatever its author called it."""
    return f"{axis} (axis)" if axis in {*_CASE, *_RESULT} else axis


def _axes(case: Case, further: Sequence[str]) -> list[str]:
    usual = (getattr(case.variant, axis) for axis in AXES)
    own = dict(case.variant.further)
    return [
        case.suite,
        case.benchmark,
        case.probe,
        *("" if value is None else axis_text(value) for value in usual),
        *(own.get(axis, "") for axis in further),
    ]


def _results(outcome: Outcome | None) -> Iterator[list[str]]:
    """Yield the cells of each metric of a case."""
    if outcome is None or not outcome.measurements:
        yield [outcome.status if outcome else "", *[""] * (len(_RESULT) - 1)]
        return
    for measurement in outcome.measurements:
        yield [outcome.status, *_numbers(measurement)]


def _numbers(measurement: Measurement) -> list[str]:
    metric, value = measurement.metric, measurement.value
    low, high = interval_of(measurement) or ("", "")
    unit = unit_of(metric, measurement)
    counts = len(measurement.trials), len(measurement.samples)
    return [metric, repr(value), *map(str, (low, high)), unit, *map(str, counts)]


def interval_of(measurement: Measurement) -> tuple[float, float] | None:
    """Return the interval that the file states, else that of the mean over trials; None if neither is known."""
    stated = measurement.details.interval if measurement.details else None
    if stated and -1e300 <= stated[0] <= stated[1] <= 1e300:
        return stated
    return interval_around(measurement.trial_values, measurement.value, _CONFIDENCE)
