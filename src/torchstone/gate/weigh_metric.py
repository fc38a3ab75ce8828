"""Weigh one metric of two outcomes, for ``check`` and ``compare``.

The result has what prevents a comparison, what was disturbed, the evidence, and the criteria.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, structs

from torchstone.analyze.evidence import VALUE, Comparison, Evidence
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.records import Case, Measurement, Outcome, Reading, Rule
from torchstone.core.run_settings import Settings
from torchstone.core.vocabulary import METRICS
from torchstone.gate.comparable import NOT_COMPARABLE, Comparability, EnvironmentGap, depends_on_environment
from torchstone.gate.criteria import CompareSettings, Criteria, MetricCriteria, criteria_of_run
from torchstone.gate.disturbance import find_host_bound, steady_part, tell_disturbances
from torchstone.gate.rules import SHARES
from torchstone.gate.weigh import are_paired, evidence_of, states_trials, value_of, weigh


class MeasuredSide(Struct, frozen=True, gc=False):
    """One side of a comparison: an outcome, one of its measurements, and whether torchstone measured it."""

    outcome: Outcome
    measurement: Measurement
    is_measured: bool = False


class MetricWeigher:
    """Weighs metrics by the same settings; remembers whether different environments held any back."""

    def __init__(self, settings: CompareSettings, comparability: Comparability) -> None:
        self._settings = settings
        self._comparability = comparability
        self._criteria: dict[str, MetricCriteria] = {}
        self._varies: dict[str, bool] = {}
        self._bare_criteria: dict[str, Criteria] = {}
        self.is_held_back = False
        self._recorded: Counter[tuple[float, float]] = Counter()

    def criteria_of(self, metric: str, case: Case) -> MetricCriteria:
        """Return the criteria for a metric; looked up once, unless its rule depends on the case."""
        found = self._criteria.get(metric)
        if found is None:
            found = self._settings.criteria_of_metric(metric, case)
            if not self._settings.rules.depends_on_case(metric):
                self._criteria[metric] = found
        return found

    def is_for_all_cases(self, metric: str) -> bool:
        """Return whether the criteria for a metric that was looked up are those of every case."""
        return metric in self._criteria

    def weigh(
        self,
        base: MeasuredSide,
        new: MeasuredSide,
        metric: MetricCriteria,
        gap: EnvironmentGap | None,
        settings: Settings | None = None,
    ) -> tuple[Comparison, Criteria]:
        """Return the comparison of one metric, and the criteria to judge it by. ``settings`` are those of the new side's file."""
        before, after = base.measurement, new.measurement
        if gap is None and self._are_bare(base, new):
            return self._weigh_bare(before, after, metric)
        paired = are_paired(before, after)
        recorded = criteria_of_run(settings, after.metric) if paired and settings else None
        criteria = self._settings.criteria_of(metric, before, recorded)
        if recorded is not None and criteria is recorded:
            self._recorded[recorded.margin, recorded.alpha] += 1
        if criteria.holds_noise and states_trials(before):
            criteria = structs.replace(criteria, holds_noise=False)
        # Trials that took turns on one machine differ only in what is compared.
        obstacle = self._obstacle(None if paired else gap, before, after)
        comparable = not obstacle
        if comparable and not paired:
            before, after, obstacle = _steady_parts(base, new)
        measured = base.is_measured or new.is_measured
        evidence = evidence_of(before, after, measured=measured, own_margin=criteria.holds_noise)
        if evidence[0].kind == evidence[1].kind == VALUE and not obstacle:
            obstacle = _no_share(metric.rule, *evidence)
        if not paired and (host_bound := find_host_bound(base.outcome, new.outcome, after.metric)):
            criteria = structs.replace(criteria, host_bound=host_bound)
        comparison = weigh(*evidence, alpha=criteria.alpha, obstacle=obstacle, comparable=comparable)
        return comparison, criteria

    def recorded_cautions(self) -> list[Caution]:
        """Return what to say about rows that were judged by the criteria of the session that measured them."""
        return [
            make_caution(CautionKind.RECORDED_CRITERIA, rows=rows, margin=100 * margin, alpha=100 * alpha)
            for (margin, alpha), rows in self._recorded.items()
        ]

    def _are_bare(self, base: MeasuredSide, new: MeasuredSide) -> bool:
        """Return whether both sides are single numbers of other tools, about which nothing else is said: large tables have only these."""
        if base.is_measured or new.is_measured or base.outcome.cautions or new.outcome.cautions:
            return False
        before, after = base.measurement, new.measurement
        if before.details or after.details or len(before.samples) != 1 or len(after.samples) != 1:
            return False
        metric = after.metric
        if metric not in self._varies:
            self._varies[metric] = metric in METRICS and depends_on_environment(metric)
        return self._varies[metric]

    def _weigh_bare(
        self, before: Measurement, after: Measurement, metric: MetricCriteria
    ) -> tuple[Comparison, Criteria]:
        """Compare two single numbers as they are."""
        name = after.metric
        if (criteria := self._bare_criteria.get(name)) is None:
            criteria = self._settings.criteria_of(metric, before)
            is_count = metric.rule is not None and metric.rule.kind == "count"  # it depends on the value
            if name in self._criteria and not is_count:
                self._bare_criteria[name] = criteria
        evidence = value_of(before), value_of(after)
        return weigh(*evidence, obstacle=_no_share(metric.rule, *evidence)), criteria

    def _obstacle(self, gap: EnvironmentGap | None, before: Measurement, after: Measurement) -> str:
        """Say why two measurements are not comparable; empty if they are."""
        why = self._comparability.obstacle(gap, after.metric, after, before)
        self.is_held_back = self.is_held_back or bool(gap and why == gap.why)
        why = why or self._mixed_methods(before) or self._mixed_methods(after)
        return f"{NOT_COMPARABLE}{why}" if why else ""

    def _mixed_methods(self, measurement: Measurement) -> str:
        """Say how the trials of one side were measured differently; different counters matter even with --compare-anyway."""
        mixed = measurement.details.mixed if measurement.details else None
        for key, why in (mixed or {}).items():
            if key == "counter" or not self._settings.compare_anyway:
                return why
        return ""


def _steady_parts(base: MeasuredSide, new: MeasuredSide) -> tuple[Measurement, Measurement, str]:
    """Return the undisturbed trials of both sides; say what disturbed a side that has none."""
    parts, found = list[Measurement](), dict[str, Caution]()
    for side, name in ((base, "the baseline"), (new, "it")):
        steady, caution = steady_part(side.outcome, side.measurement)
        parts.append(steady or side.measurement)
        if steady is None and caution is not None:
            found[name] = caution
    return parts[0], parts[1], tell_disturbances(found)


def _no_share(rule: Rule | None, base: Evidence, new: Evidence) -> str:
    """Say why a share of a single expected value means nothing; empty if it does."""
    expected, value = base.values[0], new.values[0]
    if (rule is None or rule.kind in SHARES) and expected <= 0 and value != expected:
        return "the expected value is not positive, so a share of it means nothing"
    return ""


def was_measured(reading: Reading) -> bool:
    """Return whether torchstone measured a file: only then it says where its benchmarks came from."""
    return bool(reading.run.settings.sources)
