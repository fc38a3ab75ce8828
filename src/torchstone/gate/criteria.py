"""Comparison criteria: which metrics are compared, how large a change has to be to matter, and how certain."""

from __future__ import annotations

from msgspec import Struct

from torchstone.core.records import Case, Measurement, Rule, matches_metric
from torchstone.core.vocabulary import METRICS, SAVED, SCENARIOS
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.rules import RuleBook, is_our_ratio, margin_of

USUAL_MARGIN = 0.02
USUAL_ALPHA = 0.01
_SAVINGS = METRICS.keys() & {f"{scenario}_{SAVED[0]}" for scenario in SCENARIOS}
"""Metrics that follow from the compile times of two scenarios."""
_BETTER_OF_RULE = {"ratio_floor": "higher", "ratio_ceiling": "lower"}


class MetricCriteria(Struct, frozen=True, gc=False):
    """Comparison criteria for one metric: whether it is compared, which direction is better, its rule, the margin set for it by name, and the tolerance of a count."""

    is_compared: bool
    better: str
    rule: Rule | None
    margin: float | None
    tolerance: float


class Family(Struct, frozen=True, gc=False):
    """A comparison among all that are judged together: its adjusted p-value, and the level at which one more change would be significant."""

    adjusted: float | None
    level: float


class Criteria(Struct, frozen=True, gc=False):
    """Criteria for one comparison.

    ``margin`` is the smallest relevant change, as a share; ``alpha`` is the significance level. ``tolerance`` is the allowed difference of a count, in
    its own unit. Without a ``family`` the comparison is judged by itself.
    """

    margin: float
    alpha: float = USUAL_ALPHA
    better: str = ""
    tolerance: float = 0.0
    family: Family | None = None


class CompareSettings(Struct, frozen=True):
    """Settings of a comparison. ``margin`` applies to all metrics with noise, ``margins`` to those that match a pattern; ``better`` sets the better direction."""

    policy: Policy
    rules: RuleBook
    alpha: float = USUAL_ALPHA
    margin: float | None = None
    margins: tuple[tuple[str, float], ...] = ()
    metrics: tuple[str, ...] = ()
    better: tuple[tuple[str, str], ...] = ()
    compare_anyway: bool = False
    cross_environment: bool = False

    def criteria_of_metric(self, metric: str, case: Case) -> MetricCriteria:
        """Return the criteria for a metric of a case."""
        rule = self.rules.find(metric, case)
        named = (margin for pattern, margin in reversed(self.margins) if matches_metric(pattern, metric))
        margin = next(named, None)
        # A count has a tolerance in its own unit, unless a margin is set for it by name.
        tolerance = rule.tolerance if rule is not None and rule.kind == "count" and margin is None else 0.0
        is_compared, better = self.compares(metric, case), self.better_of(metric, case)
        return MetricCriteria(is_compared, better, rule, margin, tolerance)

    def criteria_of(self, metric: MetricCriteria, base: Measurement) -> Criteria:
        """Return the criteria for a comparison with a measurement of the base."""
        return Criteria(self.margin_of(metric, base), self.alpha, metric.better, metric.tolerance)

    def margin_of(self, metric: MetricCriteria, base: Measurement) -> float:
        """Return the margin: as set, or as the rule says. Counts have only the tolerance of their rule, unless a margin is set by name."""
        if metric.margin is not None:
            return metric.margin
        rule, rises = metric.rule, metric.better == "higher"
        if rule is not None and rule.kind == "count":
            return _ratio_margin(rule.tolerance / base.value, rises=rises) if base.value > 0 else 0.0
        return self.margin if self.margin is not None else _margin_of_rule(rule, base, rises=rises)

    def better_of(self, metric: str, case: Case) -> str:
        """Return the better direction: as set, as the rule says, or as the metric is defined; empty if unknown."""
        for pattern, better in reversed(self.better):
            if matches_metric(pattern, metric):
                return better
        rule = self.rules.find(metric, case)
        if rule is not None and (better := _BETTER_OF_RULE.get(rule.kind) or rule.better):
            return better
        return METRICS[metric].better if metric in METRICS else ""

    def compares(self, metric: str, case: Case) -> bool:
        """Whether a metric is compared: as set; else if a check would judge it, and it does not follow from other metrics."""
        if self.metrics:
            return any(matches_metric(pattern, metric) for pattern in self.metrics)
        return metric not in _SAVINGS and not self.rules.ignores(metric, case)


def _ratio_margin(share: float, *, rises: bool) -> float:
    """Convert an allowed worsening, as a share, to a margin on ratios: a fall by a fifth is as much as a rise by a quarter."""
    return 1 / (1 - share) - 1 if rises and 0 < share < 1 else share


def _margin_of_rule(rule: Rule | None, base: Measurement, *, rises: bool) -> float:
    """Return the margin of a rule. Default ratios for times are ignored: they are wide because a check has one value per side; a comparison of trials need not be."""
    stated = USUAL_MARGIN if base.margin is None else _ratio_margin(base.margin, rises=rises)
    if rule is None or is_our_ratio(rule) or rule.usual:
        return stated
    match rule.kind:
        case "ratio_floor" if rule.ratio:
            return max(0.0, 1 / rule.ratio - 1)
        case "ratio_ceiling" if rule.ratio:
            return max(0.0, rule.ratio - 1)
        case "margin":
            return _ratio_margin(margin_of(rule, base.margin), rises=rises)
        case _:
            return stated
