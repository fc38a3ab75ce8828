"""Weigh the evidence of two sides: effect, interval and certainty, without a judgement. Every command uses this module."""

from __future__ import annotations

import math

from torchstone.analyze.evidence import COUNT, REPEATING, TRIALS, VALUE, Comparison, Evidence
from torchstone.core.records import Measurement
from torchstone.gate.comparable import depends_on_environment, may_repeat


def weigh(base: Evidence, new: Evidence, *, alpha: float = 0.0, obstacle: str = "") -> Comparison:
    """Compare two sides with the method for their kind of evidence.

    ``alpha`` is 1 minus the confidence level of the interval; single values have no interval. ``obstacle`` says why the sides cannot be compared; then
    there is no effect and no interval.
    """
    if obstacle:
        return Comparison(base, new, obstacle=obstacle)
    if base.kind == new.kind == VALUE:
        return _weigh_values(base, new)
    from torchstone.analyze.ratio_interval import compare_pairs, compare_trials  # noqa: PLC0415  (start-up: most checks compare single values)

    if base.trials and new.trials:
        return compare_pairs(base, new, (base.trials, new.trials), alpha=alpha)
    kinds = {base.kind, new.kind}
    return compare_trials(base, new, alpha=alpha, counted=COUNT in kinds, repeats=REPEATING in kinds)


def _weigh_values(base: Evidence, new: Evidence) -> Comparison:
    """Compare single values: a ratio without an interval, because their spread is unknown. A rule that needs no baseline has no base value."""
    before, after = base.values[0] if base.values else 0, new.values[0]
    ratio = after / before if before else 1.0 if after == before else math.nan
    return Comparison(base, new, VALUE, ratio)


NO_VALUE = Evidence((), 0, VALUE)


def value_of(measurement: Measurement | None) -> Evidence:
    """Return the single value of a measurement as evidence, to be judged by a rule with limits."""
    if measurement is None:
        return NO_VALUE
    return Evidence((measurement.value,), len(measurement.samples), VALUE)


def evidence_of(base: Measurement, new: Measurement) -> tuple[Evidence, Evidence]:
    """Return the trials of two measurements of one metric as evidence, in pairs if they took turns."""
    metric = new.metric
    if are_paired(base, new):
        return _in_pairs(base), _in_pairs(new)
    kind = TRIALS
    if not depends_on_environment(metric):
        kind = COUNT
    elif may_repeat(metric, base, new):
        kind = REPEATING
    return (
        Evidence(base.trial_values, len(base.samples), kind),
        Evidence(new.trial_values, len(new.samples), kind),
    )


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
