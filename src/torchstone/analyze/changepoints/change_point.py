"""What a detector reports, and what it keeps of a series between two calls."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

DEFAULT_CERTAINTY = 0.5
"""Changes of at least this certainty are reported."""
FRESH = 15
"""A change is fresh as long as at most this many points belong to its level."""
CONFIRMED = 0.9
"""A fresh change of at least this certainty needs no further points."""


class Kind(StrEnum):
    """What the values of a series are, and so which detector fits.

    `NUMBER`: times and all else that varies. `COUNT`: counts and memory, which often do not vary at all. `STATUS`:
    any number that stands for a status. `PASS_RATE`: pairs (passed, total).
    """

    NUMBER = "number"
    COUNT = "count"
    STATUS = "status"
    PASS_RATE = "pass_rate"  # noqa: S105  (how often something passes; no password)


class ChangePoint(Struct, frozen=True):
    """The first index of a new level.

    `before` and `after` are the levels next to the change, in the unit of the values. A provisional change may
    vanish: so few points belong to its level that they may be a disturbance.
    """

    index: int
    certainty: float
    before: float
    after: float
    provisional: bool = False

    @property
    def ratio(self) -> float | None:
        """The level after the change over the level before it; None unless both are positive."""
        return self.after / self.before if self.before > 0 and self.after > 0 else None


class Decided(Struct, frozen=True):
    """What is settled about a series: its changes so far, and the index from which on values are still needed."""

    changes: tuple[ChangePoint, ...] = ()
    needed_from: int = 0


class Update(Struct, frozen=True):
    """All changes of a series, settled or not, and what to keep until more values arrive."""

    changes: tuple[ChangePoint, ...]
    decided: Decided
