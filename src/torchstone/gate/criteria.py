"""Comparison criteria: which metrics are compared, how large a change has to be to matter, and how certain."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from torchstone.core.records import Case, Measurement, Reading, Rule, matches_metric
from torchstone.core.run_settings import Settings
from torchstone.core.vocabulary import DEVICE_COUNTERPARTS, METRICS, SAVED, SCENARIOS
from torchstone.gate.blocking_policy import Policy
from torchstone.gate.defaults import DEFAULTS
from torchstone.gate.rules import RuleBook, is_our_ratio, margin_of, use_own_margin

SAVINGS = METRICS.keys() & {f"{scenario}_{SAVED[0]}" for scenario in SCENARIOS}
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


class HostBound(Struct, frozen=True, gc=False):
    """A wall time that measures the host rather than the device. ``decided_by`` is the device's metric that both sides have instead; empty if one lacks it."""

    decided_by: str = ""

    @property
    def detail(self) -> str:
        """Return why the wall time is not judged, and what is instead."""
        if self.decided_by:
            return f"host-bound: this wall time measures the host; {self.decided_by} decides"
        return "host-bound: this wall time measures the host, and not both sides have the device's own time"


class Criteria(Struct, frozen=True, gc=False):
    """Criteria for one comparison.

    ``margin`` is the smallest relevant change, as a share; ``alpha`` is the significance level. ``tolerance`` is the allowed difference of a count, in
    its own unit. ``is_share`` says that the margin is a share of the base in both directions (1 - margin to 1 + margin), not a factor (1 / (1 + margin) to
    1 + margin). Without a ``family`` the comparison is judged by itself; ``is_alone`` says that it stays so, because it was decided while it was measured.
    ``host_bound`` is set if the number is a wall time that the host decides.
    ``holds_noise`` says that the margin already contains the noise between processes, so that only what is certainly beyond it is a change.
    """

    margin: float
    alpha: float = DEFAULTS.alpha
    better: str = ""
    tolerance: float = 0.0
    family: Family | None = None
    is_share: bool = False
    is_alone: bool = False
    host_bound: HostBound | None = None
    holds_noise: bool = False

    @property
    def share(self) -> float:
        """Return the allowed worsening as a share of the base, as people state it: 5 % for at least 0.95 times."""
        return 1 - self.limits[0] if self.better == "higher" else self.margin

    @property
    def limits(self) -> tuple[float, float]:
        """Return the smallest and the largest ratio within the margin."""
        return (1 - self.margin if self.is_share else 1 / (1 + self.margin)), 1 + self.margin


class CompareSettings(Struct, frozen=True):
    """Criteria of all comparisons. ``margin`` applies to all metrics with noise, ``margins`` to those that match a pattern; ``better`` sets the better direction.

    ``alpha`` is None unless it was asked for. ``looks`` is how often the results were judged while they were measured: each look has its share of alpha.
    """

    policy: Policy
    rules: RuleBook
    alpha: float | None = None
    margin: float | None = None
    margins: tuple[tuple[str, float], ...] = ()
    metrics: tuple[str, ...] = ()
    better: tuple[tuple[str, str], ...] = ()
    compare_anyway: bool = False
    cross_environment: bool = False
    looks: int = 1

    @property
    def level(self) -> float:
        """Return the significance level of one look."""
        return (DEFAULTS.alpha if self.alpha is None else self.alpha) / self.looks

    def criteria_of_metric(self, metric: str, case: Case) -> MetricCriteria:
        """Return the criteria for a metric of a case."""
        rule = self.rules.find(metric, case)
        named = (margin for pattern, margin in reversed(self.margins) if matches_metric(pattern, metric))
        margin = next(named, None)
        # A count has a tolerance in its own unit, unless a margin is set for it by name.
        tolerance = rule.tolerance if rule is not None and rule.kind == "count" and margin is None else 0.0
        is_compared, better = self.compares(metric, case), self.better_of(metric, case)
        return MetricCriteria(is_compared, better, rule, margin, tolerance)

    def criteria_of(
        self, metric: MetricCriteria, base: Measurement, recorded: Criteria | None = None
    ) -> Criteria:
        """Return the criteria for a comparison with a measurement of the base: as asked for, as recorded, or as the rule says."""
        is_told = metric.margin is not None or self.margin is not None or self.alpha is not None
        if recorded and not is_told and (metric.rule is None or is_our_ratio(metric.rule)):
            return recorded
        rule, better, alpha = metric.rule, metric.better, self.level
        if metric.margin is not None:
            return Criteria(metric.margin, alpha, better)
        if rule is not None and rule.kind == "count":
            share = rule.tolerance / base.value if base.value > 0 else 0.0
            return Criteria(_as_factor(share, rises=better == "higher"), alpha, better, metric.tolerance)
        if self.margin is not None:
            return Criteria(self.margin, alpha, better)
        own = use_own_margin(rule, base.margin)
        is_own = base.margin is not None and (own is not rule or _leaves_margin_open(rule))
        if own is not None and own.kind == "margin":
            margin = margin_of(own, base.margin)
            return Criteria(margin, alpha, better or "lower", is_share=True, holds_noise=is_own)
        return Criteria(_margin_of_ratio(own), alpha, better, holds_noise=is_own)

    def better_of(self, metric: str, case: Case) -> str:
        """Return the better direction: as set, as the rule says, or as the metric is defined; empty if unknown."""
        for pattern, better in reversed(self.better):
            if matches_metric(pattern, metric):
                return better
        rule = self.rules.find(metric, case)
        if rule is not None and (better := _BETTER_OF_RULE.get(rule.kind) or rule.better):
            return better
        return self.rules.better_of(metric, case)

    def compares(self, metric: str, case: Case) -> bool:
        """Return whether a metric is compared: as set; else if a check would judge it, and it does not follow from other metrics."""
        if self.metrics:
            return any(matches_metric(pattern, metric) for pattern in self.metrics)
        return metric not in SAVINGS and not self.rules.ignores(metric, case)


def looks_of(results: Iterable[Reading]) -> int:
    """Return how often results may have been judged while they were measured; once, unless a file says otherwise."""
    return max((reading.run.settings.looks or 1 for reading in results), default=1)


def _leaves_margin_open(rule: Rule | None) -> bool:
    """Return whether a rule takes its margin from the baseline row."""
    return rule is not None and rule.kind == "margin" and rule.margin is None


def _as_factor(share: float, *, rises: bool) -> float:
    """Convert an allowed worsening, as a share, to a margin on ratios: a fall by a fifth is as much as a rise by a quarter."""
    return 1 / (1 - share) - 1 if rises and 0 < share < 1 else share


def _margin_of_ratio(rule: Rule | None) -> float:
    """Return the margin that a rule about a ratio allows; the usual margin without such a rule."""
    if rule is None or not rule.ratio or rule.kind not in _BETTER_OF_RULE:
        return DEFAULTS.no_rule_margin
    return max(0.0, 1 / rule.ratio - 1 if rule.kind == "ratio_floor" else rule.ratio - 1)


def criteria_of_run(settings: Settings, metric: str) -> Criteria | None:
    """Return the criteria by which 'torchstone ab' judged this metric, as its run files state them; None for other runs and metrics."""
    stated = settings.pairing
    if stated is None or stated.margin is None or stated.alpha is None:
        return None
    if metric not in {
        stated.metric,
        DEVICE_COUNTERPARTS.get(stated.metric),
    }:  # a latency may be the device's own
        return None
    better = stated.better or (METRICS[metric].better if metric in METRICS else "")
    return Criteria(stated.margin, stated.alpha, better, is_alone=True)
