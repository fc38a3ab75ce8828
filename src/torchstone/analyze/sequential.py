"""Is B slower than A? A test of pairs that may be looked at after every pair; standard library only.

A pair is one trial of A and one of B that took turns, with chance deciding which of them was started first and which had the first turn: so without a
difference, a log ratio of +x is as likely as one of -x, whatever the noise is like: heavy-tailed, in two modes, drifting, wider now than before. That symmetry around the true
effect is all that is assumed.

For every effect that might be the true one, a gambler bets on the sign of what is left of each log ratio, without an edge if that effect is the true one: the stake grows by
2 / (1 + exp(-2 bet x)), of which x and -x have the mean 1. Such a stake is not above 1 / alpha at any time, however long one plays, with a probability of 1 - alpha (Ville, "Étude critique de
la notion de collectif", 1939). Effects that have made a gambler that rich are out, and what is left is an interval that holds at all times at once. The bets are a mix of six, from
timid to bold, in units of the spread seen before. (Confidence sequences: Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", Annals of Statistics 49, 2021; stakes for symmetric laws: de la Peña, "A general class of exponential inequalities for martingales and ratios", Annals of
Probability 27, 1999.)
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

BETS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
FIRST_SPREAD = 0.01
"""The spread of log ratios that is assumed before there are any: it decides how soon a verdict comes, not whether it is right."""
ALPHA = 0.01
MARGIN = 0.02
FAR = 20.0  # of a logarithm: beyond it everything is excluded
_STEPS = 50


class Effect(NamedTuple):
    """How many times A's cost B's is, and between what that lies; all ratios."""

    ratio: float
    low: float
    high: float


class PairedTest:
    """Takes one log ratio of cost (B's to A's) after another; at any time it has an interval and a decision."""

    def __init__(self, margin: float = MARGIN, alpha: float = ALPHA) -> None:
        if not 0 < margin < 1 or not 0 < alpha < 1:
            raise ValueError("a margin and an alpha are shares between 0 and 1")
        self._margin = math.log1p(margin)
        self._wealth = math.log(2 / alpha)  # two sides, half of alpha each
        self._seen: list[float] = []
        self._ordered: list[float] = []
        self._spreads: list[float] = []
        self._low, self._high = -math.inf, math.inf

    def add(self, log_ratio: float) -> None:
        """Take the next pair."""
        if not math.isfinite(log_ratio):
            raise ValueError("a log ratio has to be finite")
        self._spreads.append(
            self._next_spread()
        )  # from what was seen before, or the bets would know how they end
        self._seen.append(log_ratio)
        insort(self._ordered, log_ratio)
        self._low = max(self._low, self._bound(+1))
        self._high = min(self._high, self._bound(-1))

    @property
    def pairs(self) -> int:
        """How many pairs there were."""
        return len(self._seen)

    def effect(self) -> Effect:
        """The estimate (the median of all means of two log ratios; Hodges and Lehmann, 1963) and the interval that held at all times."""
        middle = hodges_lehmann(self._ordered) if self._seen else 0.0
        low, high = min(self._low, middle), max(self._high, middle)
        return Effect(math.exp(middle), _exp(low), _exp(high))

    def decision(self) -> str:
        """``same`` if the effect is within the margin, else ``slower`` or ``faster`` if it is certain which; empty as long as neither is certain."""
        if self._low > -self._margin and self._high < self._margin:
            return "same"
        if self._low > 0:
            return "slower"
        return "faster" if self._high < 0 else ""

    def more_pairs(self) -> int | None:
        """About how many more pairs a decision takes, if they go on as before; 0 if there is one, None if nothing can be said."""
        if self.decision():
            return 0
        if len(self._seen) < 2:
            return None
        for total in range(len(self._seen) + 1, 20 * len(self._seen) + 20):
            copy = PairedTest.__new__(PairedTest)
            copy.__dict__ = self.__dict__ | {
                "_seen": _stretched(self._seen, total),
                "_spreads": _stretched(self._spreads, total, last=self._next_spread()),
            }
            copy._low, copy._high = copy._bound(+1), copy._bound(-1)
            if copy.decision():
                return total - len(self._seen)
        return None

    def _next_spread(self) -> float:
        """What the spread of the next log ratio is thought to be: the usual one at first, then what was seen (the median absolute deviation)."""
        count = len(self._ordered)
        if not count:
            return FIRST_SPREAD
        middle = _median(self._ordered)
        deviation = 1.4826 * _median(sorted(abs(each - middle) for each in self._ordered))
        return max(1e-9, (2 * FIRST_SPREAD + count * deviation) / (2 + count))

    def _bound(self, side: int) -> float:
        """The effect nearest to the estimate that is excluded from below (+1) or from above (-1); infinite where none is."""
        middle = side * hodges_lehmann(sorted(self._seen))
        if self._log_stake(side, middle - FAR) < self._wealth:
            return -side * math.inf
        excluded, possible = middle - FAR, middle + FAR
        for _ in range(_STEPS):
            between = (excluded + possible) / 2
            if self._log_stake(side, between) >= self._wealth:
                excluded = between
            else:
                possible = between
        return side * excluded

    def _log_stake(self, side: int, effect: float) -> float:
        """How rich the gamblers have become who bet that the effect is larger than this (for side -1: the negated effects); falls with the effect."""
        stakes = [
            sum(
                math.log(2) - _softplus(-2 * bet / spread * (side * each - effect))
                for each, spread in zip(self._seen, self._spreads, strict=True)
            )
            for bet in BETS
        ]
        best = max(stakes)
        return best + math.log(sum(math.exp(stake - best) for stake in stakes) / len(BETS))


def hodges_lehmann(ordered: Sequence[float]) -> float:
    """The median of the means of every two values (each with itself too).

    >>> hodges_lehmann([0.0, 1.0, 5.0])
    1.75
    """
    return _median(
        sorted((one + other) / 2 for index, one in enumerate(ordered) for other in ordered[index:])
    )


def _stretched(values: Sequence[float], total: int, last: float | None = None) -> list[float]:
    """As many values, with the same order of size among them: what was seen goes on."""
    return [
        *values,
        *((last if last is not None else values[i % len(values)]) for i in range(total - len(values))),
    ]


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _softplus(value: float) -> float:
    return value + math.log1p(math.exp(-value)) if value > 0 else math.log1p(math.exp(value))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
