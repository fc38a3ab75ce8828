"""Sort changes for the eye: regressions first, then what merely differs, then improvements, each by effect."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torchstone.history.change_records import Direction, SeriesChange

_ORDER = {Direction.REGRESSION: 0, Direction.NEUTRAL: 1, Direction.IMPROVEMENT: 2}


def effect_of(change: SeriesChange) -> float:
    """Return how large a change is: the ratio of its levels, the greater over the smaller; infinite for statuses and from zero."""
    ratio = change.ratio
    return math.inf if ratio is None else max(ratio, 1 / ratio)


def worst_first(changes: Iterable[SeriesChange]) -> tuple[SeriesChange, ...]:
    """Return changes in the order in which somebody should look at them; the first is the one to explain."""
    return tuple(
        sorted(changes, key=lambda each: (_ORDER[each.direction], -effect_of(each), -each.certainty, each.id))
    )
