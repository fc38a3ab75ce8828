"""Define the common view of check, compare and ab that every format renders.

Here, headlines, changes and intervals are put into words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from torchstone.analyze.evidence import EXACT, MOST_MORE, PAIRED, Comparison
from torchstone.core.records import Case, FilePlace, unit_of
from torchstone.core.text.units import count_of, format_change, format_limit, format_value
from torchstone.core.vocabulary import ACCURACY, Probe, Verdict
from torchstone.gate.disturbance import is_disturbed
from torchstone.gate.judgement import Judgement, Row, State

_LARGE, _HUGE = 20.0, 100_000.0  # ratios too large to read as a change in percent


class RowText(Struct, frozen=True):
    """The text of a row.

    ``facts`` are labelled lines; ``instead`` says what to do about a red row that cannot be accepted.
    """

    finding: str
    facts: tuple[tuple[str, str], ...]
    repro: str
    accept: str = ""
    instead: str = ""

    def fact(self, label: str) -> str:
        """Return the fact with this label; empty if the row has none."""
        return next((text for name, text in self.facts if name == label), "")

    @property
    def next_steps(self) -> tuple[tuple[str, str], ...]:
        """Return what can be done about the row, labelled, commands first."""
        steps = ("reproduce", self.repro), ("accept", self.accept), ("next step", self.instead)
        return tuple(step for step in steps if step[1])


class ReportView(Protocol):
    """A judgement with methods that describe it."""

    @property
    def command(self) -> str:
        """Return the name of the command that judged."""

    @property
    def judgement(self) -> Judgement:
        """Return the judgement to report."""

    @property
    def headline(self) -> str:
        """Return the result in one line."""

    @property
    def is_pass(self) -> bool:
        """Return whether nothing blocks, and something could be decided."""

    @property
    def summary(self) -> dict[str, int]:
        """Return the counts, in display order."""

    @property
    def environment(self) -> str:
        """Return how the environments differ, in one sentence; empty if they do not, or if a caution says so."""

    @property
    def red(self) -> list[Row]:
        """Return the rows that block, in display order."""

    @property
    def ordered(self) -> list[Row]:
        """Return all rows, in display order."""

    def of_verdict(self, verdict: Verdict) -> list[Row]:
        """Return the rows with this verdict that do not block."""

    def sort(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Sort rows of one verdict for display."""

    def name_of(self, case: Case) -> str:
        """Return the shortest unambiguous name of a case."""

    def finding_of(self, row: Row) -> str:
        """Return the finding in one line."""

    def row_text(self, row: Row) -> RowText:
        """Return the full text of a row."""

    def place_of(self, row: Row) -> FilePlace:
        """Return the line to annotate, as ``file:line``."""


def quarantine_reason(row: Row) -> str:
    """Return why a row is quarantined; empty if it is not."""
    entry = row.remarks.quarantine if row.verdict is Verdict.QUARANTINED else None
    return entry.reason if entry else ""


def describe_method(found: Comparison) -> str:
    """Return the method and its data: ``Welch's t on the logarithms of 5 and 5 trials (100 and 100 samples)``."""
    trials = len(found.base.values), len(found.new.values)
    samples = f"{found.base.samples:,} and {found.new.samples:,} samples"
    if found.method == EXACT:
        return f"exact, from {trials[0]:,} and {count_of(trials[1], 'trial')}"
    if found.method == PAIRED:
        return f"{count_of(trials[0], 'pair')} of trials that took turns ({samples})"
    data = f"{trials[0]:,} and {count_of(trials[1], 'trial')} ({samples})"
    return f"{found.method} on the logarithms of {data}" if found.method else f"none; {data}"


def percent(share: float) -> str:
    """Format a share as a percentage: ``2%``."""
    return f"{format_limit(100 * share)}%"


def change_of(ratio: float) -> str:
    """Format a ratio as a relative change: ``+3.2%``."""
    if math.isinf(ratio):
        return "from 0"
    if ratio >= _LARGE:
        return f"{ratio:,.0f}x" if ratio < _HUGE else f"{ratio:.0e}x"
    return format_change(ratio, 1.0)


def interval_of(low: float, high: float) -> str:
    """Format an interval of ratios as changes: ``-0.5% to +1.1%``; empty if it is unbounded."""
    if math.isinf(high) or not high:
        return ""
    return f"{change_of(low)} to {change_of(high)}"


def metric_name(row: Row) -> str:
    """Return the name of a row's metric; that of the status of a case without the accuracy probe is ``status``."""
    return "status" if row.metric == ACCURACY and row.case.probe != Probe.ACCURACY else row.metric


def value_text(value: str | float | None, row: Row) -> str:
    """Format a value of a row's metric with its unit; a status as it is."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return format_value(value, unit_of(row.metric, row.new, row.base))


def change_text(found: Comparison, confidence: str) -> str:
    """Return the change with its interval: ``+21.8%; 99% interval +15.1% to +28.9%``."""
    if math.isnan(found.ratio):
        return ""
    change = "" if math.isinf(found.ratio) else change_of(found.ratio)
    between = "" if found.method == EXACT and found.low == found.high else interval_of(found.low, found.high)
    interval = f"{confidence} interval {between}" if found.method != EXACT else f"from {between}"
    return "; ".join(part for part in (change, interval if between else "") if part)


def describe_more(more: int | None, sides: str = " per side") -> str:
    """Return how many more trials would settle an inconclusive row; empty if unknown."""
    if more is None:
        return ""
    if more > MOST_MORE:
        if not sides:
            return "more trials of this side alone would not settle it"
        return f"it would take more than {MOST_MORE} more trials{sides} to settle it"
    return f"about {count_of(more, 'more trial')}{sides} would settle it"


def undecided_text(judgement: Judgement, rows: int) -> str:
    """Return how many rows are undecided and why: ``8 of 26 rows (5 need more trials, 2 were disturbed, 1 cannot be judged)``."""
    undecided = judgement.undecided
    thin = sum(row.ruling.levels is not None for row in undecided)
    disturbed = sum(map(is_disturbed, undecided))
    rest = len(undecided) - thin - disturbed
    reasons = [f"{thin:,} {'needs' if thin == 1 else 'need'} more trials"] if thin else []
    reasons += [f"{disturbed:,} {'was' if disturbed == 1 else 'were'} disturbed"] if disturbed else []
    reasons += [f"{rest:,} cannot be judged"] if rest else []
    return f"{len(undecided):,} of {count_of(rows, 'row')} ({', '.join(reasons)})"


def exit_text(judgement: Judgement) -> str:
    """Return the policy, and why a judgement that is no pass has its exit code."""
    policy = judgement.policy.title
    if judgement.state is State.PASS:
        return policy
    if judgement.state is State.UNDECIDED:
        decides = "blocks undecided rows" if judgement.exit_code else "lets undecided rows pass"
    else:
        is_red = any(row.blocks for row in judgement.rows)
        decides = "blocks red rows" if is_red else "blocks expired quarantine entries"
    return f"{policy} {decides}: exit code {judgement.exit_code}"


def expired_text(judgement: Judgement) -> str:
    """Return how many quarantine entries have expired and would still be needed; empty if none has."""
    if not judgement.expired:
        return ""
    entries = "entry" if len(judgement.expired) == 1 else "entries"
    return f"{len(judgement.expired):,} quarantine {entries} expired"


def without_evidence_text(judgement: Judgement) -> str:
    """Return how many rows were judged without evidence of their noise; empty if none was."""
    if not judgement.points:
        return ""
    return (
        f"{count_of(judgement.points, 'row')} judged without evidence of noise: only single numbers are known"
    )
