"""Apply changes to a baseline's text: change cells, add and remove rows, and leave the rest as it is."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from torchstone.baselines.proposed_changes import NO_EDIT, Change, details_of_value
from torchstone.baselines.table_editors import make_editor
from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, Measurement, Outcome, Reading, Variant, run_of
from torchstone.core.vocabulary import ACCURACY
from torchstone.formats import FORMATS
from torchstone.formats.edit import TableText
from torchstone.formats.torch import speedup_targets
from torchstone.formats.torch.ddp import as_in_report
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


def case_in_row(case: Case, kind: str) -> Case:
    """Return the case as a row of this format states it."""
    if kind in {"expected", "pr-time", "pr-time-expected"}:
        return Case(case.benchmark, case.probe)
    if kind == "expected-by-dtype":
        return Case(case.benchmark, case.probe, variant=Variant(dtype=case.variant.dtype))
    if kind == speedup_targets.KIND:
        return speedup_targets.as_in_row(case)
    if kind == "ddp":
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
        return write_expected(
            run_of(baseline.path, tuple(new.values())), all_numbers=all_numbers, padded=False
        )
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
    samples, details = measurement.samples, measurement.details or NO_DETAILS
    if change.new != change.old and not isinstance(change.new, str | None):
        samples = (change.new,)
        details = details_of_value(details, change.evidence)
    if change.ways:
        details = structs.replace(details, **change.ways)
    if change.margin is not None:
        details = structs.replace(details, margin=change.margin)
    known = None if details == NO_DETAILS else details
    return structs.replace(measurement, samples=samples, details=known)


def _edit_table(baseline: Reading, text: str, changes: Sequence[Change], new: dict[Case, Outcome]) -> str:
    table = TableText(baseline.path, text)
    editor = make_editor(table, baseline.kind)
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
