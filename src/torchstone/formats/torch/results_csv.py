"""Read and write the performance and accuracy CSV files of PyTorch's benchmark runner.

Both start with ``dev,name,batch_size[,tag]``; only the name and one metric are required. The row of a failed
case is short or padded with zeros, and has batch size 0, meaning unknown; these zeros are not read as
measurements. The column ``compilation_latency`` holds dynamo's own timers in an accuracy file, and a
difference of warm-up times in a performance file: two metrics in torchstone.
"""

from __future__ import annotations

import re
from array import array

from msgspec import structs

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import make_caution
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Number, Outcome, Reading, Run, Variant, run_of
from torchstone.core.text.safe_text import is_plain
from torchstone.core.text.units import exact_text
from torchstone.core.vocabulary import (
    ACCURACY,
    CAPTURE_METRICS,
    COMPILE_SECONDS,
    FAILED,
    METRICS,
    PASSED,
    SKIPPED,
    Probe,
    current_name,
)
from torchstone.formats import table
from torchstone.formats.table import cell_picker
from torchstone.formats.torch.ci_name import read_ci_name

_KEYS = ("dev", "name", "batch_size", "tag")
_PERFORMANCE_COLUMNS = (
    "speedup",
    "abs_latency",
    "baseline",
    "speedup_vs_baseline",
    "compilation_latency",
    "compression_ratio",
    "eager_peak_mem",
    "dynamo_peak_mem",
    "cache_lookup_latency",
    *CAPTURE_METRICS,
)
_OPTIONAL_COLUMNS = ("baseline", "speedup_vs_baseline", "cache_lookup_latency")
_ACCURACY_COLUMNS = ("accuracy", *CAPTURE_METRICS, "compilation_latency")
_ALWAYS_WRITTEN = {Probe.PERFORMANCE: ("speedup", "abs_latency"), Probe.ACCURACY: ("accuracy",)}
_NOTHING_OR_ZERO = r"\s*(?:0+(?:\.0*)?|\.0+)?\s*\Z"
MOST_SHARED = 20_000


def read_performance(path: str, text: str) -> Reading:
    """Read a performance CSV; failed rows get the status ``failed``, because the file says no more."""
    return _read(path, text, Probe.PERFORMANCE)


def read_accuracy(path: str, text: str) -> Reading:
    """Read an accuracy CSV."""
    return _read(path, text, Probe.ACCURACY)


def _read(path: str, text: str, probe: Probe) -> Reading:
    rows = table.Rows(path, text)
    stream = iter(rows)
    header_line, header = table.read_header(path, stream)
    reader = _RowReader(path, header_line, header, probe)
    lines = array("L")
    outcomes: list[Outcome] = []
    for line, cells in stream:
        outcomes.append(reader.read(line, cells))
        lines.append(line)
    table.require_rows(path, outcomes)
    cautions = (
        () if text.endswith(("\n", "\r")) else (make_caution(CautionKind.LAST_LINE_WITHOUT_END, path=path),)
    )
    return Reading(path, probe.value, run_of(path, outcomes), lines, cautions, reader.named.command())


class _RowReader:
    """Turn the rows of one file into outcomes; equal records are shared between rows."""

    def __init__(self, path: str, header_line: int, header: list[str], probe: Probe) -> None:
        self._path = path
        self._header = header
        self._probe = probe
        _require_columns(path, header_line, header, probe)
        table.refuse_two_names(path, header_line, header)
        self._at = {column: number for number, column in enumerate(header)}
        self._measured = [c for c in header if c not in _KEYS and c != "accuracy"]
        self._measured_at = [self._at[column] for column in self._measured]
        self._shortest = 1 + max(
            number for column, number in self._at.items() if column not in self._measured
        )
        self.named = read_ci_name(path, probe.value)
        self._variants: dict[tuple[str, ...], Variant] = {}
        self._pick = cell_picker(self._measured_at)
        self._known: dict[tuple[str, ...], tuple[Measurement, ...]] = {}
        self._known_cells: dict[tuple[str, str], Measurement | None] = {}

    def read(self, line: int, cells: list[str]) -> Outcome:
        """Read one row as an outcome."""
        failed = self._is_failed_form(cells)
        if len(cells) != len(self._header) and not failed:
            raise table.reject_row_length(self._path, line, cells, self._header)
        name = table.read_name(self._path, line, "name", cells[self._at["name"]])
        case = Case(name, self._probe.value, self.named.suite, self._variant(line, cells))
        measurements = () if failed else self._measurements(line, cells)
        if self._probe is Probe.ACCURACY:
            return Outcome(case, self._status(line, cells), measurements)
        if failed or any(m.metric == "speedup" and m.samples[0] == 0 for m in measurements):
            return Outcome(case, FAILED)
        return Outcome(case, PASSED, measurements)

    def _is_failed_form(self, cells: list[str]) -> bool:
        """Return whether the row is that of an exception: batch size 0, a status or zeros, then padding."""
        if not self._shortest <= len(cells) <= len(self._header):
            return False
        if not self._may_have_failed(cells):
            return False
        if self._probe is Probe.ACCURACY and cells[self._at["accuracy"]].strip() in {PASSED, ""}:
            return False
        there = (number for number in self._measured_at if number < len(cells))
        return all(re.match(_NOTHING_OR_ZERO, cells[number]) for number in there)

    def _may_have_failed(self, cells: list[str]) -> bool:
        """Return whether zeros in the row may mean "not measured".

        They may if the batch size is 0; or, without that column, if the row is short or has a zero where
        there can be none.
        """
        if "batch_size" in self._at:
            return cells[self._at["batch_size"]].strip() in {"0", "0.0"}
        has_more_than_counts = any(column not in CAPTURE_METRICS for column in self._measured)
        return len(cells) < len(self._header) or (self._probe is not Probe.ACCURACY and has_more_than_counts)

    def _status(self, line: int, cells: list[str]) -> str:
        status = cells[self._at["accuracy"]].strip()
        if not status or not is_plain(status) or len(status) > 100:
            advice = "expected a status such as pass or fail_accuracy"
            raise InputError("invalid status", path=self._path, line=line, column="accuracy", advice=advice)
        return status

    def _variant(self, line: int, cells: list[str]) -> Variant:
        key = tuple(
            cells[self._at[column]] if column in self._at else "" for column in ("dev", "batch_size", "tag")
        )
        variant = self._variants.get(key)
        if variant is None:
            size = table.read_count(self._path, line, "batch_size", key[1]) if key[1].strip() else 0
            stated = {"tag": key[2].strip(), "wrapper": self.named.wrapper}
            further = tuple(item for item in stated.items() if item[1])
            device = table.read_name(self._path, line, "dev", key[0]) if "dev" in self._at else ""
            named = self.named
            axes = (named.backend, named.mode, named.dtype, named.dynamic)
            variant = Variant(device, *axes, batch_size=size or None, further=further)
            self._variants[key] = variant
        return variant

    def _measurements(self, line: int, cells: list[str]) -> tuple[Measurement, ...]:
        """Return the measurements of a row; equal ones are shared, since most counts are small."""
        picked = self._pick(cells)
        measurements = self._known.get(picked)
        if measurements is None:
            found = [
                self._shared(line, column, cell) for column, cell in zip(self._measured, picked, strict=True)
            ]
            measurements = tuple(measurement for measurement in found if measurement is not None)
            if len(self._known) < MOST_SHARED:
                self._known[picked] = measurements
        return measurements

    def _shared(self, line: int, column: str, cell: str) -> Measurement | None:
        key = (column, cell)
        if key in self._known_cells:
            return self._known_cells[key]
        measurement = self._measurement(line, column, cell)
        if len(self._known_cells) < MOST_SHARED:
            self._known_cells[key] = measurement
        return measurement

    def _measurement(self, line: int, column: str, cell: str) -> Measurement | None:
        if not cell.strip():
            return None
        read = table.read_count if column in CAPTURE_METRICS else table.read_positive
        if column == "compilation_latency":
            # A difference of times, which the original writes even if it is negative; the gate calls that invalid.
            read = table.read_number
        return Measurement(_metric(column, self._probe), (read(self._path, line, column, cell),))


def _require_columns(path: str, line: int, header: list[str], probe: Probe) -> None:
    """Refuse a header without a name column or without any metric."""
    needed = ("name", ACCURACY) if probe is Probe.ACCURACY else ("name",)
    for column in needed:
        if column not in header:
            advice = f"expected at least {' and '.join(needed)}" if len(needed) > 1 else ""
            raise InputError(f"no column '{column}'", path=path, line=line, column=column, advice=advice)
    if not any(
        current_name(column) in METRICS and (column in needed or column != ACCURACY) for column in header
    ):
        advice = "expected speedup, abs_latency, compression_ratio or another metric of docs/reference.md"
        raise InputError("no column is a metric", path=path, line=line, advice=advice)


def _metric(column: str, probe: Probe) -> str:
    """Return the metric of a column in a file of this probe."""
    return (
        COMPILE_SECONDS
        if (column, probe) == ("compilation_latency", Probe.ACCURACY)
        else current_name(column)
    )


def write_performance(run: Run) -> str:
    """Write the performance outcomes of a run as the original's CSV."""
    return _write(run, Probe.PERFORMANCE, _PERFORMANCE_COLUMNS)


def write_accuracy(run: Run) -> str:
    """Write the accuracy outcomes of a run as the original's CSV."""
    return _write(run, Probe.ACCURACY, _ACCURACY_COLUMNS)


def write_exactly(run: Run, probe: Probe) -> str:
    """Write the outcomes of a probe with exactly the original's columns and its form of failed rows.

    Anything without a column is dropped: this is for programs that rely on the header, not for storage.
    """
    columns = _PERFORMANCE_COLUMNS if probe is Probe.PERFORMANCE else _ACCURACY_COLUMNS
    header = [column for column in columns if column not in _OPTIONAL_COLUMNS]
    outcomes = [_as_original(outcome) for outcome in run.outcomes if outcome.case.probe == probe]
    rows = [_cells(outcome, probe, header, tagged=False) for outcome in outcomes]
    return table.render_rows([["dev", "name", "batch_size", *header], *rows])


def _as_original(outcome: Outcome) -> Outcome:
    """Round numbers to six decimals; give cases that failed early the batch size 0."""
    if outcome.measurements or outcome.status in {PASSED, SKIPPED}:
        rounded = [Measurement(each.metric, (_six_decimals(each.value),)) for each in outcome.measurements]
        return structs.replace(outcome, measurements=tuple(rounded))
    variant = structs.replace(outcome.case.variant, batch_size=None)
    return structs.replace(outcome, case=structs.replace(outcome.case, variant=variant))


def _six_decimals(value: Number) -> Number:
    return value if isinstance(value, int) else round(value, 6)


def _write(run: Run, probe: Probe, columns: tuple[str, ...]) -> str:
    outcomes = [outcome for outcome in run.outcomes if outcome.case.probe == probe]
    used = {measurement.metric for outcome in outcomes for measurement in outcome.measurements}
    always = _ALWAYS_WRITTEN[probe]
    ordered = [c for c in columns if c in always or _metric(c, probe) in used]
    ordered += sorted(used - {_metric(c, probe) for c in columns} - {"accuracy"})
    tagged = any(_tag(outcome) for outcome in outcomes)
    header = ["dev", "name", "batch_size", *(["tag"] if tagged else []), *ordered]
    return table.render_rows([header, *(_cells(outcome, probe, ordered, tagged) for outcome in outcomes)])


def _cells(outcome: Outcome, probe: Probe, columns: list[str], tagged: bool) -> list[str]:
    variant = outcome.case.variant
    failed = not outcome.measurements and outcome.status not in {PASSED, SKIPPED}
    if probe is Probe.ACCURACY and variant.batch_size:
        failed = False  # with a batch size, zeros would look measured
    row = [
        variant.device,
        outcome.case.benchmark,
        str(variant.batch_size or 0),
        *([_tag(outcome)] if tagged else []),
    ]
    return row + [_cell(outcome, column, probe, failed) for column in columns]


def _cell(outcome: Outcome, column: str, probe: Probe, failed: bool) -> str:
    value = outcome.value(_metric(column, probe))
    if value is None:
        always = _ALWAYS_WRITTEN[Probe.PERFORMANCE]
        return ("0.0" if column in always else "0") if failed else ""
    return value if isinstance(value, str) else exact_text(value)


def _tag(outcome: Outcome) -> str:
    return dict(outcome.case.variant.further).get("tag", "")
