"""Edit the rows of a baseline that is a table: change cells, add and remove rows, and leave the rest as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torchstone.baselines.proposed_changes import Change
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Number, Outcome
from torchstone.core.text.units import short_text
from torchstone.core.vocabulary import ACCURACY, COMPILE_SECONDS, current_name
from torchstone.formats.edit import TableText, TextRow
from torchstone.formats.torch import speedup_targets
from torchstone.formats.torch.custom_columns import read_column
from torchstone.formats.torch.expected_csv import (
    TRIALS,
    evidence_cell,
    is_evidence,
    is_noisy_column,
    spread_column,
    spread_text,
)


def make_editor(table: TableText, kind: str) -> _ColumnEditor | _PrTimeEditor | _TargetsEditor:
    """Return the editor for a table of this format."""
    if kind == speedup_targets.KIND:
        return _TargetsEditor(table)
    return _PrTimeEditor(table) if kind.startswith("pr-time") else _ColumnEditor(table, kind)


class _ColumnEditor:
    """Edit a table with a header, where a column is a metric or a dtype."""

    def __init__(self, table: TableText, kind: str) -> None:
        self._table = table
        self._wide = kind == "expected-by-dtype"
        self._accuracy_file = kind == "accuracy"
        self._header = [cell.strip() for cell in table.rows[0].cells]
        self._name = self._header.index("name")
        self._rows = {row.start + 1: row for row in table.rows}
        self._noisy = {self._metric(column) for column in self._header if is_noisy_column(column)}
        self._cells: dict[int, dict[int, str]] = {}
        self._new_names: dict[str, dict[str, str]] = {}

    def _column(self, case: Case, metric: str) -> int:
        return (
            self._header.index(case.variant.dtype)
            if self._wide
            else [self._metric(column) for column in self._header].index(metric)
        )

    def _metric(self, column: str) -> str:
        """Return the metric of a column."""
        if own := read_column(column):
            return own[0]
        is_by_timers = self._accuracy_file and column == "compilation_latency"
        return COMPILE_SECONDS if is_by_timers else current_name(column)

    def change(self, line: int, changes: Sequence[Change]) -> None:
        """Write new values into one row."""
        cells = self._cells.setdefault(line, {})
        for change in changes:
            cells[self._column(change.case, change.metric)] = _text(change.new)
            if (spread := spread_column(change.metric)) in self._header:
                found = change.evidence
                cells[self._header.index(spread)] = spread_text(found.spread if found else None)
        if TRIALS in self._header and any(change.metric in self._noisy for change in changes):
            cells[self._header.index(TRIALS)] = self._trials(line, changes)

    def _trials(self, line: int, changes: Sequence[Change]) -> str:
        """Return the trials of a row: the least behind a spread, old or new; without one, the least of all."""
        noisy = [change for change in changes if change.metric in self._noisy]
        known = [change.evidence for change in noisy if change.evidence]
        row = dict(zip(self._header, (cell.strip() for cell in self._rows[line].cells), strict=True))
        staying = {self._metric(c) for c in self._header if not is_evidence(c) and row[c]}
        staying -= {change.metric for change in noisy}
        old = [bool(row.get(spread_column(metric))) for metric in staying & self._noisy]
        if len(known) < len(noisy) and not any(old):
            return ""
        behind = [each.trials for each in known if each.spread is not None]
        behind += [int(row[TRIALS])] if any(old) and row[TRIALS] else []
        others = [each.trials for each in known] + ([int(row[TRIALS])] if old and row[TRIALS] else [])
        return str(min(behind or others, default=""))

    def remove(self, change: Change) -> None:
        """Remove a row; in a table by dtype, only the cell."""
        if self._wide:
            self._cells.setdefault(change.line, {})[self._column(change.case, ACCURACY)] = ""
        else:
            self._table.remove(self._rows[change.line])

    def add(self, outcome: Outcome) -> None:
        """Add a row; in a table by dtype, a cell, and a row if the name is new."""
        if self._wide:
            self._add_status(outcome)
        else:
            self._insert(outcome.case.benchmark, [self._cell(outcome, column) for column in self._header])

    def _add_status(self, outcome: Outcome) -> None:
        name, dtype = outcome.case.benchmark, outcome.case.variant.dtype
        if dtype not in self._header:
            raise UsageError(
                f"{name}: the baseline has no column for the dtype {dtype or '(none: use --set dtype=...)'}",
                advice="add the column by hand first",
            )
        lines = [
            line for line, row in self._rows.items() if line > 1 and row.cells[self._name].strip() == name
        ]
        if lines:
            self._cells.setdefault(lines[0], {})[self._header.index(dtype)] = outcome.status
        else:
            self._new_names.setdefault(name, {"name": name})[dtype] = outcome.status

    def _insert(self, name: str, cells: Sequence[str]) -> None:
        self._table.insert(cells, lambda row: row.cells[self._name].strip(), name, first_row=1)

    def finish(self) -> None:
        """Write the collected cells, row by row."""
        for name, by_column in self._new_names.items():
            self._insert(name, [by_column.get(column, "") for column in self._header])
        for line, cells in self._cells.items():
            self._table.set_cells(self._rows[line], cells)

    def _cell(self, outcome: Outcome, column: str) -> str:
        variant = outcome.case.variant
        stated = {
            "name": outcome.case.benchmark,
            "dev": variant.device,
            "batch_size": str(variant.batch_size or 0),
            "tag": dict(variant.further).get("tag", ""),
        }
        if column in stated:
            return stated[column]
        if is_evidence(column):
            return evidence_cell(outcome, column)
        value = outcome.value(self._metric(column))
        return "" if value is None else _text(value)


class _PrTimeEditor:
    """Edit ``name,metric,value[,margin]`` rows."""

    def __init__(self, table: TableText) -> None:
        self._table = table
        self._rows = {(row.cells[0].strip(), current_name(row.cells[1].strip())): row for row in table.rows}

    def change(self, _line: int, changes: Sequence[Change]) -> None:
        """Write new values into the rows of one benchmark; margins stay unless there are new ones."""
        for change in changes:
            cells = {} if change.new == change.old else {2: _text(change.new)}
            if change.margin is not None:
                cells[3] = _text(change.margin)
            self._table.set_cells(self._rows[change.case.benchmark, change.metric], cells)

    def remove(self, change: Change) -> None:
        """Remove all rows of a benchmark."""
        for (name, _), row in self._rows.items():
            if name == change.case.benchmark:
                self._table.remove(row)

    def add(self, outcome: Outcome) -> None:
        """Add one row per metric, with its own margin or the most common one."""
        margins = Counter(
            row.cells[3].strip()
            for row in self._table.rows
            if len(row.cells) > 3 and row.cells[3].strip() != "margin"
        )
        margin = [margins.most_common(1)[0][0]] if margins else []
        has_header = ("name", "metric") in self._rows
        for measurement in outcome.measurements:
            own = [] if measurement.margin is None or not margins else [_text(measurement.margin)]
            cells = [outcome.case.benchmark, measurement.metric, _text(measurement.value), *(own or margin)]
            self._table.insert(cells, _name_of, outcome.case.benchmark, first_row=int(has_header))

    def finish(self) -> None:
        """Do nothing, because each change is applied at once."""


class _TargetsEditor:
    """Edit rows of speedup targets, which have no header and end with the target."""

    def __init__(self, table: TableText) -> None:
        self._table = table

    def change(self, line: int, changes: Sequence[Change]) -> None:
        """Write a new target into a row."""
        row = self._table.row_at(line)
        self._table.set_cells(row, {len(row.cells) - 1: _text(change.new) for change in changes})

    def remove(self, change: Change) -> None:
        """Remove a row."""
        self._table.remove(self._table.row_at(change.line))

    def add(self, outcome: Outcome) -> None:
        """Add a row with as many cells as the others."""
        cells = speedup_targets.cells_of(outcome, len(self._table.rows[0].cells))
        target = _text(outcome.value("speedup"))
        self._table.insert([*cells, target], _name_of, outcome.case.benchmark, first_row=0)

    def finish(self) -> None:
        """Do nothing, because each change is applied at once."""


def _name_of(row: TextRow) -> str:
    return row.cells[0].strip()


def _text(value: str | Number | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else short_text(value)
