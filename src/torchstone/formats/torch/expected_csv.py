"""Read and write CSV files of expected values: one column per metric, or one per dtype.

With one column per metric, a file is ``name,accuracy,graph_breaks[,...]``, ``name,compression_ratio`` or the
like: any known metric may be a column. With one column per dtype, each cell is a status. An empty cell
expects nothing.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence

from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Outcome, Reading, Run, Variant, run_of
from torchstone.core.text.safe_text import is_plain
from torchstone.core.text.units import exact_text
from torchstone.core.vocabulary import ACCURACY, CAPTURE_METRICS, FORMER_NAMES, METRICS, Probe, current_name
from torchstone.formats import table

DTYPES = ("float32", "bfloat16", "float16", "amp_bf16", "amp_fp16", "amp")
MOST_SHARED = 20_000
MOST_SHOWN = 30  # names shown in a message
_WHOLE = frozenset({*CAPTURE_METRICS, "recompiles"})
_MAY_BE_ZERO = frozenset({"files", "look-ups", "% of look-ups", "%"})
"""Units without relative limits; for the others, an expected value of 0 is invalid."""
_CUSTOMARY = (ACCURACY, "graph_breaks", "calls_captured", "fallbacks_to_eager")


def read_expected(path: str, text: str) -> Reading:
    """Read one row per model, one column per metric."""
    stream = iter(table.Rows(path, text))
    header_line, header = table.read_header(path, stream)
    _require_columns(path, header_line, header, {**METRICS, **FORMER_NAMES}, "metric")
    table.refuse_two_names(path, header_line, header)
    at_name = header.index("name")
    columns = [column for column in header if column != "name"]
    pick = table.cell_picker([header.index(column) for column in columns])
    probe = _probe_of([current_name(column) for column in header])
    known: dict[tuple[str, ...], tuple[str, tuple[Measurement, ...]]] = {}
    lines = array("L")
    outcomes: list[Outcome] = []
    for line, cells in _full_rows(path, stream, header):
        picked = pick(cells)
        if picked not in known:
            if len(known) > MOST_SHARED:
                known.clear()
            known[picked] = _read_cells(path, line, columns, picked)
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
    if unknown := [column for column in header if column != "name" and column not in known]:
        from difflib import get_close_matches  # noqa: PLC0415  (only for this message)

        close = get_close_matches(unknown[0], known, n=3, cutoff=0.5)
        meant = f"did you mean {' or '.join(close)}? " if close else ""
        shown = [*close, *(each for each in known if each not in close)][:MOST_SHOWN]
        more = f", and {len(known) - len(shown)} more in docs/reference.md" if len(known) > len(shown) else ""
        advice = f"{meant}known: {', '.join(shown)}{more}"
        raise InputError(f"not a known {noun}", path=path, line=line, column=unknown[0], advice=advice)
    if len(header) < 2:
        raise InputError("no column of expected values", path=path, line=line, column="name")


def _probe_of(header: Sequence[str]) -> str:
    """Return the probe these values are for; capture counts alone may belong to any."""
    if ACCURACY in header:
        return Probe.ACCURACY.value
    probes = [METRICS[column].probes for column in header if column != "name"]
    return str(next((only[0] for only in probes if len(only) == 1), ""))


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


def write_expected(run: Run, *, all_numbers: bool = False) -> str:
    """Write one row per benchmark: its status, and the usual counts or whatever else was measured.

    With ``all_numbers``, a row with a status has all its numbers too.
    """
    outcomes = [outcome for outcome in run.outcomes if _states_accuracy(outcome)]
    stated = any(outcome.status for outcome in outcomes)
    if not stated:
        outcomes = list(run.outcomes)
    used = {measurement.metric for outcome in outcomes for measurement in outcome.measurements}
    columns = [metric for metric in METRICS if metric in used and metric != ACCURACY]
    if stated:
        columns = [ACCURACY, *(columns if all_numbers else (c for c in _CUSTOMARY if c in used))]
    rows = [[outcome.case.benchmark, *(_cell(outcome, column) for column in columns)] for outcome in outcomes]
    return table.render_rows([["name", *columns], *rows])


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


def _cell(outcome: Outcome, column: str) -> str:
    value = outcome.value(column)
    if value is None or isinstance(value, str):
        return value or ""
    needs_more = column not in _WHOLE and METRICS[column].unit not in _MAY_BE_ZERO
    return "" if needs_more and value <= 0 else exact_text(value)
