"""Weigh the evidence of two sides: effect, interval and certainty, without a judgement.

Every command uses this module.
"""

from __future__ import annotations

import math

from msgspec import structs

from torchstone.analyze.evidence import (
    COUNT,
    EXACT,
    REPEATING,
    TRIALS,
    VALUE,
    Comparison,
    Evidence,
    ProcessSpread,
)
from torchstone.analyze.speedup_ratio import standard_error
from torchstone.analyze.student_t import spread_of
from torchstone.core.records import Measurement
from torchstone.gate.comparable import depends_on_environment, may_repeat
from torchstone.gate.criteria import SAVINGS
from torchstone.gate.defaults import noise_of

_NORMAL = {0.9: 1.645, 0.95: 1.96, 0.99: 2.576}
_ONE_IN_A_HUNDRED = 2.576  # standard deviations of normal noise: what a learned margin allows
_ONE_IN_TWENTY = 1.645
NO_INTERVAL = "the interval that it states is not made of two finite positive numbers, the smaller one first"


def weigh(
    base: Evidence, new: Evidence, *, alpha: float = 0.0, obstacle: str = "", comparable: bool = True
) -> Comparison:
    """Compare two sides with the method for their kind of evidence.

    ``alpha`` is 1 minus the confidence level of the interval; single values have no interval. ``obstacle`` says why the sides cannot be compared; then
    there is no effect and no interval; not ``comparable`` says that they were measured differently. Without a base, the interval is that of the new value itself.
    """
    if obstacle:
        return Comparison(base, new, obstacle=obstacle, comparable=comparable)
    if base.kind == new.kind == VALUE:
        return _weigh_values(base, new)
    if base.kind == new.kind == COUNT and len(base.values) == len(new.values) == 1 and _are_counts(base, new):
        return _weigh_counts(base, new)
    if has_no_interval(base) or has_no_interval(new):
        return Comparison(base, new, obstacle=NO_INTERVAL)
    from torchstone.analyze.ratio_interval import compare_pairs, compare_trials, interval_of_one  # noqa: PLC0415  (start-up: most checks compare single values)

    if not base.values:
        return Comparison(base, new, VALUE, math.nan, *interval_of_one(new, alpha))
    if base.trials and new.trials:
        return compare_pairs(base, new, (base.trials, new.trials), alpha=alpha)
    kinds = {base.kind, new.kind}
    return compare_trials(base, new, alpha=alpha, counted=COUNT in kinds, repeats=REPEATING in kinds)


def has_no_interval(side: Evidence) -> bool:
    """Return whether a side states an interval that is none: infinite, reversed, or not a number."""
    return side.spread is not None and math.isinf(side.spread.within)


def _weigh_values(base: Evidence, new: Evidence) -> Comparison:
    """Compare single values: a ratio without an interval, because their spread is unknown. A rule that needs no baseline has no base value."""
    before, after = base.values[0] if base.values else 0, new.values[0]
    ratio = after / before if before else 1.0 if after == before else math.nan
    return Comparison(base, new, VALUE, ratio)


def _are_counts(base: Evidence, new: Evidence) -> bool:
    """Return whether two single values are finite and not negative."""
    return 0 <= base.values[0] < math.inf and 0 <= new.values[0] < math.inf


def _weigh_counts(base: Evidence, new: Evidence) -> Comparison:
    """Compare two counts exactly; most tables have only these, and need no statistics."""
    before, after = base.values[0], new.values[0]
    ratio = after / before if before else 1.0 if after == before else math.inf
    return Comparison(base, new, EXACT, ratio, ratio, ratio)


NO_VALUE = Evidence((), 0, VALUE)


def value_of(measurement: Measurement | None) -> Evidence:
    """Return the single value of a measurement as evidence, to be judged by a rule with limits."""
    if measurement is None:
        return NO_VALUE
    return Evidence((measurement.value,), len(measurement.samples), VALUE)


def evidence_of(
    base: Measurement, new: Measurement, *, measured: bool = True, own_margin: bool = True
) -> tuple[Evidence, Evidence]:
    """Return two measurements of one metric as evidence: pairs if they took turns, counts, trials, or single values.

    ``measured`` says that torchstone measured one of the sides: then even a single number is that of one process, with the usual noise of its metric.
    Two single numbers of other tools are compared as they are. ``own_margin`` says that they are judged by the margin of the baseline row.
    """
    metric = new.metric
    if are_paired(base, new):
        return _in_pairs(base), _in_pairs(new)
    if not depends_on_environment(metric, new, base):
        if min(*base.samples, *new.samples) < 0:  # a benchmark reports it: such values have no logarithm
            return value_of(base), value_of(new)
        return _side(base, COUNT), _side(new, COUNT)
    single = len(base.trials) < 2 or len(new.trials) < 2
    noise = noise_of(metric, new, base)
    if metric in SAVINGS or (
        single and (noise is None or not (measured or _has_spread(base) or _has_spread(new)))
    ):
        return value_of(base), value_of(new)
    kind = REPEATING if may_repeat(metric, base, new) else TRIALS
    if base.margin is not None and not states_trials(base):
        return _by_margin(base, new, kind, holds_noise=own_margin)
    if noise is None:
        return _side(base, kind), _side(new, kind)
    return _side(base, kind, _noise_beside(new, noise)), _side(new, kind, _noise_beside(base, noise))


def _by_margin(
    base: Measurement, new: Measurement, kind: str, *, holds_noise: bool
) -> tuple[Evidence, Evidence]:
    """Return the evidence for an expected value that states a margin.

    Such a margin contains the difference between two processes, and the expected value is what it is. Where the margin judges (``holds_noise``), only the
    own spread of a single process counts; where another one does, it tells how much processes differ. Several trials show the difference themselves.
    """
    expected = Evidence(base.trial_values, len(base.samples), kind, spread=ProcessSpread())
    if len(new.trials) > 1:
        return expected, _side(new, kind)
    between = 0.0 if holds_noise else math.log1p(base.margin or 0.0) / _ONE_IN_A_HUNDRED
    spread = ProcessSpread(_own_error(new), between)
    if not spread.variance:
        return value_of(base), value_of(new)
    return expected, Evidence(new.trial_values, len(new.samples), kind, spread=spread)


def _side(measurement: Measurement, kind: str, noise: ProcessSpread | None = None) -> Evidence:
    """Return the trials of one side, with the noise that a single process does not show."""
    values = measurement.trial_values
    spread = None
    if noise is not None and len(values) == 1:
        spread = _stated_spread(measurement, noise) or structs.replace(noise, within=_own_error(measurement))
    return Evidence(values, len(measurement.samples), kind, spread=spread)


def _noise_beside(other: Measurement, usual: float) -> ProcessSpread:
    """Return the noise between processes for a single one: what the trials of the other side show, if that is clearly more than the usual noise.

    No usual noise means that the interval of a single process allows for it already.
    """
    shown, count = _shown_spread(other)
    if usual and count > 1 and (count - 1) * (shown / usual) ** 2 > _exceeded_by_chance(count - 1):
        return ProcessSpread(between=shown, freedom=count - 1)
    return ProcessSpread(between=usual)


def _shown_spread(measurement: Measurement) -> tuple[float, int]:
    """Return how much the trials of a measurement differ, or those that a baseline states, and how many they are."""
    if len(measurement.trials) > 1:
        return spread_of(measurement.trial_values) or 0.0, len(measurement.trials)
    details = measurement.details
    if details is None or not details.spread_trials or not details.spread:
        return 0.0, 0
    return math.log1p(details.spread), details.spread_trials


def _exceeded_by_chance(freedom: int) -> float:
    """Return what a sum of so many squares of normal noise exceeds once in twenty times (Wilson and Hilferty, 1931)."""
    part = 2 / (9 * freedom)
    return freedom * (1 - part + _ONE_IN_TWENTY * math.sqrt(part)) ** 3


def _stated_spread(measurement: Measurement, noise: ProcessSpread) -> ProcessSpread | None:
    """Return the spread of a mean of trials, of which a baseline states only how many there were and how they vary; None if it states none."""
    details = measurement.details
    if details is None or not details.spread_trials or details.spread_trials < 2:
        return None
    count = details.spread_trials
    if details.spread is None:
        return structs.replace(noise, between=noise.between / math.sqrt(count))
    return ProcessSpread(between=math.log1p(details.spread) / math.sqrt(count), freedom=count - 1)


def states_trials(measurement: Measurement) -> bool:
    """Return whether a measurement has several trials, or is the mean of several that a baseline states."""
    details = measurement.details
    return len(measurement.trials) > 1 or bool(details and details.spread_trials)


def _own_error(measurement: Measurement) -> float:
    """Return the standard error of the logarithm that one process shows by itself; 0 if it shows none."""
    details = measurement.details
    if details and details.interval:
        low, high = details.interval
        if not 0 < low <= high < math.inf:
            return math.inf
        width = _NORMAL.get(details.confidence or 0.95, 1.96)
        return (math.log(high) - math.log(low)) / 2 / width
    if len(measurement.samples) < 2:
        return 0.0
    return standard_error(measurement.samples)


def _has_spread(measurement: Measurement) -> bool:
    """Return whether a measurement has more than a single number."""
    details = measurement.details
    return len(measurement.samples) > 1 or bool(details and (details.interval or details.spread_trials))


def _in_pairs(measurement: Measurement) -> Evidence:
    return Evidence(measurement.trial_values, len(measurement.samples), TRIALS, measurement.trials)


def are_paired(base: Measurement, new: Measurement) -> bool:
    """Return whether the trials of two measurements took turns: both name the same session and have the same number of trials."""
    if not new.details or not base.details:
        return False
    session = new.details.pairs
    if not isinstance(session, str) or not session or session != base.details.pairs:
        return False
    return len(base.trials) == len(new.trials)
