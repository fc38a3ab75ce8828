"""The records of a judgement: a verdict a row, the counts, and what the rows were judged by."""

from __future__ import annotations

from datetime import date

from msgspec import Struct

from torchstone.core.cautions import Caution
from torchstone.core.records import NOWHERE, Case, FilePlace, Outcome, QuarantineEntry, Rule
from torchstone.core.vocabulary import PASSED, Verdict
from torchstone.gate.policy import Policy
from torchstone.gate.rules import RuleBook

QUIET = frozenset({Verdict.PASS, Verdict.EXPECTED_FAILURE})


class Remarks(Struct, frozen=True, gc=False):
    """What only a row that somebody will look at has: why, where, under which quarantine entry, how to measure it again.

    ``repro`` has ``{name}`` where the case's name goes.
    """

    detail: str = ""
    place: FilePlace = NOWHERE
    expected_place: FilePlace = NOWHERE
    quarantine: QuarantineEntry | None = None
    repro: str = ""


_NO_REMARKS = Remarks()


class Row(Struct, frozen=True, gc=False):
    """The verdict on one metric of one case, and all that led to it."""

    verdict: Verdict
    case: Case
    metric: str
    actual: Outcome | None
    expected: Outcome | None
    rule: Rule | None
    blocks: bool = False
    remarks: Remarks = _NO_REMARKS

    @property
    def actual_value(self) -> str | int | float | None:
        """What was measured, or the status of a case that failed before anything could be."""
        if self.actual is None:
            return None
        value = self.actual.value(self.metric)
        return self.actual.status if value is None and self.actual.status != PASSED else value

    @property
    def expected_value(self) -> str | int | float | None:
        """What was expected."""
        value = self.expected.value(self.metric) if self.expected else None
        return None if value == "" else value

    @property
    def margin(self) -> float | None:
        """The margin that the baseline states for this row."""
        found = (m for m in self.expected.measurements if m.metric == self.metric) if self.expected else ()
        return next((m.margin for m in found), None)


class Counts(Struct):
    """How many cases there were of each sort; ``cases`` counts them all, ``rows`` the rows they have."""

    planned: int = 0
    judged: int = 0
    red: int = 0
    improved: int = 0
    quarantined: int = 0
    missing: int = 0
    new: int = 0
    cases: int = 0
    rows: int = 0

    def add(self, rows: int, *, planned: bool, judged: bool) -> None:
        """Count one more case."""
        self.cases += 1
        self.rows += rows
        self.planned += planned
        self.judged += judged


class Release(Struct, frozen=True):
    """A quarantined case that passed, and how often it did in the files given."""

    entry: QuarantineEntry
    case: Case
    passed: int
    seen: int


class Judgement(Struct, frozen=True):
    """Everything the gate found out."""

    policy: Policy
    rows: list[Row]
    counts: Counts
    expired: list[QuarantineEntry]
    releases: list[Release]
    cautions: list[Caution]
    ignored: list[Row]

    @property
    def exit_code(self) -> int:
        """0 where nothing blocks, 1 otherwise."""
        return 1 if self.counts.red or self.expired else 0

    @property
    def red(self) -> list[Row]:
        """The rows that block, worst first."""
        return sorted((row for row in self.rows if row.blocks), key=severity)


def severity(row: Row) -> tuple[int, float, str]:
    """The key that sorts rows from worst to best: by verdict, a status before a number, the largest change first."""
    actual, expected = row.actual_value, row.expected_value
    change = float("inf")
    if isinstance(actual, int | float) and isinstance(expected, int | float):
        change = abs(actual - expected) / (abs(expected) or 1)
    return list(Verdict).index(row.verdict), -change, row.case.benchmark


class Conditions(Struct, frozen=True):
    """What rows are judged by besides the baseline."""

    policy: Policy
    rules: RuleBook
    quarantine: tuple[QuarantineEntry, ...] = ()
    platforms: frozenset[str] = frozenset()
    metrics: tuple[str, ...] = ()
    today: date = date.max
    compare_anyway: bool = False
    cross_environment: bool = False
    keep_quiet: bool = (
        True  # whether rows that pass are kept, or only counted: a million of them take their room
    )
    cautions: tuple[Caution, ...] = ()
    """What is to be said about the conditions themselves."""
