"""Margins from repeats: what a row of a baseline is to expect of counts that were measured several times, and within what margin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from msgspec import Struct

from torchstone.analyze.spread import find_margin, spread
from torchstone.errors import printable
from torchstone.gate.comparable import counter_of, other_counter
from torchstone.model import Measurement, Number, Outcome
from torchstone.vocabulary import METRICS, PASSED

LEAST_MARGIN = 0.001
LEAST_MARGIN_OF_TIMES = 0.05
TOO_WIDE = "its repeats lie too far apart for any margin: measure it more often, or mend it"
_EXACT_COUNTERS = frozenset({"hardware", "simulated", "python"})
_EXACT_UNITS = frozenset({"instructions", "calls"})


class Settled(Struct, frozen=True):
    """What is to be expected, within what margin, and how far apart the values are; there is no margin of 1 or more."""

    value: Number
    margin: float
    spread: float

    @property
    def is_usable(self) -> bool:
        """Whether such a margin can stand in a baseline."""
        return self.margin < 1


def settle(
    found: Sequence[Measurement], before: Number | None, write: Callable[[Number, float], Number]
) -> Settled:
    """The median of what was found, unless it moved by less than a third of its margin from ``before``; and the margin around that.

    ``write`` says which digits of a number are kept, given its margin.
    """
    values = [measurement.value for measurement in found]
    least, apart = least_margin(found[0]), spread(values)
    middle: Number = median(values)
    if all(isinstance(value, int) for value in values):
        middle = int(middle)  # the original's updater reads whole numbers only
    margin = find_margin(values, middle, least)
    if margin >= 1:
        return Settled(middle, margin, apart)
    stays = before is not None and before > 0 and abs(middle - before) / before <= margin / 3
    value = before if before is not None and stays else write(middle, margin)
    return Settled(value, find_margin(values, value, least), apart)


def least_margin(measurement: Measurement) -> float:
    """The narrowest margin that is ever proposed: a spread of nothing over a few repeats is no promise for all times."""
    metric = METRICS.get(measurement.metric)
    counts = counter_of(measurement) in _EXACT_COUNTERS or (metric and metric.unit in _EXACT_UNITS)
    return LEAST_MARGIN if counts else LEAST_MARGIN_OF_TIMES


def find_failed_repeat(outcomes: Sequence[Outcome]) -> str:
    """Why the repeats of a case, which come after its first outcome, say nothing about its spread: one of them failed. Empty if none did."""
    for number, outcome in enumerate(outcomes[1:], 1):
        if outcome.status != PASSED:
            said = printable(outcome.failure.message) if outcome.failure else ""
            reason = f"{outcome.status}{f' ({said})' if said else ''}"
            return f"repeat {number} of {len(outcomes) - 1} failed: {reason}"
    return ""


def find_other_counter(old: Measurement | None, found: Sequence[Measurement]) -> str:
    """Why counts cannot stand in one row: two counters made them. Empty if one did, or nothing is said."""
    counters = sorted({counter_of(measurement) for measurement in found} - {""})
    if len(counters) > 1:
        return f"the files were counted by different counters: {', '.join(map(printable, counters))}"
    if old and old.extra and counters and (why := other_counter({"counter": counters[0]}, old.extra)):
        return f"{why}: counts of two counters never stand in one row"
    return ""
