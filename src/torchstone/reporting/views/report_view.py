"""Define the common view of check, compare and ab that every format renders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from torchstone.analyze.evidence import EXACT, PAIRED, Comparison
from torchstone.core.records import Case, FilePlace
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Judgement, Row


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
