"""Records of the evidence that two sides have about one number, and of their comparison. Standard library and msgspec."""

from __future__ import annotations

import math

from msgspec import Struct

VALUE, EXACT, WELCH, PAIRED = "value", "exact", "Welch's t", "paired"
"""Methods of comparison: single values, exact counts, independent trials, or pairs of trials that took turns."""

TRIALS, REPEATING, COUNT = "trials", "repeating", "count"
"""Kinds of evidence: trials that vary, trials that may agree exactly (memory), or counts, for which one trial is enough."""


class Evidence(Struct, frozen=True, gc=False):
    """Evidence of one side about a number: one value per trial, and the number of samples behind them.

    ``kind`` is ``VALUE`` (a single value of unknown spread), ``TRIALS``, ``REPEATING`` or ``COUNT``. ``trials``
    has the samples of each trial if each took turns with the other side's trial of the same index.
    """

    values: tuple[float, ...]
    samples: int
    kind: str = TRIALS
    trials: tuple[tuple[float, ...], ...] = ()

    @property
    def middle(self) -> float:
        """Return the geometric mean of the trials, or the arithmetic mean if one is not positive."""
        if min(self.values) <= 0:
            return math.fsum(value / len(self.values) for value in self.values)
        if min(self.values) == max(self.values):
            return self.values[0]
        return math.exp(math.fsum(map(math.log, self.values)) / len(self.values))


class Comparison(Struct, frozen=True, gc=False):
    """Effect, interval and certainty, without a judgement.

    ``ratio`` is new / base; ``low`` and ``high`` are its confidence limits, 0 and infinity if unknown.
    ``p_value`` is None if nothing was tested; ``obstacle`` says why. ``logs`` are the log ratios of pairs.
    """

    base: Evidence
    new: Evidence
    method: str = ""
    ratio: float = math.nan
    low: float = 0.0
    high: float = math.inf
    p_value: float | None = None
    logs: tuple[float, ...] = ()
    obstacle: str = ""
    wrong: bool = False
