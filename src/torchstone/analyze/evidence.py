"""Records of the evidence that two sides have about one number, and of their comparison.

Standard library and msgspec.
"""

from __future__ import annotations

import math

from msgspec import Struct

VALUE, EXACT, WELCH, PAIRED = "value", "exact", "Welch's t", "paired"
"""Methods of comparison: single values, exact counts, independent trials, or pairs of trials that took turns."""

TRIALS, REPEATING, COUNT = "trials", "repeating", "count"
"""Kinds of evidence: trials that vary, trials that may agree exactly (memory), or counts, for which one trial is enough."""


MOST_MORE = 200
"""The largest number of trials that is forecast."""


class ProcessSpread(Struct, frozen=True, gc=False):
    """How far a single value may be off, as the standard error of its logarithm.

    ``within`` is what the process shows itself, ``between`` the difference between processes, which one process cannot show.
    ``freedom`` is the number of degrees of freedom if ``between`` was estimated from trials; infinite if it is assumed.
    """

    within: float = 0.0
    between: float = 0.0
    freedom: float = math.inf

    @property
    def variance(self) -> float:
        """Return the variance of the logarithm."""
        return self.within**2 + self.between**2

    @property
    def is_assumed(self) -> bool:
        """Return whether the difference between processes is assumed: no trials have shown it."""
        return self.between > 0 and math.isinf(self.freedom)


class Evidence(Struct, frozen=True, gc=False):
    """Evidence of one side about a number: one value per trial, and the number of samples behind them.

    ``kind`` is ``VALUE`` (a single value of unknown spread), ``TRIALS``, ``REPEATING`` or ``COUNT``. ``trials``
    has the samples of each trial if each took turns with the other side's trial of the same index. ``spread`` is that of a
    single value, where it is known or assumed.
    """

    values: tuple[float, ...]
    samples: int
    kind: str = TRIALS
    trials: tuple[tuple[float, ...], ...] = ()
    spread: ProcessSpread | None = None

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
    Sides that were measured differently are not ``comparable``.
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
    comparable: bool = True

    @property
    def is_point(self) -> bool:
        """Return whether single values were compared, without evidence of their spread."""
        return self.method == VALUE
