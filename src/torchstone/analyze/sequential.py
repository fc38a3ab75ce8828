"""Test whether B is slower than A, with a decision that is valid after every pair.

Standard library only.

A pair is one trial of A and one of B that took turns; start order and first turn are random. Without a
difference, a log ratio of +x is as likely as -x whatever the noise: heavy-tailed, bimodal, drifting. This
symmetry around the true effect is the only assumption.

For each candidate effect, a gambler bets on the sign of the remaining log ratio; if the candidate is true,
the bet is fair. The stake is multiplied by 2 / (1 + exp(-2 bet x)), whose mean over x and -x is 1. With
probability 1 - alpha such a stake never exceeds 1 / alpha, however long the game (Ville, "Étude critique de
la notion de collectif", 1939). Candidates that made a gambler that rich are excluded; the rest form a
confidence interval that is valid at all times at once. Six bets are mixed, from timid to bold, in units of
the spread seen so far; log ratios beyond three of these units count as three, which keeps the symmetry and
lets no single pair decide.

References: confidence sequences: Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform, nonparametric,
nonasymptotic confidence sequences", Annals of Statistics 49, 2021; bets for symmetric distributions: de la
Peña, "A general class of exponential inequalities for martingales and ratios", Annals of Probability 27,
1999.
"""

from __future__ import annotations

import itertools
import math
from bisect import insort
from collections.abc import Sequence
from typing import NamedTuple

BETS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
FIRST_SPREAD = 0.01
"""The initial guess of the spread of log ratios; it affects how soon a verdict comes, not whether it is right."""
FAR = 20.0  # of the logarithm: larger effects are always excluded
_FOUR_OF_FIVE = 1.2816  # standard deviations that contain 80 % of normal noise
_FARTHEST = 3.0  # spreads: log ratios are clipped here, so that one outlier does not ruin all bets
_STEPS = 30  # of bisection: nine digits
_LOG_2 = math.log(2)


def fewest_pairs(alpha: float) -> int:
    """Return the minimum number of pairs for a decision: each pair at most doubles a stake.

    >>> fewest_pairs(0.0025)
    10
    """
    return math.ceil(math.log2(2 / alpha))


class Effect(NamedTuple):
    """Ratio of B's cost to A's, with its confidence interval."""

    ratio: float
    low: float
    high: float


class PairedTest:
    """Sequential test on log ratios of cost (B's to A's), with an interval and a decision at any time.

    >>> test = PairedTest(0.02, 0.0025)
    >>> for log_ratio in [0.05, 0.04, 0.06, 0.05, 0.05, 0.04, 0.06, 0.05, 0.05, 0.04, 0.06]:
    ...     test.add(log_ratio)
    >>> test.decision()
    'slower'
    """

    def __init__(self, margin: float, alpha: float) -> None:
        if not 0 < margin < math.inf or not 0 < alpha < 1:
            raise ValueError("a margin is a share above 0, and an alpha one between 0 and 1")
        self._wealth = math.log(2 / alpha)  # two sides, half of alpha each
        reach = math.log1p(margin)
        self._larger = {effect: _Gamblers(effect) for effect in (0.0, -reach)}
        self._smaller = {
            effect: _Gamblers(effect) for effect in (0.0, -reach)
        }  # these see log ratios negated
        self._reach = reach
        self._seen: list[float] = []
        self._ordered: list[float] = []
        self._spreads: list[float] = []

    def add(self, log_ratio: float) -> None:
        """Add the next pair's log ratio."""
        if not math.isfinite(log_ratio):
            raise ValueError("a log ratio has to be finite")
        spread = self._next_spread()  # from earlier pairs only: a bet must not depend on its own outcome
        self._spreads.append(spread)
        self._seen.append(log_ratio)
        insort(self._ordered, log_ratio)
        for gamblers in self._larger.values():
            gamblers.bet(log_ratio, spread)
        for gamblers in self._smaller.values():
            gamblers.bet(-log_ratio, spread)

    @property
    def pairs(self) -> int:
        """Return the number of pairs so far."""
        return len(self._seen)

    def decision(self) -> str:
        """Return ``same``, ``slower`` or ``faster``; empty as long as neither is certain.

        ``same`` means that the interval lies within the margin.
        """
        larger, smaller = (
            {effect: gamblers.richest >= self._wealth for effect, gamblers in side.items()}
            for side in (self._larger, self._smaller)
        )
        if larger[-self._reach] and smaller[-self._reach]:
            return "same"
        if larger[0.0]:
            return "slower"
        return "faster" if smaller[0.0] else ""

    @property
    def p_value(self) -> float:
        """Return the anytime-valid p-value of a change."""
        richest = max(self._larger[0.0].richest, self._smaller[0.0].richest)
        return min(1.0, 2 * math.exp(-richest))

    def effect(self) -> Effect:
        """Return the Hodges-Lehmann estimate (1963) and its confidence interval."""
        middle = hodges_lehmann(self._ordered) if self._seen else 0.0
        return Effect(_exp(middle), _exp(self._bound(+1, middle)), _exp(self._bound(-1, middle)))

    def more_pairs(self, most: int = 500) -> int | None:
        """Estimate how many more pairs a decision takes if they continue as before.

        Return 0 if it is decided; None if it takes more than ``most``, or cannot be estimated.
        """
        if self.decision():
            return 0
        if len(self._seen) < 2:
            return None
        ahead = PairedTest(math.expm1(self._reach), 2 * math.exp(-self._wealth))
        for number, log_ratio in enumerate(
            itertools.islice(itertools.cycle(self._seen), len(self._seen) + most)
        ):
            ahead.add(log_ratio)
            if number >= len(self._seen) and ahead.decision():
                return number + 1 - len(self._seen)
        return None

    def _next_spread(self) -> float:
        """Predict the spread of the next log ratio: a default at first, then the 80th percentile of deviations."""
        count = len(self._ordered)
        if not count:
            return FIRST_SPREAD
        middle = _median(self._ordered)
        deviations = sorted(abs(each - middle) for each in self._ordered)
        deviation = deviations[math.ceil(0.8 * count) - 1] / _FOUR_OF_FIVE
        return max(1e-9, (2 * FIRST_SPREAD + count * deviation) / (2 + count))

    def _bound(self, side: int, middle: float) -> float:
        """Return the excluded effect nearest to the estimate, from below (+1) or above (-1); infinite if none is."""
        possible, away = side * middle, FIRST_SPREAD
        while not self._excludes(side, excluded := side * middle - min(away, FAR)):
            if away >= FAR:
                return -side * math.inf
            possible, away = excluded, 2 * away
        for _ in range(_STEPS):
            between = (excluded + possible) / 2
            if self._excludes(side, between):
                excluded = between
            else:
                possible = between
        return side * excluded

    def _excludes(self, side: int, effect: float) -> bool:
        """Return whether betting on a larger effect (side -1: a smaller one) ever reached the required stake.

        The smaller the candidate effect, the larger the stake, so bounds can be found by bisection.
        """
        enough = math.exp(self._wealth) * len(BETS)
        stakes = [1.0] * len(BETS)
        for log_ratio, spread in zip(self._seen, self._spreads, strict=True):
            distance = _distance(side * log_ratio - effect, spread)
            stakes = [
                2 * stake / (1 + math.exp(-bet * distance)) for stake, bet in zip(stakes, BETS, strict=True)
            ]
            if sum(stakes) >= enough:
                return True
        return False


class _Gamblers:
    """Six bets, each with a sixth of the stake, that log ratios lie above an effect; stakes are logarithms."""

    def __init__(self, effect: float) -> None:
        self._effect = effect
        self._logs = [-math.log(len(BETS))] * len(BETS)
        self.richest = 0.0

    def bet(self, log_ratio: float, spread: float) -> None:
        """Place one bet."""
        distance = _distance(log_ratio - self._effect, spread)
        self._logs = [
            log + _LOG_2 - _softplus(-bet * distance) for log, bet in zip(self._logs, BETS, strict=True)
        ]
        best = max(self._logs)
        together = best + math.log(sum(math.exp(log - best) for log in self._logs))
        self.richest = max(self.richest, together)


def _distance(log_ratio: float, spread: float) -> float:
    """Return twice the distance of a log ratio in units of the spread, clipped."""
    return 2 * max(-_FARTHEST, min(_FARTHEST, log_ratio / spread))


def hodges_lehmann(ordered: Sequence[float]) -> float:
    """Return the median of all pairwise means, each value paired with itself too.

    >>> hodges_lehmann([0.0, 1.0, 5.0])
    1.75
    """
    return _median(
        sorted((one + other) / 2 for index, one in enumerate(ordered) for other in ordered[index:])
    )


def _median(ordered: Sequence[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _softplus(value: float) -> float:
    return value + math.log1p(math.exp(-value)) if value > 0 else math.log1p(math.exp(value))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
