"""Records of a judgement, the same for every command: a ruling for each row, the counts, and the conditions of judging."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from torchstone.analyze.evidence import PAIRED, WELCH, Comparison
from torchstone.core.cautions import Caution
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.records import NOWHERE, Case, FilePlace, Outcome, Rule
from torchstone.core.vocabulary import ACCURACY, PASSED, Verdict
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.rules import RuleBook

if TYPE_CHECKING:
    from torchstone.analyze.ratio_interval import Mean
    from torchstone.analyze.scaling_curves import RoundChange
    from torchstone.gate.criteria import Criteria

_WITH_TRIALS = frozenset({WELCH, PAIRED})
QUIET = frozenset({Verdict.PASS, Verdict.SAME, Verdict.EXPECTED_FAILURE})


class Ruling(Struct, frozen=True, gc=False):
    """The decision on one row: the verdict, whether it blocks, and why.

    ``is_significant`` is about the p-value alone, ``relevance`` about the margin alone. ``levels`` are the significance levels at which more
    trials would settle an inconclusive row: as ``same``, and as changed.
    """

    verdict: Verdict
    blocks: bool = False
    detail: str = ""
    is_significant: bool = False
    relevance: str = ""
    levels: tuple[float, float] | None = None


DRAFT = Ruling(Verdict.INCONCLUSIVE)
"""The ruling of a row that is weighed, but not judged yet: rows with p-values are judged together."""


class Remarks(Struct, frozen=True, gc=False):
    """The places of a row in its files, its quarantine entry, and its repro command; only rows that are shown have them.

    ``repro`` has ``{name}`` in place of the name of the case. ``measure`` is the command that measures a case without a result.
    """

    new_place: FilePlace = NOWHERE
    base_place: FilePlace = NOWHERE
    quarantine: QuarantineEntry | None = None
    repro: str = ""
    measure: str = ""


_NO_REMARKS = Remarks()


class Row(Struct, frozen=True, gc=False):
    """One metric of one case, judged: the ruling, and all it is based on.

    ``base`` is the outcome that the new one is compared with: an expected row, one of another run, or of side A. ``rule`` judges values,
    ``criteria`` judge intervals.
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
        """Return whether the row makes the exit code 1."""
        return self.ruling.blocks

    @property
    def is_draft(self) -> bool:
        """Whether the row is weighed, but not judged yet."""
        return self.ruling is DRAFT

    @property
    def decided_by(self) -> str:
        """The metric that decides in place of this row's, a wall time that measures the host; empty if it decides itself."""
        host_bound = self.criteria.host_bound if self.criteria else None
        return host_bound.decided_by if host_bound and self.verdict is Verdict.INCONCLUSIVE else ""

    @property
    def is_undecided(self) -> bool:
        """Return whether the row could not be decided, and no other row decides in its place."""
        return self.verdict is Verdict.INCONCLUSIVE and not self.decided_by

    @property
    def is_quiet(self) -> bool:
        """Return whether there is nothing to show: it passed, and does not block."""
        ruling = self.ruling
        return not ruling.blocks and ruling.verdict in QUIET

    @property
    def is_comparable(self) -> bool:
        """Return whether both sides were weighed, and measured in the same way."""
        return self.comparison is not None and self.comparison.comparable

    @property
    def detail(self) -> str:
        """The reason for the verdict, where the numbers do not show it."""
        return self.ruling.detail

    @property
    def new_value(self) -> str | float | None:
        """The measured value, or the status of a case that failed before it was measured."""
        found = self.comparison
        if found is not None and found.method in _WITH_TRIALS:
            return found.new.middle
        return _value(self.new, self.metric)

    @property
    def base_value(self) -> str | float | None:
        """The value of the base, or the status of a case without one."""
        found = self.comparison
        if found is not None and found.method in _WITH_TRIALS:
            return found.base.middle
        return _value(self.base, self.metric)

    @property
    def expected_value(self) -> str | int | float | None:
        """The value of the base for this metric, never a status instead of it."""
        found = self.comparison
        if found is not None and found.method in _WITH_TRIALS:
            return found.base.middle
        value = self.base.value(self.metric) if self.base else None
        return None if value == "" else value

    @property
    def margin(self) -> float | None:
        """The margin that the baseline row states."""
        for measurement in self.base.measurements if self.base else ():
            if measurement.metric == self.metric:
                return measurement.margin
        return None

    @property
    def ratio(self) -> float | None:
        """New / base, if it is a finite number."""
        ratio = self.comparison.ratio if self.comparison else math.nan
        return ratio if math.isfinite(ratio) else None

    @property
    def adjusted(self) -> float | None:
        """The p-value, adjusted for all rows judged together."""
        return self.criteria.family.adjusted if self.criteria and self.criteria.family else None

    @property
    def more(self) -> int | None:
        """About how many more trials per side would settle an inconclusive row. Computed on demand: it is a search, and few rows are shown."""
        return self._more(of_both=True)

    @property
    def more_new(self) -> int | None:
        """About how many more trials of the new side alone would settle an inconclusive row."""
        return self._more(of_both=False)

    def _more(self, *, of_both: bool) -> int | None:
        levels = self.ruling.levels
        if self.comparison is None or self.criteria is None or levels is None:
            return None
        from torchstone.analyze.ratio_interval import more_trials  # noqa: PLC0415  (start-up: most checks never ask for it)

        return more_trials(
            self.comparison,
            margin=self.criteria.margin,
            alpha=levels[0],
            certain_at=levels[1],
            of_both=of_both,
            beyond=self.criteria.holds_noise,
        )


def _value(outcome: Outcome | None, metric: str) -> str | int | float | None:
    if outcome is None:
        return None
    value = outcome.value(metric)
    if value is None or value == "":
        return outcome.status if outcome.status not in {PASSED, ""} else None
    return value


class Counts(Struct):
    """Numbers of cases by result, each case counted as red, else as undecided; ``cases`` counts all of them, ``rows`` their rows, ``points`` the rows judged without evidence of their noise."""

    planned: int = 0
    judged: int = 0
    red: int = 0
    undecided: int = 0
    improved: int = 0
    quarantined: int = 0
    missing: int = 0
    new: int = 0
    cases: int = 0
    rows: int = 0
    points: int = 0

    def add(self, rows: int, *, planned: bool, judged: bool) -> None:
        """Count one more case."""
        self.cases += 1
        self.rows += rows
        self.planned += planned
        self.judged += judged


class Release(Struct, frozen=True):
    """A quarantined case that passed, and how often, in the given files."""

    entry: QuarantineEntry
    case: Case
    passed: int
    seen: int


class State(StrEnum):
    """Result of a judgement."""

    PASS = "PASS"  # noqa: S105  (a verdict, not a password)
    UNDECIDED = "UNDECIDED"
    FAIL = "FAIL"


class MetricMean(Struct, frozen=True):
    """The geometric mean of one metric over the cases that passed on both sides; ``left_out`` are those whose intervals are too wide."""

    metric: str
    better: str
    mean: Mean
    left_out: int = 0

    @property
    def over(self) -> str:
        """Return the number of cases: ``3``, or ``3 of 4`` if some were left out."""
        return f"{self.mean.cases:,}" + (f" of {self.mean.cases + self.left_out:,}" if self.left_out else "")


class PassRate(Struct, frozen=True):
    """Numbers of common cases that pass on each side. ``lost`` cases have their present status, ``gained`` ones their former status."""

    cases: int = 0
    base: int = 0
    new: int = 0
    lost: tuple[tuple[Case, str], ...] = ()
    gained: tuple[tuple[Case, str], ...] = ()


class Overview(Struct, frozen=True):
    """Summary of a comparison of two runs.

    ``left_out`` is how many rows are in no mean, because their intervals are too wide. ``environment`` lists how the environments differ; ``is_held_back`` says that numbers were not compared because of that.
    """

    alpha: float
    matched: int = 0
    means: tuple[MetricMean, ...] = ()
    left_out: int = 0
    pass_rate: PassRate = PassRate()
    environment: tuple[str, ...] = ()
    is_held_back: bool = False


class RoundTable(Struct, frozen=True):
    """The compared rounds of two DDP reports, and the keys of their headers."""

    header_keys: list[str]
    rows: list[RoundChange]


class Judgement(Struct, frozen=True):
    """The result of judging. Only a comparison of two runs has an ``overview``, and only one of DDP reports has ``rounds``."""

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
        """0 if nothing blocks, else 1."""
        return int(bool(self.expired) or any(row.ruling.blocks for row in self.rows))

    @property
    def state(self) -> State:
        """Whether the judgement is a failure, undecided, or a pass: it passes only if everything that was asked is decided."""
        if self.expired or any(row.blocks and row.verdict is not Verdict.INCONCLUSIVE for row in self.rows):
            return State.FAIL
        if self.policy.is_upstream:
            return State.FAIL if self.exit_code else State.PASS
        return State.UNDECIDED if self.undecided else State.PASS

    @property
    def undecided(self) -> list[Row]:
        """The rows that could not be decided."""
        return [row for row in self.rows if row.is_undecided]

    @property
    def points(self) -> int:
        """The number of rows that were judged as single numbers, without evidence of their noise."""
        if self.policy.is_upstream:  # its scripts judge nothing but single numbers
            return 0
        return self.counts.points or sum(map(is_without_evidence, self.rows))

    @property
    def red(self) -> list[Row]:
        """The rows that block, worst first."""
        return sorted((row for row in self.rows if row.blocks), key=severity)

    @property
    def by_verdict(self) -> dict[Verdict, int]:
        """The number of rows with each verdict, worst first."""
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in Verdict if found[verdict]}

    @property
    def status_changes(self) -> list[Row]:
        """The rows of cases whose status changed."""
        both = [row for row in self.rows if row.metric == ACCURACY and row.base and row.new]
        return [row for row in both if row.base_value != row.new_value]


def is_without_evidence(row: Row) -> bool:
    """Return whether a row compares single numbers of unknown noise, with no margin that stands for it."""
    return (
        row.comparison is not None and row.comparison.is_point and row.base is not None and row.margin is None
    )


def severity(row: Row) -> tuple[int, float, str]:
    """Return the key that sorts rows from worst to best: by verdict, statuses before numbers, largest change first."""
    actual, expected = row.new_value, row.expected_value
    change = float("inf")
    if isinstance(actual, int | float) and isinstance(expected, int | float):
        change = abs(actual - expected) / (abs(expected) or 1)
    return list(Verdict).index(row.verdict), -change, row.case.benchmark


class Conditions(Struct, frozen=True):
    """Rules, policy and quarantine to judge by, besides the baseline. ``cautions`` are about these conditions."""

    policy: Policy
    rules: RuleBook
    quarantine: tuple[QuarantineEntry, ...] = ()
    platforms: frozenset[str] = frozenset()
    metrics: tuple[str, ...] = ()
    today: date = date.max
    compare_anyway: bool = False
    cross_environment: bool = False
    looks: int = 1
    keep_quiet: bool = True  # whether quiet rows are kept or only counted: a million of them need memory
    cautions: tuple[Caution, ...] = ()
