"""The records of a comparison that was judged: a verdict a row, means over cases, pass rates, and what blocks."""

from __future__ import annotations

import math
from collections import Counter

from msgspec import Struct

from torchstone.analyze.scaling_curves import RoundChange
from torchstone.analyze.two_samples import EXACT, Comparison, Mean, more_trials
from torchstone.core.cautions import Caution
from torchstone.core.records import NOWHERE, Case, FilePlace, Outcome
from torchstone.core.vocabulary import ACCURACY, PASSED, Verdict
from torchstone.gate.policy import Policy

COMPARE_BLOCKS = frozenset({Verdict.REGRESSION, Verdict.MISSING, Verdict.INVALID})
"""What makes the exit code 1. An open question does not: thin data on a branch is no reason to stop it, and never reads as ``same`` either."""
WITHIN, BEYOND, UNCLEAR = "within", "beyond", "unclear"
"""Where an interval lies as to the margin: inside of it, outside of it, or across its edge."""
_SLACK = 1e-12  # so that 1.02 is within a margin of 2 %, whatever the last binary digit says


class ComparedRow(Struct, frozen=True, gc=False):
    """The verdict on one metric of one case of both sides, and all that led to it.

    ``tolerance`` is by how much a count may be off, where that is said in its own unit. ``adjusted`` is the p-value made larger for the number of rows; ``is_significant`` is about it alone, ``relevance`` about the margin alone.
    ``levels`` are those at which a row that was left open would be decided: as ``same``, and as changed.
    """

    verdict: Verdict
    case: Case
    metric: str
    base: Outcome | None = None
    new: Outcome | None = None
    comparison: Comparison | None = None
    margin: float = 0.0
    tolerance: float = 0.0
    better: str = ""
    adjusted: float | None = None
    is_significant: bool = False
    relevance: str = ""
    levels: tuple[float, float] | None = None
    detail: str = ""
    base_place: FilePlace = NOWHERE
    new_place: FilePlace = NOWHERE
    blocks: bool = False

    @property
    def base_value(self) -> str | float | None:
        """What the base had: a number, or the status of a case that has none."""
        return self.comparison.base.middle if self.comparison else _value(self.base, self.metric)

    @property
    def new_value(self) -> str | float | None:
        """What the new side has."""
        return self.comparison.new.middle if self.comparison else _value(self.new, self.metric)

    @property
    def ratio(self) -> float | None:
        """New over base, where there is such a number."""
        ratio = self.comparison.ratio if self.comparison else math.nan
        return ratio if math.isfinite(ratio) else None

    @property
    def more(self) -> int | None:
        """About how many more trials a side would settle a row that was left open. Not kept: most reports show a few rows of many, and each takes a search."""
        if self.comparison is None or self.levels is None:
            return None
        alpha, certain_at = self.levels
        return more_trials(self.comparison, margin=self.margin, alpha=alpha, certain_at=certain_at)


def _value(outcome: Outcome | None, metric: str) -> str | float | None:
    """What was measured, or the status of a case that failed before anything could be."""
    if outcome is None:
        return None
    value = outcome.value(metric)
    if value is None:
        return outcome.status if outcome.status not in {PASSED, ""} else None
    return value or PASSED if metric == ACCURACY else value


def relevance_of(comparison: Comparison, row: ComparedRow) -> str:
    """Where the interval lies as to the margin; of counts whose rule has a tolerance, the differences as to that."""
    interval, limits = (comparison.low, comparison.high), (1 / (1 + row.margin), 1 + row.margin)
    if comparison.method == EXACT and row.tolerance:
        base, new = comparison.base.values, comparison.new.values
        interval, limits = (min(new) - max(base), max(new) - min(base)), (-row.tolerance, row.tolerance)
    low, high = limits[0] - _SLACK, limits[1] + _SLACK
    if low <= interval[0] and interval[1] <= high:
        return WITHIN
    return BEYOND if interval[1] < low or interval[0] > high else UNCLEAR


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


class Compared(Struct, frozen=True):
    """Everything a comparison found out. ``environment`` says in what the two sides differ, ``is_held_back`` whether numbers were not compared for that; ``ddp`` are the rounds of DDP reports side by side."""

    policy: Policy
    alpha: float
    rows: list[ComparedRow]
    matched: int
    means: list[MetricMean]
    pass_rate: PassRate
    environment: list[str]
    is_held_back: bool
    cautions: list[Caution]
    header_keys: list[str] | None = None
    ddp: list[RoundChange] | None = None

    @property
    def exit_code(self) -> int:
        """0 where nothing blocks, 1 otherwise."""
        return int(any(row.blocks for row in self.rows))

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many rows have each verdict, from worst to best."""
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in Verdict if found[verdict]}

    @property
    def status_changes(self) -> list[ComparedRow]:
        """The rows of cases that ended otherwise than before."""
        both = [row for row in self.rows if row.metric == ACCURACY and row.base and row.new]
        return [row for row in both if row.base_value != row.new_value]


def is_blocking(policy: Policy, verdict: Verdict) -> bool:
    """Whether a row of this verdict makes the exit code 1: what the user says comes first; the original lets everything pass."""
    if verdict in policy.allow:
        return False
    return verdict in policy.block or (verdict in COMPARE_BLOCKS and not policy.is_upstream)
