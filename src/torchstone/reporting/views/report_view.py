"""The view of a judgement that every format renders: what check, compare and ab have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from torchstone.core.records import Case, FilePlace
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Judgement, Row


class Words(Struct, frozen=True):
    """A row in words. ``facts`` are further lines about it, each with its label; ``instead`` is what to do about a red row that cannot be accepted."""

    finding: str
    facts: tuple[tuple[str, str], ...]
    repro: str
    accept: str = ""
    instead: str = ""

    def fact(self, label: str) -> str:
        """One of the facts; empty where the row has no such fact."""
        return next((text for name, text in self.facts if name == label), "")

    @property
    def next_steps(self) -> tuple[tuple[str, str], ...]:
        """What can be done about the row, each with its label; commands first."""
        steps = ("reproduce", self.repro), ("accept", self.accept), ("next step", self.instead)
        return tuple(step for step in steps if step[1])


class ReportView(Protocol):
    """A judgement, and how to put it into words. ``command`` is the command that judged."""

    @property
    def command(self) -> str:
        """The command that judged."""

    @property
    def judgement(self) -> Judgement:
        """What is reported."""

    @property
    def headline(self) -> str:
        """The outcome in one line."""

    @property
    def summary(self) -> dict[str, int]:
        """The counts, in the order in which they are shown."""

    @property
    def environment(self) -> str:
        """How the environments of the two sides differ, in one sentence; empty where that is told in a caution, or they do not."""

    @property
    def red(self) -> list[Row]:
        """The rows that block, in the order in which they are shown."""

    @property
    def ordered(self) -> list[Row]:
        """All rows, in the order in which they are listed."""

    def of_verdict(self, verdict: Verdict) -> list[Row]:
        """The rows with this verdict that do not block."""

    def sort(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Rows of one verdict in the order in which a person reads them."""

    def name_of(self, case: Case) -> str:
        """The name of a case, with as many axes as it takes to tell it from others."""

    def finding_of(self, row: Row) -> str:
        """What was found, in one line."""

    def words_of(self, row: Row) -> Words:
        """All that a row says to a person."""

    def place_of(self, row: Row) -> FilePlace:
        """The line that an annotation belongs to, as ``file:line``."""


def quarantine_reason(row: Row) -> str:
    """Why a quarantined row may not block."""
    entry = row.remarks.quarantine if row.verdict is Verdict.QUARANTINED else None
    return entry.reason if entry else ""
