"""Records of a judgement, the same for every command: a ruling for each row, the counts, and the conditions of judging."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct, field

from torchstone.analyze.evidence import VALUE, Comparison
from torchstone.core.cautions import Caution
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.records import NOWHERE, Case, FilePlace, Outcome, Rule
from torchstone.core.vocabulary import ACCURACY, PASSED, Verdict
from torchstone.gate.policy import Policy
from torchstone.gate.rules import RuleBook

if TYPE_CHECKING:
    from torchstone.analyze.scaling_curves import RoundChange
    from torchstone.analyze.two_samples import Mean
    from torchstone.gate.criteria import Criteria

QUIET = frozenset({Verdict.PASS, Verdict.SAME, Verdict.EXPECTED_FAILURE})


class Ruling(Struct, frozen=True, gc=False):
    """The decision on one row: the verdict, whether it blocks, and why.

    ``is_significant`` is about certainty alone, ``relevance`` about the margin alone. ``levels`` are the two at which more trials would
    decide a row that was left open: as ``same``, and as changed.
    """

    verdict: Verdict
    blocks: bool = False
    detail: str = ""
    is_significant: bool = False
    relevance: str = ""
    levels: tuple[float, float] | None = None


class Remarks(Struct, frozen=True, gc=False):
    """Where a row comes from, its quarantine entry, and the command that measures it again; only rows that are shown have them.

    ``repro`` has ``{name}`` in place of the name of the case.
    """

    new_place: FilePlace = NOWHERE
    base_place: FilePlace = NOWHERE
    quarantine: QuarantineEntry | None = None
    repro: str = ""


_NO_REMARKS = Remarks()


class Row(Struct, frozen=True, gc=False):
    """One metric of one case, judged: the ruling, and everything that led to it.

    ``base`` is what the new outcome is held against: an expected row, a run, or side A. ``rule`` is the gate's rule, ``criteria`` those of a
    comparison of intervals.
    """

    ruling: Ruling
    case: Case
    metric: str
    new: Outcome | None = None
    base: Outcome | None = None
    rule: Rule | None = None
    remarks: Remarks = _NO_REMARKS
    comparison: Comparison | None = None
    criteria: Criteria | None = None

    @property
    def verdict(self) -> Verdict:
        """The verdict."""
        return self.ruling.verdict

    @property
    def blocks(self) -> bool:
        """Whether the row makes the exit code 1."""
        return self.ruling.blocks

    @property
    def detail(self) -> str:
        """Why the verdict is what it is, where the numbers do not say it."""
        return self.ruling.detail

    @property
    def new_value(self) -> str | float | None:
        """What was measured, or the status of a case that failed before anything was."""
        found = self.comparison
        if found is not None and found.method != VALUE:
            return found.new.middle
        return _value(self.new, self.metric)

    @property
    def base_value(self) -> str | float | None:
        """What the base had: a number, or the status of a case that has none."""
        found = self.comparison
        if found is not None and found.method != VALUE:
            return found.base.middle
        return _value(self.base, self.metric)

    @property
    def expected_value(self) -> str | int | float | None:
        """What the base states for this metric, and nothing else."""
        value = self.base.value(self.metric) if self.base else None
        return None if value == "" else value

    @property
    def margin(self) -> float | None:
        """The margin that the baseline states for this row."""
        found = (m for m in self.base.measurements if m.metric == self.metric) if self.base else ()
        return next((m.margin for m in found), None)

    @property
    def ratio(self) -> float | None:
        """New over base, where there is such a number."""
        ratio = self.comparison.ratio if self.comparison else math.nan
        return ratio if math.isfinite(ratio) else None

    @property
    def adjusted(self) -> float | None:
        """The p-value, adjusted for all rows that were judged together."""
        return self.criteria.family.adjusted if self.criteria and self.criteria.family else None

    @property
    def more(self) -> int | None:
        """About how many more trials per side would settle an open row. Computed on demand: it takes a search, and few rows are shown."""
        levels = self.ruling.levels
        if self.comparison is None or self.criteria is None or levels is None:
            return None
        from torchstone.analyze.two_samples import more_trials  # noqa: PLC0415  (a plain check does without the statistics)

        return more_trials(
            self.comparison, margin=self.criteria.margin, alpha=levels[0], certain_at=levels[1]
        )


def _value(outcome: Outcome | None, metric: str) -> str | int | float | None:
    if outcome is None:
        return None
    value = outcome.value(metric)
    if value is None:
        return outcome.status if outcome.status not in {PASSED, ""} else None
    return value


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


class MetricMean(Struct, frozen=True):
    """The geometric mean of one metric over the cases that passed on both sides."""

    metric: str
    better: str
    mean: Mean


class PassRate(Struct, frozen=True):
    """How many of the cases of both sides pass, on each side; and which changed, with the status they have now or had before."""

    cases: int = 0
    base: int = 0
    new: int = 0
    lost: tuple[tuple[Case, str], ...] = ()
    gained: tuple[tuple[Case, str], ...] = ()


class Overview(Struct, frozen=True):
    """What a comparison of two runs found besides its rows.

    ``environment`` lists how the two sides differ, ``is_held_back`` whether numbers were not compared because of it.
    """

    alpha: float
    matched: int = 0
    means: tuple[MetricMean, ...] = ()
    pass_rate: PassRate = PassRate()
    environment: tuple[str, ...] = ()
    is_held_back: bool = False


class RoundTable(Struct, frozen=True):
    """The rounds of two DDP reports compared, and the keys of their heads."""

    header_keys: list[str]
    rows: list[RoundChange]


class Judgement(Struct, frozen=True):
    """Everything that judging found. Only a comparison of two runs has an ``overview``, only one of DDP reports ``rounds``."""

    policy: Policy
    rows: list[Row]
    cautions: list[Caution]
    counts: Counts = field(default_factory=Counts)
    expired: tuple[QuarantineEntry, ...] = ()
    releases: tuple[Release, ...] = ()
    ignored: tuple[Row, ...] = ()
    overview: Overview | None = None
    rounds: RoundTable | None = None

    @property
    def exit_code(self) -> int:
        """0 where nothing blocks, 1 otherwise."""
        return int(bool(self.expired) or any(row.ruling.blocks for row in self.rows))

    @property
    def red(self) -> list[Row]:
        """The rows that block, worst first."""
        return sorted((row for row in self.rows if row.blocks), key=severity)

    @property
    def by_verdict(self) -> dict[Verdict, int]:
        """How many rows have each verdict, from worst to best."""
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in Verdict if found[verdict]}

    @property
    def status_changes(self) -> list[Row]:
        """The rows of cases that ended otherwise than before."""
        both = [row for row in self.rows if row.metric == ACCURACY and row.base and row.new]
        return [row for row in both if row.base_value != row.new_value]


def severity(row: Row) -> tuple[int, float, str]:
    """The key that sorts rows from worst to best: by verdict, a status before a number, the largest change first."""
    actual, expected = row.new_value, row.expected_value
    change = float("inf")
    if isinstance(actual, int | float) and isinstance(expected, int | float):
        change = abs(actual - expected) / (abs(expected) or 1)
    return list(Verdict).index(row.verdict), -change, row.case.benchmark


class Conditions(Struct, frozen=True):
    """What results are judged by besides the baseline. ``cautions`` are about the conditions themselves."""

    policy: Policy
    rules: RuleBook
    quarantine: tuple[QuarantineEntry, ...] = ()
    platforms: frozenset[str] = frozenset()
    metrics: tuple[str, ...] = ()
    today: date = date.max
    compare_anyway: bool = False
    cross_environment: bool = False
    keep_quiet: bool = True  # whether rows that pass are kept, or only counted: a million of them need memory
    cautions: tuple[Caution, ...] = ()
