"""Read and write the instruction-count files of PyTorch's ``pr_time_benchmarks``.

Results are ``name,metric,value``; expected values are ``name,metric,expected,margin``. A header is optional.
The rows of one benchmark form one case with one measurement per metric. Beside the results, each benchmark
has a file with records for PyTorch's benchmark database (``write_records``; ``v3`` reads them).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import NO_OUTCOME_DETAILS
from torchstone.core.errors import InputError, printable
from torchstone.core.records import Case, Measurement, Number, Outcome, Reading, Run, run_of
from torchstone.core.text.safe_text import escape_json
from torchstone.core.text.units import exact_text
from torchstone.core.vocabulary import DEFAULT_MARGIN, PASSED, Probe, current_name
from torchstone.formats import table

RESULT_COLUMNS = ("name", "metric", "value")
EXPECTED_COLUMNS = ("name", "metric", "expected", "margin")
ORIGINAL_COUNTER = "hardware"
RECORDS = "pr_time_benchmarks"
"""The benchmark name in all records of the original."""
TREE = "_tree"
"""Suffix of metrics of the whole process tree, which the original lacks."""


def read_results(path: str, text: str) -> Reading:
    """Read ``name,metric,value``."""
    return _read(path, text, "pr-time", RESULT_COLUMNS, _result)


def read_expected(path: str, text: str) -> Reading:
    """Read ``name,metric,expected,margin``; the margin is a fraction, such as 0.015 for 1.5 %."""
    return _read(path, text, "pr-time-expected", EXPECTED_COLUMNS, _expected)


def _result(path: str, line: int, cells: Sequence[str]) -> Measurement:
    return Measurement(current_name(cells[1].strip()), (table.read_positive(path, line, "value", cells[2]),))


def _expected(path: str, line: int, cells: Sequence[str]) -> Measurement:
    value = table.read_positive(path, line, "expected", cells[2])
    if value == 0:
        advice = "a margin relative to 0 means nothing: remove the row, and add it again with 'torchstone accept --add-new'"
        raise InputError("an expected value of 0", path=path, line=line, column="expected", advice=advice)
    margin = table.read_number(path, line, "margin", cells[3])
    if not 0 <= margin < 1:
        problem = f"a margin of {cells[3].strip()}"
        advice = "expected a share from 0 to 1, such as 0.015 for 1.5 %"
        raise InputError(problem, path=path, line=line, column="margin", advice=advice)
    return Measurement(current_name(cells[1].strip()), (value,), MeasurementDetails(margin=margin))


def _read(
    path: str,
    text: str,
    kind: str,
    columns: Sequence[str],
    measure: Callable[[str, int, Sequence[str]], Measurement],
) -> Reading:
    cases: dict[str, dict[str, tuple[int, Measurement]]] = {}
    for line, cells in table.Rows(path, text):
        if [cell.strip() for cell in cells] == list(columns):
            continue
        if len(cells) != len(columns):
            raise table.reject_row_length(path, line, cells, columns)
        name = table.read_name(path, line, "name", cells[0])
        metric = table.read_name(path, line, "metric", cells[1])
        of_case = cases.setdefault(name, {})
        if metric in of_case:
            problem = f"{printable(name)} has {printable(metric)} already in line {of_case[metric][0]}"
            raise InputError(problem, path=path, line=line, column="name", advice="remove one of the two")
        of_case[metric] = (line, measure(path, line, cells))
    if not cases:
        raise InputError("no rows", path=path, line=1, advice=f"expected {','.join(columns)}")
    outcomes = tuple(
        Outcome(Case(name, Probe.INSTRUCTIONS.value), PASSED, tuple(m for _, m in by_metric.values()))
        for name, by_metric in cases.items()
    )
    lines = tuple(next(iter(by_metric.values()))[0] for by_metric in cases.values())
    return Reading(path, kind, run_of(path, outcomes), lines, metric_lines=_metric_lines(lines, cases))


def _metric_lines(
    lines: Sequence[int], cases: Mapping[str, Mapping[str, tuple[int, Measurement]]]
) -> dict[tuple[int, str], int]:
    """Return the lines of all metrics except the first of each benchmark."""
    return {
        (first, measurement.metric): line
        for first, by_metric in zip(lines, cases.values(), strict=True)
        for line, measurement in by_metric.values()
        if line != first
    }


def write_results(run: Run) -> str:
    """Write one row per benchmark and metric, without a header."""
    return table.render_rows(_cells(outcome, measurement) for outcome, measurement in _counted(run))


def write_expected(run: Run) -> str:
    """Write one row per benchmark and metric, with its margin or the default; three blank lines apart, as upstream."""
    return "\n\n\n".join(
        table.render_row([*_cells(outcome, measurement), _margin_text(measurement.margin)])
        for outcome, measurement in _counted(run)
    )


def _counted(run: Run) -> Iterator[tuple[Outcome, Measurement]]:
    """Yield the measurements of the instructions probe; these files hold no others."""
    for outcome in run.outcomes:
        if outcome.case.probe == Probe.INSTRUCTIONS:
            yield from ((outcome, measurement) for measurement in outcome.measurements)


def _cells(outcome: Outcome, measurement: Measurement) -> list[str]:
    return [outcome.case.benchmark, measurement.metric, exact_text(measurement.value)]


def original_metrics(outcome: Outcome) -> list[Measurement]:
    """Return the metrics that the original measures: not those of other processes and threads."""
    found = {measurement.metric for measurement in outcome.measurements}
    return [
        measurement
        for measurement in outcome.measurements
        if not (measurement.metric.endswith(TREE) and measurement.metric.removesuffix(TREE) in found)
    ]


def write_rows(outcome: Outcome) -> str:
    """Write the rows of one benchmark as the original does."""
    name = outcome.case.benchmark
    return table.render_rows(
        [name, measurement.metric, exact_text(smallest(measurement))]
        for measurement in original_metrics(outcome)
    )


def write_records(outcome: Outcome) -> str:
    """Write the database records of one benchmark; they name the counter if it is not the original's."""
    records = [_record(outcome, measurement) for measurement in original_metrics(outcome)]
    return escape_json(json.dumps(records, ensure_ascii=False)) + "\n"


def _record(outcome: Outcome, measurement: Measurement) -> dict[str, object]:
    case, details = outcome.case, outcome.details or NO_OUTCOME_DETAILS
    counter = measurement.counter or ORIGINAL_COUNTER
    further = {} if counter == ORIGINAL_COUNTER else {"counter": counter}
    return {
        "benchmark": {
            "name": RECORDS,
            "mode": case.variant.mode,
            "extra_info": {
                "is_dynamic": case.variant.dynamic,
                "device": case.variant.device,
                "description": details.description,
                **further,
            },
        },
        "model": {
            "name": case.benchmark,
            "type": details.category,
            "backend": case.variant.backend,
        },
        "metric": {"name": measurement.metric, "benchmark_values": [smallest(measurement)]},
    }


def smallest(measurement: Measurement) -> Number:
    """Return the smallest sample, an int if it is whole."""
    value = min(measurement.samples)
    return int(value) if value == int(value) else value


def _margin_text(margin: float | None) -> str:
    margin = DEFAULT_MARGIN if margin is None else margin
    text = f"{margin:.12g}"
    return text if float(text) == margin else repr(margin)
