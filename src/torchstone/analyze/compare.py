"""Two sets of trials -> how many times the base the new is, and between what that lies; no judgement. Standard library only.

The independent unit is the trial, a process: samples of one process are alike for reasons that have nothing to do with what is compared (its addresses, its core, its
minute), and a thousand of them say no more about the next process than a few do. So one number a trial enters, and how many samples it stands for is only told.

Costs multiply rather than add, so everything is done on logarithms. Trials that took turns are compared in pairs (``analyze.sequential``); others by
Welch's t-test, which lets the two sides scatter differently (Welch, "The generalization of Student's problem when several different population variances are involved", Biometrika
34, 1947). Where one side has far fewer trials, it has fewer degrees of freedom than Welch's: else a few trials that agree by luck would count for as much as the many of the
other side (Hsu, "Contribution to the theory of Student's t-test as applied to the problem of two samples", Statistical Research Memoirs 2, 1938). What does not scatter needs no statistics: it is compared as it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from msgspec import Struct

from torchstone.analyze.evidence import EXACT, PAIRED, WELCH, Comparison, Evidence
from torchstone.analyze.sequential import PairedTest
from torchstone.analyze.student import t_quantile, two_sided_p, whole_t_quantile

MOST_MORE = 200
"""More trials than this are not counted: nobody would measure them."""
_LEAST_MARGIN = 1e-9  # the paired test wants one; no effect is as near to 1 as this

ONE_TRIAL = (
    "one trial {side} cannot tell a change from the difference between two processes; "
    "measure more: torchstone run --trials 5, or use torchstone ab"
)
ONE_PAIR = "one pair says nothing: it takes more to tell a change from the difference between two processes"
NO_SPREAD = (
    "all trials of {side} have the very same value, which no time has: it was not measured, or not by trial"
)


Trials = tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]


def compare_trials(
    base: Evidence, new: Evidence, *, alpha: float, counted: bool = False, repeats: bool = False
) -> Comparison:
    """Compare trials that are independent of each other. ``counted`` says that the numbers are counts, of which one trial says all; ``repeats`` that several trials may well agree to the last digit."""
    values = (*base.values, *new.values)
    if not all(map(math.isfinite, values)):
        return Comparison(base, new, obstacle="a value that is not finite", wrong=True)
    least = min(values)
    if least < 0:
        return Comparison(base, new, obstacle="a ratio needs values above 0, and one is below")
    if counted and not (_varies(base) and _varies(new) and least > 0):
        exact = _compare_exactly(base, new)
        if not exact.low <= 1 <= exact.high or not _can_be_tested(base, new):
            return exact
    if least == 0:
        return Comparison(base, new, obstacle="a ratio needs values above 0, and one is 0")
    if why := _too_thin(base, new, repeats=counted or repeats):
        return Comparison(base, new, ratio=new.middle / base.middle, obstacle=why)
    return _compare_by_welch(base, new, alpha) if _can_be_tested(base, new) else _compare_exactly(base, new)


def compare_pairs(base: Evidence, new: Evidence, trials: Trials, *, alpha: float) -> Comparison:
    """Compare trials of which each has a partner on the other side, that it took turns with; ``trials`` are the samples of each, by side."""
    if not all(0 < value < math.inf for side in trials for samples in side for value in samples):
        return Comparison(base, new, obstacle="a ratio needs finite values above 0", wrong=True)
    logs = tuple(
        _pair_log_ratio(*samples)
        if len(samples[0]) == len(samples[1])
        else math.log(after) - math.log(before)
        for *samples, before, after in zip(*trials, base.values, new.values, strict=True)
    )
    if len(logs) < 2:
        return Comparison(base, new, ratio=new.middle / base.middle, obstacle=ONE_PAIR)
    test = PairedTest(_LEAST_MARGIN, alpha)
    for log in logs:
        test.add(log)
    effect = test.effect()
    return Comparison(base, new, PAIRED, effect.ratio, effect.low, effect.high, test.p_value, logs)


def _pair_log_ratio(base: Sequence[float], new: Sequence[float]) -> float:
    """What a pair says: the median over exchanges, in each of which both had a turn."""
    logs = sorted(math.log(after) - math.log(before) for before, after in zip(base, new, strict=True))
    middle = len(logs) // 2
    return logs[middle] if len(logs) % 2 else (logs[middle - 1] + logs[middle]) / 2


def _varies(side: Evidence) -> bool:
    """Whether trials differ, and by more than logarithms have digits for."""
    low, high = min(side.values), max(side.values)
    return low < high and (low <= 0 or math.log(low) < math.log(high))


def _can_be_tested(base: Evidence, new: Evidence) -> bool:
    """Whether there is a spread to hold a change against."""
    if len(base.values) < 2 or len(new.values) < 2 or min(*base.values, *new.values) <= 0:
        return False
    return _varies(base) or _varies(new)


def _compare_exactly(base: Evidence, new: Evidence) -> Comparison:
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


def _too_thin(base: Evidence, new: Evidence, *, repeats: bool) -> str:
    """Why there are too few trials to tell anything from; empty if there are enough."""
    sides = ("BASE", base), ("NEW", new)
    short = [name for name, side in sides if len(side.values) < 2]
    if short:
        return ONE_TRIAL.format(side="a side" if len(short) == 2 else f"of {short[0]}")
    flat = [] if repeats else [name for name, side in sides if not _varies(side)]
    return NO_SPREAD.format(side=" and ".join(flat)) if flat else ""


def _compare_by_welch(base: Evidence, new: Evidence, alpha: float) -> Comparison:
    before, after = _log_moments(base.values), _log_moments(new.values)
    effect = after[0] - before[0]
    parts = before[1] / len(base.values), after[1] / len(new.values)
    error = math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / (
        parts[0] ** 2 / (len(base.values) - 1) + parts[1] ** 2 / (len(new.values) - 1)
    )
    freedom = min(freedom, _most_freedom(len(base.values), len(new.values)))
    reach = t_quantile(alpha, freedom, _near_quantile(alpha, freedom)) * error
    return Comparison(
        base,
        new,
        WELCH,
        _exp(effect),
        _exp(effect - reach),
        _exp(effect + reach),
        two_sided_p(effect / error, freedom),
    )


def _near_quantile(alpha: float, freedom: float) -> float:
    """About the t quantile: interpolated, over 1 / freedom, between those of the whole numbers around it."""
    below = max(1, int(freedom))
    low, high = whole_t_quantile(alpha, below), whole_t_quantile(alpha, below + 1)
    return low + (high - low) * (below + 1) * max(0.0, 1 - below / freedom)


def _most_freedom(ours: int, theirs: int) -> float:
    """Degrees of freedom of two sides at most: all of them if there are equally many trials, hardly more than the smaller side's own if it is far smaller."""
    fewer, more = sorted((ours, theirs))
    return (fewer - 1) * (1 + fewer / more)


def _log_moments(values: Sequence[float]) -> tuple[float, float]:
    """Mean and variance of the logarithms."""
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    return mean, math.fsum([(log - mean) ** 2 for log in logs]) / (len(logs) - 1)


def more_trials(
    found: Comparison, *, margin: float, alpha: float, certain_at: float | None = None
) -> int | None:
    """About how many more trials a side a certain answer takes, if they go on as before: ``same`` at ``alpha``, or a change at ``certain_at``, which is stricter among many comparisons.

    One more than ``MOST_MORE`` where that would not do either; None where nothing says how trials scatter, or where it takes no more.
    """
    if certain_at is None and _is_settled(found, margin):
        return None
    if found.method == PAIRED:
        return _more_pairs(found.logs, margin, alpha, certain_at or alpha)
    if found.method == WELCH:
        return _more_trials(found.base, found.new, margin, alpha, certain_at or alpha)
    return None


def _is_settled(found: Comparison, margin: float) -> bool:
    within = 1 / (1 + margin) < found.low and found.high < 1 + margin
    return within or not found.low <= 1 <= found.high


def _more_pairs(logs: Sequence[float], margin: float, alpha: float, certain_at: float) -> int:
    """The smallest number of further pairs that decide, if those seen come again in the same order."""
    margin = max(margin, _LEAST_MARGIN)
    same, changed = PairedTest(margin, alpha), PairedTest(margin, certain_at)
    ahead = itertools.islice(itertools.cycle(logs), len(logs) + MOST_MORE)
    for number, log in enumerate(ahead, 1):
        same.add(log)
        changed.add(log)
        if number > len(logs) and (same.decision() == "same" or changed.decision()):
            return number - len(logs)
    return MOST_MORE + 1


def _more_trials(base: Evidence, new: Evidence, margin: float, alpha: float, certain_at: float) -> int:
    """The smallest number of further trials a side after which the interval would be narrower than the margin, or leave out no change at all."""
    before, after = _log_moments(base.values), _log_moments(new.values)
    effect, room = abs(after[0] - before[0]), math.log1p(margin)
    share = (before[1] + after[1]) ** 2 / (before[1] ** 2 + after[1] ** 2)
    counts = len(base.values), len(new.values)

    def settles(more: int) -> bool:
        ours, theirs = counts[0] + more, counts[1] + more
        error = math.sqrt(before[1] / ours + after[1] / theirs)
        freedom = max(1, int(min(share * (min(ours, theirs) - 1), _most_freedom(ours, theirs))))
        certain, within = (whole_t_quantile(level, freedom) * error for level in (certain_at, alpha))
        return effect > certain or effect + within < room

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
