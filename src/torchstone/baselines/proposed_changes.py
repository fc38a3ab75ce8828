"""Records of what accepting results changes in a baseline."""

from __future__ import annotations

from msgspec import Struct, structs

from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.records import Case, Number

NO_EDIT = frozenset({"hold", "keep"})
"""The actions that leave a baseline unchanged."""


class TrialEvidence(Struct, frozen=True):
    """Spread of the trials, if there are several, and their number."""

    spread: float | None
    trials: int


_OF_SAMPLES = {
    name: getattr(NO_DETAILS, name)
    for name in ("interval", "confidence", "method", "trials", "ranks", "pairs", "stopped", "repeats")
}
"""Details of samples, at their defaults: a single value that stands for them has none of these."""


def details_of_value(details: MeasurementDetails, evidence: TrialEvidence | None) -> MeasurementDetails:
    """Return the details of an expected value that stands for its samples, with the evidence behind it."""
    spread, trials = (evidence.spread, evidence.trials) if evidence else (None, None)
    return structs.replace(details, **_OF_SAMPLES, spread=spread, spread_trials=trials)


class Change(Struct, frozen=True):
    """One change: ``action`` is change, add, remove, keep (measured again, unchanged) or hold (not adopted).

    ``margin`` is the row's new margin, ``old_margin`` its current one; ``spread`` is the spread of the repeats.
    """

    action: str
    case: Case
    metric: str
    old: str | Number | None
    new: str | Number | None
    note: str = ""
    line: int = 0
    margin: float | None = None
    old_margin: float | None = None
    spread: float | None = None
    ways: dict[str, str | int | float | None] | None = None
    """The method that measured the new number, if it differs from that of the old one."""
    evidence: TrialEvidence | None = None
    """The evidence behind the new number, if it is known."""
    unit: str = ""
