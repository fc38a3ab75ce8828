"""Columns of expected values for metrics that benchmarks report themselves: ``tokens_per_second:higher:1/s``."""

from __future__ import annotations

from typing import Any

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.metric_definitions import DIRECTIONS, name_problem, unit_problem
from torchstone.core.records import Measurement


def read_column(column: str) -> tuple[str, MeasurementDetails] | None:
    """Return the metric of a column and its definition; None for a column of another form."""
    if ":" not in column:
        return None
    name, _, rest = column.partition(":")
    better, _, unit = rest.partition(":")
    if better not in DIRECTIONS or name_problem(name) or unit_problem(unit):
        return None
    return name, make_definition(better, unit)


def make_definition(better: str, unit: str) -> MeasurementDetails:
    """Return the details that define a metric."""
    stated: Any = better  # one of DIRECTIONS
    return MeasurementDetails(better=stated, unit=unit)


def column_of(measurement: Measurement) -> str:
    """Return the column of a metric that a benchmark reports; empty for other metrics."""
    details = measurement.details
    if not details or not details.better:
        return ""
    return f"{measurement.metric}:{details.better}" + (f":{details.unit}" if details.unit else "")
