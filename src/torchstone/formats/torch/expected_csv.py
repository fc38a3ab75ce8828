"""Read and write CSV files of expected values: one column per metric, or one per dtype.

With one column per metric, a file is ``name,accuracy,graph_breaks[,...]``, ``name,compression_ratio`` or the
like: any known metric may be a column, and so may one that a benchmark reports itself, with its definition
(``tokens_per_second:higher:1/s``). A noisy metric may have its spread beside it, ``speedup_spread``, and
``trials`` says how many processes measured the row. With one column per dtype, each cell is a status. An empty cell
expects nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence

from msgspec import structs

from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Measurement, Outcome, Reading, Run, Variant, find_metric, run_of
from torchstone.core.text.safe_text import is_plain
from torchstone.core.text.units import exact_text, short_text
from torchstone.core.vocabulary import (
    ACCURACY,
    CAPTURE_METRICS,
    FORMER_NAMES,
    METRICS,
    Probe,
    current_name,
)
from torchstone.formats import table
from torchstone.formats.torch.custom_columns import column_of, read_column

DTYPES = ("float32", "bfloat16", "float16", "amp_bf16", "amp_fp16", "amp")
MOST_SHARED = 20_000
MOST_SHOWN = 30  # names shown in a message
_WHOLE = frozenset({*CAPTURE_METRICS, "recompiles"})
_MAY_BE_ZERO = frozenset({"files", "look-ups", "% of look-ups", "%"})
"""Units without relative limits; for the others, an expected value of 0 is invalid."""
_LARGEST_SPREAD = 100
_LEAST_SPREAD = 0.0001
_CUSTOMARY = (ACCURACY, "graph_breaks", "calls_captured", "fallbacks_to_eager")


def read_expected(path: str, text: str) -> Reading:
    """Read one row per model, one column per metric."""
    stream = iter(table.Rows(path, text))
    header_line, header = table.read_header(path, stream)
    evidence = [column for column in header if is_evidence(column)]
    expected = [column for column in header if column not in evidence]
    _require_columns(path, header_line, expected, {**METRICS, **FORMER_NAMES}, "metric")
    table.refuse_two_names(path, header_line, header)
    _require_metrics(path, header_line, evidence, expected)
    at_name = header.index("name")
    columns = [column for column in header if column != "name"]
    pick = table.cell_picker([header.index(column) for column in columns])
    probe = _probe_of([current_name(column) for column in expected])
    read_cells = _read_with_evidence if evidence else _read_cells
    known: dict[tuple[str, ...], tuple[str, tuple[Measurement, ...]]] = {}
    lines = array("L")
    outcomes: list[Outcome] = []
    for line, cells in _full_rows(path, stream, header):
        picked = pick(cells)
        if picked not in known:
            if len(known) > MOST_SHARED:
                known.clear()
            known[picked] = read_cells(path, line, columns, picked)
        name = table.read_name(path, line, "name", cells[at_name])
        outcomes.append(Outcome(Case(name, probe), *known[picked]))
        lines.append(line)
    table.require_rows(path, outcomes)
    return Reading(path, "expected", run_of(path, outcomes), lines)


def _read_cells(
    path: str, line: int, columns: Sequence[str], cells: Sequence[str]
) -> tuple[str, tuple[Measurement, ...]]:
    """Return the expected status and numbers of a row; equal rows share their records."""
    status = ""
    measurements = []
    for column, cell in zip(columns, cells, strict=True):
        if column == ACCURACY:
            status = read_status(path, line, column, cell)
        elif (measurement := _measurement(path, line, column, cell)) is not None:
            measurements.append(measurement)
    return status, tuple(measurements)


TRIALS = "trials"
_SPREAD = "_spread"


def spread_column(metric: str) -> str:
    """Return the column of a metric's spread."""
    return metric + _SPREAD


def is_evidence(column: str) -> bool:
    """Return whether a column states the evidence behind expected values: a spread, or the number of trials."""
    return column == TRIALS or (column.endswith(_SPREAD) and ":" not in column and column not in METRICS)


def is_noisy(metric: str, *found: Measurement | None) -> bool:
    """Return whether an expected value of this metric, which ``found`` may define, may have a spread: counts do not vary by chance."""
    known = find_metric(metric, *found)
    return known is not None and not known.is_counted


def is_noisy_column(column: str) -> bool:
    """Return whether the metric of a column may have a spread."""
    if own := read_column(column):
        return is_noisy(own[0], Measurement(own[0], (), own[1]))
    return is_noisy(current_name(column))


def _name_in(column: str) -> str:
    """Return the metric of a column by the name that the file uses."""
    own = read_column(column)
    return own[0] if own else column


def _require_metrics(path: str, line: int, evidence: Sequence[str], expected: Sequence[str]) -> None:
    """Refuse the spread of a metric that has no column, or that does not vary."""
    columns = {_name_in(column): column for column in expected}
    for column in evidence:
        metric = column.removesuffix(_SPREAD)
        if column != TRIALS and metric not in columns:
            problem = f"a spread without a column '{metric}'"
        elif column != TRIALS and not is_noisy_column(columns[metric]):
            problem = f"{metric} does not vary by chance, so it has no spread"
        else:
            continue
        raise InputError(problem, path=path, line=line, column=column, advice="remove the column")


def _read_with_evidence(
    path: str, line: int, columns: Sequence[str], cells: Sequence[str]
) -> tuple[str, tuple[Measurement, ...]]:
    """Return the expected status and numbers of a row, with their spreads and the number of trials."""
    found = dict(zip(columns, cells, strict=True))
    stated = {column: cell for column, cell in found.items() if is_evidence(column) and cell.strip()}
    values = {column: cell for column, cell in found.items() if not is_evidence(column)}
    trials = _read_trials(path, line, stated.pop(TRIALS, ""))
    status, measurements = _read_cells(path, line, tuple(values), tuple(values.values()))
    stated_values = {_name_in(column): cell.strip() for column, cell in values.items()}
    spreads = {}
    for column, cell in stated.items():
        if not stated_values[column.removesuffix(_SPREAD)]:
            advice = "leave the cell empty, or state the expected value"
            raise InputError("a spread without a value", path=path, line=line, column=column, advice=advice)
        if trials is not None and trials < 2:
            raise InputError(
                "a spread of one trial", path=path, line=line, column=column, advice="leave the cell empty"
            )
        spreads[current_name(column.removesuffix(_SPREAD))] = _read_spread(path, line, column, cell)
    return status, tuple(_with_evidence(each, spreads.get(each.metric), trials) for each in measurements)


def _with_evidence(measurement: Measurement, spread: float | None, trials: int | None) -> Measurement:
    if (spread is None and trials is None) or not is_noisy(measurement.metric, measurement):
        return measurement
    details = structs.replace(measurement.details or NO_DETAILS, spread=spread, spread_trials=trials)
    return structs.replace(measurement, details=details)


def _read_trials(path: str, line: int, cell: str) -> int | None:
    if not cell:
        return None
    trials = table.read_count(path, line, TRIALS, cell)
    if not trials:
        advice = "expected 1 or more, or an empty cell if it is not known"
        raise InputError("no trials", path=path, line=line, column=TRIALS, advice=advice)
    return trials


def _read_spread(path: str, line: int, column: str, cell: str) -> float:
    spread = table.read_positive(path, line, column, cell)
    if spread > _LARGEST_SPREAD:
        advice = "expected a share: 0.012 for 1.2 %"
        raise InputError(f"{cell.strip()} is too large", path=path, line=line, column=column, advice=advice)
    return float(spread)


def read_by_dtype(path: str, text: str) -> Reading:
    """Read one row per model, one column per dtype, with a status in each cell."""
    stream = iter(table.Rows(path, text))
    header_line, header = table.read_header(path, stream)
    _require_columns(path, header_line, header, DTYPES, "dtype")
    lines: list[int] = []
    outcomes: list[Outcome] = []
    for line, cells in _full_rows(path, stream, header):
        name = table.read_name(path, line, "name", cells[header.index("name")])
        for dtype, cell in zip(header, cells, strict=True):
            if dtype != "name" and (status := read_status(path, line, dtype, cell)):
                outcomes.append(
                    Outcome(Case(name, Probe.ACCURACY.value, variant=Variant(dtype=dtype)), status)
                )
                lines.append(line)
    table.require_rows(path, outcomes)
    return Reading(path, "expected-by-dtype", run_of(path, outcomes), lines)


def _require_columns(path: str, line: int, header: Sequence[str], known: Collection[str], noun: str) -> None:
    if "name" not in header:
        raise InputError("no column 'name'", path=path, line=line, column="name")
    own = noun == "metric"
    if unknown := [
        column
        for column in header
        if column != "name" and column not in known and not (own and read_column(column))
    ]:
        from difflib import get_close_matches  # noqa: PLC0415  (only for this message)

        close = get_close_matches(unknown[0], known, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(close)}? " if close else ""
        shown = [*close, *(each for each in known if each not in close)][:MOST_SHOWN]
        more = f", and {len(known) - len(shown)} more in docs/reference.md" if len(known) > len(shown) else ""
        advice = f"{meant}known: {', '.join(shown)}{more}"
        if own:
            advice = f"{advice}; a metric that a benchmark reports is NAME:higher:UNIT, NAME:lower:UNIT or NAME:equal"
        raise InputError(f"not a known {noun}", path=path, line=line, column=unknown[0], advice=advice)
    if len(header) < 2:
        raise InputError("no column of expected values", path=path, line=line, column="name")


def _probe_of(header: Sequence[str]) -> str:
    """Return the probe these values are for; capture counts alone may belong to any."""
    if ACCURACY in header:
        return Probe.ACCURACY.value
    probes = [METRICS[column].probes for column in header if column in METRICS]
    only = next((str(known[0]) for known in probes if len(known) == 1), "")
    return only or ("" if len(probes) == len(header) - 1 else Probe.PERFORMANCE.value)


def _full_rows(
    path: str, stream: Iterator[tuple[int, list[str]]], header: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    for line, cells in stream:
        if len(cells) != len(header):
            raise table.reject_row_length(path, line, cells, header)
        yield line, cells


def read_status(path: str, line: int, column: str, cell: str) -> str:
    """Read a status; empty if the cell is."""
    status = cell.strip()
    if status and (not is_plain(status) or len(status) > 100):
        advice = "expected a status such as pass or fail_accuracy"
        raise InputError("invalid status", path=path, line=line, column=column, advice=advice)
    return status


def _measurement(path: str, line: int, column: str, cell: str) -> Measurement | None:
    if not cell.strip():
        return None
    if own := read_column(column):
        return Measurement(own[0], (table.read_number(path, line, column, cell),), own[1])
    metric = current_name(column)
    if metric in _WHOLE:
        return Measurement(metric, (table.read_count(path, line, column, cell),))
    if METRICS[metric].unit in _MAY_BE_ZERO:
        return Measurement(metric, (table.read_number(path, line, column, cell),))
    number = table.read_positive(path, line, column, cell)
    if number == 0:
        advice = "a margin relative to 0 means nothing: leave the cell empty, or remove the row"
        raise InputError("an expected value of 0", path=path, line=line, column=column, advice=advice)
    return Measurement(metric, (number,))


def write_expected(run: Run, *, all_numbers: bool = False, padded: bool = True) -> str:
    """Write one row per benchmark: its status, and the usual counts or whatever else was measured.

    With ``all_numbers``, a row with a status has all its numbers too. Numbers have six decimals, as PyTorch's scripts
    write them, unless ``padded`` is false.
    """
    outcomes = [outcome for outcome in run.outcomes if _states_accuracy(outcome)]
    stated = any(outcome.status for outcome in outcomes)
    if not stated:
        outcomes = list(run.outcomes)
    used = {measurement.metric for outcome in outcomes for measurement in outcome.measurements}
    columns = [metric for metric in METRICS if metric in used and metric != ACCURACY]
    columns += _custom_columns(outcomes)
    if stated:
        columns = [ACCURACY, *(columns if all_numbers else (c for c in _CUSTOMARY if c in used))]
    columns = _add_evidence(columns, outcomes)
    rows = [
        [outcome.case.benchmark, *(_cell(outcome, column, padded) for column in columns)]
        for outcome in outcomes
    ]
    return table.render_rows([["name", *columns], *rows])


def _add_evidence(columns: Sequence[str], outcomes: Sequence[Outcome]) -> list[str]:
    """Return the columns with those of spreads and of trials, as far as outcomes state them."""
    names = {column: _name_in(column) for column in columns}
    there = frozenset(names.values())
    noisy = [m for outcome in outcomes for m in outcome.measurements if m.details and m.metric in there]
    noisy = [m for m in noisy if is_noisy(m.metric, m)]
    spread = {m.metric for m in noisy if m.details and m.details.spread is not None}
    found = [
        c for column, name in names.items() for c in (column, spread_column(name))[: 1 + (name in spread)]
    ]
    is_counted = any(m.details and m.details.spread_trials for m in noisy)
    return [*found, TRIALS] if is_counted else found


def evidence_cell(outcome: Outcome, column: str) -> str:
    """Return the cell of a spread, with two digits, or of the number of trials: the least behind a spread, if there is one."""
    metric = column.removesuffix(_SPREAD)
    noisy = [m.details for m in outcome.measurements if m.details and is_noisy(m.metric, m)]
    if column == TRIALS:
        behind = [each for each in noisy if each.spread is not None] or noisy
        return str(min((each.spread_trials for each in behind if each.spread_trials), default=""))
    found = (m.details for m in outcome.measurements if m.details and m.metric == current_name(metric))
    return spread_text(next((each.spread for each in found), None))


def spread_text(spread: float | None) -> str:
    """Return a spread as a cell: a share with two significant digits, 0.01 % or more; empty if it is not known."""
    if spread is None:
        return ""
    return short_text(float(f"{max(spread, _LEAST_SPREAD):.2g}") if spread else 0)


def _custom_columns(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the columns of metrics that benchmarks report; refuse one with two definitions."""
    found = {
        column: each.metric
        for outcome in outcomes
        for each in outcome.measurements
        if (column := column_of(each))
    }
    for column, metric in found.items():
        if other := next((each for each in found if found[each] == metric and each != column), ""):
            raise UsageError(
                f"{metric} has two definitions, {column} and {other}: one table cannot hold both",
                advice="choose some cases with --only, or use a run file as the baseline",
            )
    return list(found)


def write_by_dtype(run: Run) -> str:
    """Write one row per benchmark, one column per dtype."""
    statuses: dict[str, dict[str, str]] = {}
    for outcome in run.outcomes:
        if _states_accuracy(outcome) and outcome.case.variant.dtype in DTYPES:
            statuses.setdefault(outcome.case.benchmark, {})[outcome.case.variant.dtype] = outcome.status
    used = [dtype for dtype in DTYPES if any(dtype in by_dtype for by_dtype in statuses.values())]
    rows = [[name, *(by_dtype.get(dtype, "") for dtype in used)] for name, by_dtype in statuses.items()]
    return table.render_rows([["name", *used], *rows])


def _states_accuracy(outcome: Outcome) -> bool:
    return outcome.case.probe in {"", Probe.ACCURACY}


def _cell(outcome: Outcome, column: str, padded: bool) -> str:
    if is_evidence(column):
        return evidence_cell(outcome, column)
    if own := read_column(column):
        number = outcome.value(own[0])
        return (
            ""
            if number is None or isinstance(number, str)
            else (exact_text if padded else short_text)(number)
        )
    value = outcome.value(column)
    if value is None or isinstance(value, str):
        return value or ""
    needs_more = column not in _WHOLE and METRICS[column].unit not in _MAY_BE_ZERO
    return "" if needs_more and value <= 0 else (exact_text if padded else short_text)(value)
