"""Apply changes to a baseline's text: change cells, add and remove rows, and leave the rest as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, structs

from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, Measurement, Number, Outcome, Reading, Variant, run_of
from torchstone.core.text.units import exact_text
from torchstone.core.vocabulary import ACCURACY, COMPILE_SECONDS, current_name
from torchstone.formats import FORMATS
from torchstone.formats.edit import TableText, TextRow
from torchstone.formats.torch import speedup_targets
from torchstone.formats.torch.expected_csv import write_expected
from torchstone.gate.baseline import Baseline

_TABLES = frozenset(
    {
        "expected",
        "expected-by-dtype",
        "performance",
        "accuracy",
        "pr-time",
        "pr-time-expected",
        speedup_targets.KIND,
    }
)

_MOST_NAMED = 3
"""The most metrics that a note names."""
NO_EDIT = frozenset({"hold", "keep"})
"""The actions that leave a baseline unchanged."""


class Change(Struct, frozen=True):
    """One change: ``action`` is change, add, remove, keep (measured again, unchanged) or hold (not adopted).

    ``margin`` is the row's new margin, ``old_margin`` its current one; ``spread`` is the spread of the repeats.
    """

    action: str
    case: Case
    metric: str
    old: str | Number | None
    new: str | Number | None
    note: str = ""
    line: int = 0
    margin: float | None = None
    old_margin: float | None = None
    spread: float | None = None
    ways: dict[str, str | int | float | None] | None = None
    """How the new number was measured, if differently from the old one."""


def case_in_row(case: Case, kind: str) -> Case:
    """Return the case as a row of this format states it."""
    if kind in {"expected", "pr-time", "pr-time-expected"}:
        return Case(case.benchmark, case.probe)
    if kind == "expected-by-dtype":
        return Case(case.benchmark, case.probe, variant=Variant(dtype=case.variant.dtype))
    if kind == speedup_targets.KIND:
        return speedup_targets.as_in_row(case)
    if kind == "ddp":
        from torchstone.formats.torch.ddp import as_in_report  # noqa: PLC0415  (few baselines are such reports)

        return as_in_report(case) or case
    return case


def why_unsupported(case: Case, kind: str) -> str:
    """Return why this format cannot hold a row for the case; empty if it can."""
    if kind != "ddp" or case_in_row(case, kind) != case or not case.variant.device:
        return ""
    strategy = dict(case.variant.further).get("strategy", "")
    return f"a DDP report cannot hold rounds with {strategy or 'no strategy'}"


def apply_changes(
    baseline: Reading,
    text: str,
    changes: Sequence[Change],
    new: dict[Case, Outcome],
    *,
    all_numbers: bool = False,
) -> str:
    """Return the baseline's text with the changes applied.

    ``new`` are the outcomes to add rows for; with ``all_numbers``, with their numbers even where a status
    would do.
    """
    if all(change.action in NO_EDIT for change in changes):
        return text
    if not text and baseline.kind == "expected":
        return write_expected(run_of(baseline.path, tuple(new.values())), all_numbers=all_numbers)
    if not text:
        return FORMATS[baseline.kind].write(run_of(baseline.path, tuple(new.values())))
    if baseline.kind in _TABLES:
        return _edit_table(baseline, text, changes, new)
    rewritten = _rewrite(baseline, changes, new)
    if baseline.kind == "v3" and text.lstrip().startswith("["):
        return "[\n" + ",\n".join(rewritten.splitlines()) + "\n]\n"
    return rewritten


def describe_added(changes: Sequence[Change], baseline: Reading, text: str) -> list[Change]:
    """Complete the changes that add rows with the number the new text has, and name what else is added."""
    if not any(change.action == "add" for change in changes):
        return list(changes)
    index = Baseline([FORMATS[baseline.kind].read(baseline.path, text)])
    matches = [index.find(change.case) if change.action == "add" else None for change in changes]
    before = {outcome.case: outcome for outcome in baseline.run.outcomes}
    return [
        _as_added(change, match.row.outcome, before.get(match.row.outcome.case)) if match else change
        for change, match in zip(changes, matches, strict=True)
    ]


def _as_added(change: Change, row: Outcome, before: Outcome | None) -> Change:
    """Complete a change that adds numbers; ``before`` is the case's existing row, if each metric has its own."""
    present = {each.metric for each in before.measurements} if before else set()
    added = [each for each in row.measurements if each.metric not in present]
    if change.metric == ACCURACY or not added:
        return change
    named = next((each for each in added if each.metric == change.metric), added[0])
    others = [printable(each.metric) for each in added if each is not named]
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    notes = [change.note] if change.note else []
    notes += [f"also adds {', '.join(others[:_MOST_NAMED])}{more}"] if others else []
    return structs.replace(change, metric=named.metric, new=named.value, note="; ".join(notes))


def _rewrite(baseline: Reading, changes: Sequence[Change], new: dict[Case, Outcome]) -> str:
    """Rewrite a baseline that is not a table, with only the changed values changed."""
    of_case: dict[Case, list[Change]] = {}
    for change in changes:
        of_case.setdefault(change.case, []).append(change)
    outcomes = list(new.values())
    for outcome in reversed(baseline.run.outcomes):
        own = of_case.get(outcome.case, [])
        if not any(change.action == "remove" for change in own):
            outcomes.insert(0, _changed(outcome, [change for change in own if change.action == "change"]))
    plan = tuple(outcome.case for outcome in outcomes)
    text = FORMATS[baseline.kind].write(structs.replace(baseline.run, plan=plan, outcomes=tuple(outcomes)))
    if set(FORMATS[baseline.kind].read(baseline.path, text).run.plan) != set(plan):
        raise UsageError(
            f"{baseline.path}: a file of the kind {baseline.kind} cannot hold the rows that would be left",
            advice="accept all rows of a model together, without --only",
        )
    return text


def _changed(outcome: Outcome, changes: Sequence[Change]) -> Outcome:
    """Return an expected outcome with new values."""
    of_metric = {change.metric: change for change in changes}
    accuracy = of_metric.pop(ACCURACY, None)
    measurements = tuple(
        _remeasured(m, of_metric[m.metric]) if m.metric in of_metric else m for m in outcome.measurements
    )
    status = accuracy.new if accuracy else outcome.status
    return structs.replace(outcome, status=status, measurements=measurements)


def _remeasured(measurement: Measurement, change: Change) -> Measurement:
    """Return an expected measurement with a new value, a new margin, or both."""
    samples = measurement.samples if change.new == change.old else (change.new,)
    details = measurement.details or NO_DETAILS
    if change.ways:
        details = structs.replace(details, **change.ways)
    if change.margin is not None:
        details = structs.replace(details, margin=change.margin)
    known = None if details == NO_DETAILS else details
    return structs.replace(measurement, samples=samples, details=known)


def _edit_table(baseline: Reading, text: str, changes: Sequence[Change], new: dict[Case, Outcome]) -> str:
    table = TableText(baseline.path, text)
    editor = _make_editor(table, baseline.kind)
    by_line: dict[int, list[Change]] = {}
    for change in changes:
        if change.action == "change":
            by_line.setdefault(change.line, []).append(change)
        elif change.action == "remove":
            editor.remove(change)
    for line, of_row in by_line.items():
        editor.change(line, of_row)
    for case in sorted(new, key=lambda case: case.benchmark):
        editor.add(new[case])
    editor.finish()
    return table.apply()


def _make_editor(table: TableText, kind: str) -> _ColumnEditor | _PrTimeEditor | _TargetsEditor:
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
        is_by_timers = self._accuracy_file and column == "compilation_latency"
        return COMPILE_SECONDS if is_by_timers else current_name(column)

    def change(self, line: int, changes: Sequence[Change]) -> None:
        """Write new values into one row."""
        cells = self._cells.setdefault(line, {})
        cells.update({self._column(change.case, change.metric): _text(change.new) for change in changes})

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
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    text = exact_text(value)
    return text if "e" in text else text.rstrip("0").rstrip(".")
