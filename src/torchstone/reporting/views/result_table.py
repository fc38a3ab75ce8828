"""Define a simple table of results, shown as text and in notebooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from torchstone.core.records import Outcome, Run, unit_of
from torchstone.core.text.intervals import format_with_interval
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import COMPILE_SECONDS
from torchstone.reporting.views.names import Names

MOST_ROWS = 100
MOST_METRICS = 3
_FIRST = ("device_speedup", "speedup", "device_latency", "abs_latency", COMPILE_SECONDS)


class ResultTable(Struct, frozen=True):
    """A title, a header, rows, and notes."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    notes: tuple[str, ...] = ()


def show_most(rows: Sequence[Sequence[str]]) -> tuple[Sequence[Sequence[str]], tuple[str, ...]]:
    """Return the first rows, and a note on how many more there are."""
    left = len(rows) - MOST_ROWS
    return rows[:MOST_ROWS], (f"... and {count_of(left, 'row')} more",) if left > 0 else ()


def tabulate_run(run: Run, path: str) -> ResultTable:
    """Tabulate the outcomes of a run: status, case, and its main numbers or the failure."""
    names = Names(run.plan)
    rows = [
        (outcome.status, names.of(outcome.case), outcome.case.probe, _result(outcome))
        for outcome in run.outcomes
    ]
    shown, notes = show_most(rows)
    counts = ", ".join(f"{count:,} {status}" for status, count in Counter(row[0] for row in rows).items())
    left = len(run.plan) - len(run.outcomes)
    if left > 0:
        notes += (f"{count_of(left, 'planned case')} without a result",)
    title = f"{path}: {count_of(len(rows), 'case')}" + (
        f" ({counts})" if counts.strip("0123456789, ") else ""
    )
    return ResultTable(title, ("status", "case", "probe", "result"), shown, notes)


def _result(outcome: Outcome) -> str:
    if outcome.failure and not outcome.measurements:
        return " ".join(outcome.failure.message.split())[:200]
    found = {each.metric: each for each in outcome.measurements}
    order = [*(metric for metric in _FIRST if metric in found), *(m for m in found if m not in _FIRST)]
    parts = []
    for metric in order[:MOST_METRICS]:
        details = found[metric].details
        interval = details.interval if details else None
        shown = format_with_interval(found[metric].value, interval, unit_of(metric, found[metric]))
        parts.append(f"{metric} {shown}")
    return ", ".join(parts)
