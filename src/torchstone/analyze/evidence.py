"""Evidence of two sides about one number, and their comparison: records only. Standard library and msgspec."""

from __future__ import annotations

import math

from msgspec import Struct

VALUE, EXACT, WELCH, PAIRED = "value", "exact", "Welch's t", "paired"
"""How two sides were compared: single values, counts, independent trials, or pairs of trials that took turns."""

TRIALS, REPEATING, COUNT = "trials", "repeating", "count"
"""Kinds of numbers: trials with noise, trials that may agree to the last digit (memory), counts, for which one trial is enough."""


class Evidence(Struct, frozen=True, gc=False):
    """What one side knows about a number: one value per trial, and the number of samples behind them.

    ``kind`` is the kind of the values: a single ``VALUE`` of unknown spread, ``TRIALS``, ``REPEATING`` or ``COUNT``. ``trials`` are the
    samples of each trial, given where each took turns with the trial of the other side that has the same index.
    """

    values: tuple[float, ...]
    samples: int
    kind: str = TRIALS
    trials: tuple[tuple[float, ...], ...] = ()

    @property
    def middle(self) -> float:
        """The number that represents the side: the geometric mean of its trials, or the arithmetic mean if one is not positive."""
        if min(self.values) <= 0:
            return math.fsum(value / len(self.values) for value in self.values)
        if min(self.values) == max(self.values):
            return self.values[0]
        return math.exp(math.fsum(map(math.log, self.values)) / len(self.values))


class Comparison(Struct, frozen=True, gc=False):
    """Effect, interval and certainty, without a judgement.

    ``ratio`` is new / base, and ``low`` and ``high`` are its confidence limits: 0 and infinity if unknown. ``p_value`` is None if nothing
    was tested; ``obstacle`` says why not. ``logs`` are the log ratios of pairs.
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
