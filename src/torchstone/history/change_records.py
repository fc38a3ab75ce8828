"""The records of changes: a change of one series, a group of changes with one cause, and what people decided about it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from torchstone.core.vocabulary import Metric
from torchstone.store.stored import SeriesKey


class Direction(StrEnum):
    """Whether a change is for the worse, for the better, or neither: a status that fails in another way."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NEUTRAL = "neutral"


class Cause(StrEnum):
    """What a group of changes comes from: the code, the machine, or the environment (driver, torch, image)."""

    CODE = "code"
    MACHINE = "machine"
    ENVIRONMENT = "environment"


class TriageState(StrEnum):
    """What people, or the data, decided about a group of changes."""

    NEW = "new"
    ACKNOWLEDGED = "acknowledged"
    INVESTIGATING = "investigating"
    EXPECTED = "expected"
    FIXED = "fixed"
    NOISE = "noise"
    MACHINE = "machine"
    DUPLICATE = "duplicate"
    WONTFIX = "wontfix"


OPEN_STATES = frozenset({TriageState.NEW, TriageState.ACKNOWLEDGED, TriageState.INVESTIGATING})
"""The states of groups that still need somebody."""


class ChangeEnd(Struct, frozen=True):
    """One end of the interval in which a level changed: the run on that side of the change, and its revision."""

    run_id: int
    run: str
    revision: str
    commit: str
    position: int
    measured_at: str | None = None
    torch: str = ""
    driver: str = ""
    image: str = ""


class SeriesChange(Struct, frozen=True, kw_only=True):
    """Where a level of a series ends. The cause lies after ``last_old``, at ``first_new`` at the latest.

    ``before`` and ``after`` are levels in the unit of the metric, or statuses. ``earliest`` and ``latest`` are positions of
    revisions: noise may have moved the change, but its cause lies after the one, and at the other at the latest. A provisional
    change may vanish with more points; one that somebody has decided about stays, and ``is_vanished``.
    """

    id: int
    series: SeriesKey
    metric: Metric
    branch: str
    last_old: ChangeEnd
    first_new: ChangeEnd
    earliest: int
    latest: int
    direction: Direction
    before: float | str
    after: float | str
    certainty: float
    is_provisional: bool
    group: int | None = None
    is_vanished: bool = False

    @property
    def ratio(self) -> float | None:
        """The level after the change over the level before it; None unless both are positive numbers."""
        if isinstance(self.before, str) or isinstance(self.after, str):
            return None
        return self.after / self.before if self.before > 0 and self.after > 0 else None


class TriageEvent(Struct, frozen=True, kw_only=True):
    """One decision about a group, by a person or by the data (``is_automatic``). Events are only ever added."""

    id: int
    group: int
    state: TriageState
    at: str
    reason: str = ""
    link: str = ""
    owner: str = ""
    author: str = ""
    is_automatic: bool = False
    duplicate_of: int | None = None


class ChangeGroup(Struct, frozen=True, kw_only=True):
    """Changes on one branch whose intervals overlap: probably of one cause. ``name`` says what the members share."""

    id: int
    name: str
    branch: str
    cause: Cause
    opened_at: str
    changes: tuple[SeriesChange, ...]
    state: TriageState = TriageState.NEW
    events: tuple[TriageEvent, ...] = ()
