"""Compare two sets of trials: the ratio new / base with its confidence interval.

Standard library only.

The independent unit is the trial, which is one process. Samples within a process share its addresses, its
core and its moment; a thousand of them say no more about the next process than a few do. So each trial
contributes one number.

Costs are compared as logarithms, because they multiply rather than add. Trials that took turns are compared
in pairs (``analyze.sequential``), others with Welch's t-test, which allows different variances (Welch, "The
generalization of Student's problem when several different population variances are involved", Biometrika 34,
1947). If one side has far fewer trials, its degrees of freedom are limited further: otherwise a few trials
that agree by luck would count as much as the many of the other side (Hsu, "Contribution to the theory of
Student's t-test as applied to the problem of two samples", Statistical Research Memoirs 2, 1938). Values
without variation are compared exactly.

A single value has no variation of its own. Where its spread is known or assumed (``ProcessSpread``), that is its
variance: what its process shows itself, and the usual difference between processes. The interval takes an assumed
spread for granted; the p-value does not, so that a change is not called certain by an assumption.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from msgspec import Struct, structs

from torchstone.analyze.evidence import EXACT, MOST_MORE, PAIRED, WELCH, Comparison, Evidence, ProcessSpread
from torchstone.analyze.sequential import PairedTest
from torchstone.analyze.student_t import t_quantile, two_sided_p, whole_t_quantile

_MOST_FREEDOM = 1e4  # the normal distribution, to four digits
_LEAST_MARGIN = 1e-9  # the paired test needs a margin
ASSUMED_FREEDOM = 4.0
"""What an assumed spread is worth as evidence of a change: as much as five processes that showed it."""

ONE_TRIAL = (
    "one trial {side} cannot tell a change from the difference between two processes; "
    "measure more: torchstone run --trials 5, or use torchstone ab"
)
ONE_PAIR = "one pair says nothing: it takes more to tell a change from the difference between two processes"
NO_SPREAD = (
    "all trials of {side} have exactly the same value, which real times never have: was each trial measured?"
)


Trials = tuple[Sequence[Sequence[float]], Sequence[Sequence[float]]]


def compare_trials(
    base: Evidence, new: Evidence, *, alpha: float, counted: bool = False, repeats: bool = False
) -> Comparison:
    """Compare independent trials.

    ``counted`` marks counts, for which one trial is enough; ``repeats`` marks trials that may agree exactly.
    """
    values = (*base.values, *new.values)
    if not all(map(math.isfinite, values)):
        return Comparison(base, new, obstacle="a value is not finite", wrong=True)
    least = min(values)
    if least < 0:
        return Comparison(base, new, obstacle="a ratio needs positive values, and one is negative")
    if counted and not (_varies(base) and _varies(new) and least > 0):
        exact = _compare_exactly(base, new)
        if not exact.low <= 1 <= exact.high or not _can_be_tested(base, new):
            return exact
    if least == 0:
        return Comparison(base, new, obstacle="a ratio needs positive values, and one is 0")
    if why := _too_thin(base, new, repeats=counted or repeats):
        return Comparison(base, new, ratio=new.middle / base.middle, obstacle=why)
    return _compare_by_welch(base, new, alpha) if _can_be_tested(base, new) else _compare_exactly(base, new)


def compare_pairs(base: Evidence, new: Evidence, trials: Trials, *, alpha: float) -> Comparison:
    """Compare trials in pairs that took turns; ``trials`` holds the samples of each, by side."""
    if not all(0 < value < math.inf for side in trials for samples in side for value in samples):
        return Comparison(base, new, obstacle="a ratio needs finite positive values", wrong=True)
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
    """Return the log ratio of a pair: the median over exchanges, in which each side had a turn."""
    logs = sorted(math.log(after) - math.log(before) for before, after in zip(base, new, strict=True))
    middle = len(logs) // 2
    return logs[middle] if len(logs) % 2 else (logs[middle - 1] + logs[middle]) / 2


def _varies(side: Evidence) -> bool:
    """Return whether trials differ by more than floating-point precision."""
    low, high = min(side.values), max(side.values)
    return low < high and (low <= 0 or math.log(low) < math.log(high))


def _can_be_tested(base: Evidence, new: Evidence) -> bool:
    """Return whether there is variation to test a change against."""
    if _is_short(base) or _is_short(new) or min(*base.values, *new.values) <= 0:
        return False
    return _varies(base) or _varies(new) or len(base.values) < 2 or len(new.values) < 2


def _is_short(side: Evidence) -> bool:
    """Return whether nothing is known about the variation of a side."""
    return len(side.values) < 2 and side.spread is None


def _compare_exactly(base: Evidence, new: Evidence) -> Comparison:
    """Return the range of ratios of any two trials: a single number if neither side varies."""
    ratio = _ratio(new.middle, base.middle)
    low, high = (
        _ratio(min(new.values), max(base.values)),
        _ratio(max(new.values), min(base.values)),
    )
    return Comparison(base, new, EXACT, ratio, low, high)


def _ratio(new: float, base: float) -> float:
    """Return new / base; 1 if both are 0, infinite if only the base is."""
    if base == 0:
        return 1.0 if new == 0 else math.inf
    return new / base


def _too_thin(base: Evidence, new: Evidence, *, repeats: bool) -> str:
    """Return why there are too few trials for a test; empty if there are enough."""
    sides = ("BASE", base), ("NEW", new)
    short = [name for name, side in sides if _is_short(side)]
    if short:
        return ONE_TRIAL.format(side="a side" if len(short) == 2 else f"of {short[0]}")
    flat = [] if repeats else [name for name, side in sides if len(side.values) > 1 and not _varies(side)]
    return NO_SPREAD.format(side=" and ".join(flat)) if flat else ""


class _Estimate(Struct, frozen=True, gc=False):
    """The mean of a side's logarithms, the variance of that mean, and its degrees of freedom.

    ``is_single`` says that the variance is not from trials of this side, ``is_assumed`` that nothing showed it.
    """

    mean: float
    variance: float
    freedom: float
    is_single: bool = False
    is_assumed: bool = False


def _estimate(side: Evidence) -> _Estimate:
    """Estimate a side from its trials, or from its one value and the spread that is known or assumed."""
    count = len(side.values)
    if count < 2:
        known = side.spread or ProcessSpread()
        freedom = min(known.freedom, _MOST_FREEDOM)
        return _Estimate(math.log(side.values[0]), known.variance, freedom, True, known.is_assumed)
    mean, variance = _log_moments(side.values)
    return _Estimate(mean, variance / count, count - 1)


def _compare_by_welch(base: Evidence, new: Evidence, alpha: float) -> Comparison:
    before, after = _estimate(base), _estimate(new)
    effect, error = after.mean - before.mean, math.sqrt(before.variance + after.variance)
    if error == 0:
        return _compare_exactly(base, new)
    freedom = _joint_freedom(before, after)
    reach = t_quantile(alpha, freedom, _near_quantile(alpha, freedom)) * error
    return Comparison(
        base,
        new,
        WELCH,
        _exp(effect),
        _exp(effect - reach),
        _exp(effect + reach),
        two_sided_p(effect / error, _joint_freedom(_doubt(before), _doubt(after))),
    )


def _doubt(side: _Estimate) -> _Estimate:
    """Return an estimate with what its spread is worth as evidence of a change."""
    return structs.replace(side, freedom=ASSUMED_FREEDOM) if side.is_assumed else side


def _joint_freedom(before: _Estimate, after: _Estimate) -> float:
    """Return Welch's degrees of freedom of a difference, limited if one side has far fewer trials."""
    parts = before.variance**2 / before.freedom + after.variance**2 / after.freedom
    freedom = (before.variance + after.variance) ** 2 / parts
    if before.is_single or after.is_single:
        return min(freedom, _MOST_FREEDOM)
    return min(freedom, _most_freedom(before.freedom, after.freedom))


def interval_of_one(side: Evidence, alpha: float) -> tuple[float, float]:
    """Return the confidence interval of one side's value; the value itself if nothing is known about its variation."""
    if _is_short(side) or min(side.values) <= 0:
        return min(side.values), max(side.values)
    known = _estimate(side)
    reach = t_quantile(alpha, known.freedom) * math.sqrt(known.variance)
    return _exp(known.mean - reach), _exp(known.mean + reach)


def _near_quantile(alpha: float, freedom: float) -> float:
    """Approximate the t quantile by interpolation over 1 / freedom between whole numbers."""
    below = max(1, int(freedom))
    low, high = whole_t_quantile(alpha, below), whole_t_quantile(alpha, below + 1)
    return low + (high - low) * (below + 1) * max(0.0, 1 - below / freedom)


def _most_freedom(ours: float, theirs: float) -> float:
    """Limit the degrees of freedom of two sides with these: all for equal ones, close to the smaller if very unequal."""
    fewer, more = sorted((ours, theirs))
    return fewer * (1 + (fewer + 1) / (more + 1))


def _log_moments(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and variance of the logarithms."""
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    return mean, math.fsum([(log - mean) ** 2 for log in logs]) / (len(logs) - 1)


def more_trials(
    found: Comparison,
    *,
    margin: float,
    alpha: float,
    certain_at: float | None = None,
    of_both: bool = True,
    beyond: bool = False,
) -> int | None:
    """Estimate how many more trials per side give a certain answer if they continue as before.

    Certain means ``same`` at ``alpha``, or a change at ``certain_at``, which is stricter among many comparisons; ``beyond`` says that such a change has
    to be larger than the margin. ``of_both`` adds trials to both sides, else only to the new one. Return ``MOST_MORE`` + 1 if even that many are too few;
    None if the variation is unknown or no more are needed.
    """
    if certain_at is None and _is_settled(found, margin):
        return None
    if found.method == PAIRED:
        return _more_pairs(found.logs, margin, alpha, certain_at or alpha)
    if found.method == WELCH:
        room = math.log1p(margin)
        levels = alpha, certain_at or alpha
        sides = found.base, found.new
        return _more_trials(sides, room, room if beyond else 0.0, levels, of_both=of_both)
    return None


def _is_settled(found: Comparison, margin: float) -> bool:
    within = 1 / (1 + margin) < found.low and found.high < 1 + margin
    return within or not found.low <= 1 <= found.high


def _more_pairs(logs: Sequence[float], margin: float, alpha: float, certain_at: float) -> int:
    """Return the smallest number of further pairs that decide, repeating those seen in the same order."""
    margin = max(margin, _LEAST_MARGIN)
    same, changed = PairedTest(margin, alpha), PairedTest(margin, certain_at)
    ahead = itertools.islice(itertools.cycle(logs), len(logs) + MOST_MORE)
    for number, log in enumerate(ahead, 1):
        same.add(log)
        changed.add(log)
        if number > len(logs) and (same.decision() == "same" or changed.decision()):
            return number - len(logs)
    return MOST_MORE + 1


def _more_trials(
    sides: tuple[Evidence, Evidence],
    room: float,
    least: float,
    levels: tuple[float, float],
    *,
    of_both: bool,
) -> int:
    """Return the smallest number of further trials per side whose interval lies within ``room``, or at a distance of more than ``least`` from no change."""
    before, after = map(_estimate, sides)
    effect = abs(after.mean - before.mean)

    def settles(more: int) -> bool:
        ahead = _ahead(sides[0], before, more) if of_both else before, _ahead(sides[1], after, more)
        error = math.sqrt(ahead[0].variance + ahead[1].variance)
        within, certain = (
            whole_t_quantile(level, max(1, int(_joint_freedom(*found))) if error else 1) * error
            for level, found in zip(levels, (ahead, tuple(map(_doubt, ahead))), strict=True)
        )
        return effect - certain > least or effect + within < room

    low, high = 1, MOST_MORE + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if settles(middle) else (middle + 1, high)
    return low


def _ahead(side: Evidence, known: _Estimate, more: int) -> _Estimate:
    """Return what a side would be after more trials that vary like those so far."""
    count = len(side.values)
    return _Estimate(known.mean, known.variance * count / (count + more), count + more - 1)


class Mean(Struct, frozen=True):
    """Geometric mean of ratios over cases, with its confidence interval; unbounded for fewer than two cases."""

    cases: int
    ratio: float
    low: float
    high: float


def mean_effect(ratios: Sequence[float], alpha: float) -> Mean:
    """Return the geometric mean of the cases' ratios, with Student's t interval over the cases."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Mean(len(logs), _exp(mean), 0.0, math.inf)
    _, variance = _log_moments(ratios)
    reach = whole_t_quantile(alpha, len(logs) - 1) * math.sqrt(variance / len(logs))
    return Mean(len(logs), _exp(mean), _exp(mean - reach), _exp(mean + reach))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
