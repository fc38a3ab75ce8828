"""Two sets of trials -> how many times the base the new is, and between what that lies; no judgement. Standard library only.

The independent unit is the trial, a process: samples of one process are alike for reasons that have nothing to do with what is compared (its addresses, its core, its
minute), and a thousand of them say no more about the next process than a few do. So one number a trial enters, and how many samples it stands for is only told.

Costs multiply rather than add, so everything is done on logarithms. Trials that took turns are compared in pairs (``analyze.sequential``); others by
Welch's t-test, which lets the two sides scatter differently (Welch, "The generalization of Student's problem when several different population variances are involved", Biometrika
34, 1947). Counts that do not scatter need no statistics: they are compared as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from torchstone.analyze.sequential import PairedTest
from torchstone.analyze.student import t_quantile, two_sided_p, whole_t_quantile

WELCH, PAIRED, EXACT = "Welch's t", "paired", "exact"
MOST_MORE = 200
"""More trials than this are not counted: nobody would measure them."""
_SHARES, _SCALES = (1.0, 0.5, 0.2), (1, 10, 100, 1000, 10_000, 100_000, 1_000_000)
_LEAST_MARGIN = 1e-9  # the paired test wants one; no effect is as near to 1 as this

ONE_TRIAL = (
    "one trial {side} cannot tell a change from the difference between two processes; "
    "measure more: torchstone run --trials 5, or use torchstone ab"
)
NO_SPREAD = (
    "all trials of {side} have the very same value, which no time has: it was not measured, or not by trial"
)


Trials = tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]


class Side(Struct, frozen=True, gc=False):
    """What one side consists of: a number a trial, and how many samples these stand for."""

    values: tuple[float, ...]
    samples: int

    @property
    def middle(self) -> float:
        """The one number that stands for the side: the geometric mean of its trials, or the plain one where there is a zero."""
        if min(self.values) <= 0:
            return math.fsum(value / len(self.values) for value in self.values)
        if min(self.values) == max(self.values):
            return self.values[0]
        return math.exp(math.fsum(map(math.log, self.values)) / len(self.values))


class Comparison(Struct, frozen=True, gc=False):
    """Effect, interval and method. ``p_value`` is None where nothing was tested, ``obstacle`` says why; ``more`` is how many more trials a side would settle it.

    ``ratio`` is new / base; so are ``low`` and ``high``, which are without limits where nothing is known.
    """

    base: Side
    new: Side
    method: str = ""
    ratio: float = math.nan
    low: float = 0.0
    high: float = math.inf
    p_value: float | None = None
    more: int | None = None
    obstacle: str = ""
    wrong: bool = False


def compare_trials(base: Side, new: Side, *, margin: float, alpha: float, counted: bool) -> Comparison:
    """Compare trials that are independent of each other. ``counted`` says that the numbers are counts, which may well be the same every time."""
    values = (*base.values, *new.values)
    if not all(map(math.isfinite, values)):
        return Comparison(base, new, obstacle="a value that is not finite", wrong=True)
    if min(values) < 0:
        return Comparison(base, new, obstacle="a ratio needs values above 0, and one is below")
    if counted and not (_varies(base) and _varies(new)):
        return _compare_exactly(base, new)
    if min(values) == 0:
        return Comparison(base, new, obstacle="a ratio needs values above 0, and one is 0")
    if why := _too_thin(base, new):
        return Comparison(base, new, ratio=new.middle / base.middle, obstacle=why)
    return _compare_by_welch(base, new, margin, alpha)


def compare_pairs(base: Side, new: Side, trials: Trials, *, margin: float, alpha: float) -> Comparison:
    """Compare trials of which each has a partner on the other side, that it took turns with; ``trials`` are the samples of each, by side."""
    if not all(0 < value < math.inf for side in trials for samples in side for value in samples):
        return Comparison(base, new, obstacle="a ratio needs finite values above 0", wrong=True)
    logs = [
        _pair_log_ratio(*samples)
        if len(samples[0]) == len(samples[1])
        else math.log(after) - math.log(before)
        for *samples, before, after in zip(*trials, base.values, new.values, strict=True)
    ]
    test = _paired(logs, margin, alpha)
    effect = test.effect()
    more = None if test.decision() or len(logs) < 2 else test.more_pairs(MOST_MORE) or MOST_MORE + 1
    return Comparison(base, new, PAIRED, effect.ratio, effect.low, effect.high, _paired_p(logs, alpha), more)


def _pair_log_ratio(base: Sequence[float], new: Sequence[float]) -> float:
    """What a pair says: the median over rounds, in each of which both had a turn."""
    logs = sorted(math.log(after) - math.log(before) for before, after in zip(base, new, strict=True))
    middle = len(logs) // 2
    return logs[middle] if len(logs) % 2 else (logs[middle - 1] + logs[middle]) / 2


def _paired(logs: Sequence[float], margin: float, alpha: float) -> PairedTest:
    test = PairedTest(max(margin, _LEAST_MARGIN), alpha)
    for log in logs:
        test.add(log)
    return test


def _paired_p(logs: Sequence[float], alpha: float) -> float:
    """The smallest of some levels at which a change is certain: an upper limit of its p-value; 1 where it is not even certain at ``alpha``."""
    smallest = 1.0
    for level in (alpha * share / scale for scale in _SCALES for share in _SHARES):
        if not _paired(logs, _LEAST_MARGIN, level).decision():
            break
        smallest = level
    return smallest


def _varies(side: Side) -> bool:
    """Whether trials differ, and by more than logarithms have digits for."""
    low, high = min(side.values), max(side.values)
    return low < high and (low <= 0 or math.log(low) < math.log(high))


def _compare_exactly(base: Side, new: Side) -> Comparison:
    """From the smallest to the largest ratio of any two trials: one number, where neither side varies."""
    ratio = _ratio(new.middle, base.middle)
    low, high = (
        _ratio(min(new.values), max(base.values)),
        _ratio(max(new.values), min(base.values)),
    )
    return Comparison(base, new, EXACT, ratio, low, high)


def _ratio(new: float, base: float) -> float:
    """New over base; 1 where both are 0, and without limit where only the base is."""
    if base == 0:
        return 1.0 if new == 0 else math.inf
    return new / base


def _too_thin(base: Side, new: Side) -> str:
    """Why there are too few trials to tell anything from; empty if there are enough."""
    short = [name for name, side in (("of BASE", base), ("of NEW", new)) if len(side.values) < 2]
    if short:
        return ONE_TRIAL.format(side="a side" if len(short) == 2 else short[0])
    flat = [name for name, side in (("BASE", base), ("NEW", new)) if not _varies(side)]
    return NO_SPREAD.format(side=" and ".join(flat)) if flat else ""


def _compare_by_welch(base: Side, new: Side, margin: float, alpha: float) -> Comparison:
    before, after = _log_moments(base.values), _log_moments(new.values)
    effect = after[0] - before[0]
    parts = before[1] / len(base.values), after[1] / len(new.values)
    error = math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / (
        parts[0] ** 2 / (len(base.values) - 1) + parts[1] ** 2 / (len(new.values) - 1)
    )
    near = whole_t_quantile(alpha, max(1, round(freedom)))
    reach = t_quantile(alpha, freedom, near) * error
    settled = -math.log1p(margin) < effect - reach and effect + reach < math.log1p(margin)
    more = 0 if settled or abs(effect) > reach else _more_trials(base, new, margin, alpha)
    return Comparison(
        base,
        new,
        WELCH,
        _exp(effect),
        _exp(effect - reach),
        _exp(effect + reach),
        two_sided_p(effect / error, freedom),
        more or None,
    )


def _log_moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and variance of the logarithms."""
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    return mean, math.fsum((log - mean) ** 2 for log in logs) / (len(logs) - 1)


def more_trials(base: Side, new: Side, *, margin: float, alpha: float) -> int | None:
    """About how many more trials a side a certain answer takes, if they scatter as before; None where too few say how they do."""
    both_vary = _varies(base) and _varies(new) and min(*base.values, *new.values) > 0
    return _more_trials(base, new, margin, alpha) if both_vary else None


def _more_trials(base: Side, new: Side, margin: float, alpha: float) -> int:
    """The smallest number of further trials a side after which the interval would be narrower than the margin, or leave out no change at all.

    One more than the most where that would not do either.
    """
    before, after = _log_moments(base.values), _log_moments(new.values)
    effect, room = abs(after[0] - before[0]), math.log1p(margin)
    share = (before[1] + after[1]) ** 2 / (before[1] ** 2 + after[1] ** 2)
    counts = len(base.values), len(new.values)

    def settles(more: int) -> bool:
        ours, theirs = counts[0] + more, counts[1] + more
        error = math.sqrt(before[1] / ours + after[1] / theirs)
        reach = whole_t_quantile(alpha, max(1, int(share * (min(ours, theirs) - 1)))) * error
        return effect > reach or effect + reach < room

    low, high = 1, MOST_MORE + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if settles(middle) else (middle + 1, high)
    return low


class Mean(Struct, frozen=True):
    """The geometric mean of effects over cases, and between what it lies; without limits for fewer than two cases."""

    cases: int
    ratio: float
    low: float
    high: float


def mean_effect(ratios: Sequence[float], alpha: float) -> Mean:
    """The geometric mean of what the cases of a table have become, with Student's interval over the cases."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Mean(len(logs), _exp(mean), 0.0, math.inf)
    _, variance = _log_moments(ratios)
    reach = whole_t_quantile(alpha, len(logs) - 1) * math.sqrt(variance / len(logs))
    return Mean(len(logs), _exp(mean), _exp(mean - reach), _exp(mean + reach))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
