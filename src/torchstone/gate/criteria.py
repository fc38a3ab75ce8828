"""Comparison criteria: which metrics are compared, how large a change has to be to matter, and how certain."""

from __future__ import annotations

from msgspec import Struct

from torchstone.core.records import Case, Measurement, Rule, matches_metric
from torchstone.core.vocabulary import METRICS
from torchstone.gate.policy import Policy
from torchstone.gate.rules import RuleBook, is_our_ratio, margin_of

USUAL_MARGIN = 0.02
USUAL_ALPHA = 0.01
_WAYS = {"ratio_floor": "higher", "ratio_ceiling": "lower"}


class Standard(Struct, frozen=True):
    """What a metric is held to: whether it is compared at all, which way is better, the gate's rule, the margin asked for by name, and by how much a count may be off."""

    is_wanted: bool
    better: str
    rule: Rule | None
    margin: float | None
    tolerance: float


class Family(Struct, frozen=True, gc=False):
    """How one comparison stands among all that are judged together: its adjusted p-value, and the level at which one more change would be certain."""

    adjusted: float | None
    level: float


class Criteria(Struct, frozen=True, gc=False):
    """What one comparison is judged by.

    ``margin`` is how large a change has to be to matter, as a share; ``alpha`` is the significance level. ``tolerance`` is how far a count may be off, in its own unit.
    Without a ``family`` the comparison is judged by itself.
    """

    margin: float
    alpha: float = USUAL_ALPHA
    better: str = ""
    tolerance: float = 0.0
    family: Family | None = None


class CompareSettings(Struct, frozen=True):
    """What is compared, and by which criteria. ``margin`` is for all metrics that may scatter, ``margins`` for those that match a pattern; ``better`` says which direction is better."""

    policy: Policy
    rules: RuleBook
    alpha: float = USUAL_ALPHA
    margin: float | None = None
    margins: tuple[tuple[str, float], ...] = ()
    metrics: tuple[str, ...] = ()
    better: tuple[tuple[str, str], ...] = ()
    compare_anyway: bool = False
    cross_environment: bool = False

    def standard_of(self, metric: str, case: Case) -> Standard:
        """What a metric of a case is held to."""
        rule = self.rules.find(metric, case)
        named = (margin for pattern, margin in reversed(self.margins) if matches_metric(pattern, metric))
        margin = next(named, None)
        # By how much a count may be off is in its own unit, unless a margin is asked for by name.
        tolerance = rule.tolerance if rule is not None and rule.kind == "count" and margin is None else 0.0
        return Standard(self.wants(metric, case), self.better_of(metric, case), rule, margin, tolerance)

    def criteria_of(self, standard: Standard, base: Measurement) -> Criteria:
        """What a comparison with this measurement of the base is judged by."""
        return Criteria(self.margin_of(standard, base), self.alpha, standard.better, standard.tolerance)

    def margin_of(self, standard: Standard, base: Measurement) -> float:
        """How much of a change matters: as asked, or as the gate would have it. Counts that capture makes may not change at all unless asked by name."""
        if standard.margin is not None:
            return standard.margin
        rule, rises = standard.rule, standard.better == "higher"
        if rule is not None and rule.kind == "count":
            return _both_ways(rule.tolerance / base.value, rises=rises) if base.value > 0 else 0.0
        return self.margin if self.margin is not None else _margin_of_rule(rule, base, rises=rises)

    def better_of(self, metric: str, case: Case) -> str:
        """Which way is better: as asked, as the gate's rule has it, or as the metric is known; empty where nothing says so."""
        for pattern, better in reversed(self.better):
            if matches_metric(pattern, metric):
                return better
        rule = self.rules.find(metric, case)
        if rule is not None and (better := _WAYS.get(rule.kind) or rule.better):
            return better
        return METRICS[metric].better if metric in METRICS else ""

    def wants(self, metric: str, case: Case) -> bool:
        """Whether a metric is compared: as asked; else what the gate would judge, less what follows from other metrics."""
        if self.metrics:
            return any(matches_metric(pattern, metric) for pattern in self.metrics)
        follows = metric.endswith("_saved") and metric in METRICS
        return not follows and not self.rules.ignores(metric, case)


def _both_ways(share: float, *, rises: bool) -> float:
    """A share that a number may be off for the worse, as a margin, which is one of ratios: to fall by a fifth takes as much as to rise by a quarter."""
    return 1 / (1 - share) - 1 if rises and 0 < share < 1 else share


def _margin_of_rule(rule: Rule | None, base: Measurement, *, rises: bool) -> float:
    """What a rule allows. Our own ratios for times are wide, for a gate that has one value a side; a comparison of trials need not be."""
    stated = USUAL_MARGIN if base.margin is None else _both_ways(base.margin, rises=rises)
    if rule is None or is_our_ratio(rule) or rule.usual:
        return stated
    match rule.kind:
        case "ratio_floor" if rule.ratio:
            return max(0.0, 1 / rule.ratio - 1)
        case "ratio_ceiling" if rule.ratio:
            return max(0.0, rule.ratio - 1)
        case "margin":
            return _both_ways(margin_of(rule, base.margin), rises=rises)
        case _:
            return stated
