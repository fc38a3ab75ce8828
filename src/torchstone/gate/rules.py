"""Rules: which one applies to a metric of a case, what it allows, and its verdict on a number or a status."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, structs

from torchstone.core.records import (
    STATUS_RULES,
    Case,
    Number,
    Outcome,
    Reading,
    Rule,
    ScopedRule,
    matches,
    matches_metric,
)
from torchstone.core.text.units import format_limit, format_number
from torchstone.core.vocabulary import (
    ACCURACY,
    FAILED,
    METRICS,
    PASSED,
    SKIPPED,
    Probe,
    Verdict,
)
from torchstone.gate.baseline import has_numbers
from torchstone.gate.defaults import CUSTOM_RULES, DEFAULT_RULES, DEFAULTS

RATIOS = frozenset({"ratio_floor", "ratio_ceiling"})
SHARES = RATIOS | {"margin"}
"""The kinds of rules whose limits are a share of the expected value."""
NEEDS_NO_BASELINE = frozenset({"must_pass", "floor", "ceiling", "between"})
_OURS = (*(scoped.rule for scoped in DEFAULT_RULES), *CUSTOM_RULES.values())
_DEFAULT_RATIOS = frozenset(id(rule) for rule in _OURS if rule.kind in RATIOS)


class RuleBook:
    """Finds the rule for a metric of a case: the last one that applies, so that later rules refine earlier ones."""

    def __init__(self, further: Iterable[ScopedRule] = ()) -> None:
        self.rules = (*DEFAULT_RULES, *further)
        self._by_metric: dict[str, list[ScopedRule]] = {}
        self._for_all_cases: dict[str, Rule | None] = {}
        self._unused = {id(rule) for rule in self.rules if rule.asked and rule.rule.kind != "ignore"}
        self._files: tuple[Reading, ...] = ()
        self._directions: dict[str, dict[str, str]] | None = None

    def learn_from(self, readings: Iterable[Reading]) -> None:
        """Take the definitions of metrics that benchmarks report themselves from files; they are read when such a metric turns up."""
        self._files, self._directions = tuple(readings), None
        self._for_all_cases.clear()

    def better_of(self, metric: str, case: Case) -> str:
        """Return the better direction of a metric: ours, or as the first file that has it defines it; empty if unknown."""
        if metric in METRICS:
            return METRICS[metric].better
        return self._known_directions().get(metric, {}).get(case.benchmark, "")

    def _known_directions(self) -> dict[str, dict[str, str]]:
        if self._directions is None:
            self._directions = _read_directions(self._files)
        return self._directions

    def _is_defined(self, metric: str) -> bool:
        """Return whether some benchmark defines a metric: one that does not may have another rule."""
        return metric not in METRICS and metric in self._known_directions()

    def find(self, metric: str, case: Case) -> Rule | None:
        """Return the rule for a metric of a case, or None if there is none."""
        if metric in self._for_all_cases:
            return self._for_all_cases[metric]
        scoped = self._by_metric.get(metric)
        if scoped is None:
            scoped = [rule for rule in reversed(self.rules) if _applies_to(rule, metric)]
            self._by_metric[metric] = scoped
        found = next((rule for rule in scoped if rule.case == "*" or matches(rule.case, case)), None)
        rule = found.rule if found else None
        if metric not in METRICS and (rule is None or (rule.kind == "margin" and not rule.better)):
            custom = self._for_custom(metric, case, rule)
            if custom is not rule:
                self._unused.discard(id(found))
                return custom
        self._unused.discard(id(found))
        if (not scoped or scoped[0].case == "*") and not self._is_defined(metric):
            self._for_all_cases[metric] = rule
        return rule

    def _for_custom(self, metric: str, case: Case, rule: Rule | None) -> Rule | None:
        """Return the rule for a metric that is not ours: by its direction if there is no rule, or a margin that knows the direction."""
        better = self.better_of(metric, case)
        if rule is None:
            return CUSTOM_RULES.get(better)
        return structs.replace(rule, better=better) if better else rule

    def depends_on_case(self, metric: str) -> bool:
        """Return whether the rule for a metric that was looked up may be another one for another case."""
        return metric not in self._for_all_cases

    def ignores(self, metric: str, case: Case) -> bool:
        """Return whether the rule for a metric says that it is not judged."""
        rule = self.find(metric, case)
        return rule is not None and rule.kind == "ignore"

    def is_unknown(self, metric: str) -> bool:
        """Return whether no rule applies to a metric, for any case."""
        return not any(_applies_to(rule, metric) for rule in self.rules)

    def unused(self) -> list[ScopedRule]:
        """Return the rules of the command line that ``find`` never returned."""
        return [rule for rule in self.rules if id(rule) in self._unused]

    def metrics_without_baseline(self) -> list[str]:
        """Return the metrics (or patterns of them) that have a rule that needs no baseline."""
        return list(dict.fromkeys(r.metric for r in self.rules if r.rule.kind in NEEDS_NO_BASELINE))


def _read_directions(readings: Iterable[Reading]) -> dict[str, dict[str, str]]:
    """Return the better direction of each metric that a benchmark reports, by metric and benchmark; the first file counts.

    If another file has another direction, the two numbers are not comparable (``gate.comparable``).
    """
    found: dict[str, dict[str, str]] = {}
    for reading in readings:
        for outcome in reading.run.outcomes:
            for each in outcome.measurements:
                if (details := each.details) and (better := details.better):
                    found.setdefault(each.metric, {}).setdefault(outcome.case.benchmark, better)
    return found


def _applies_to(scoped: ScopedRule, metric: str) -> bool:
    """Return whether a rule applies to a metric: by name, and to a status only if it can judge one."""
    kind = scoped.rule.kind
    fits = kind == "ignore" or (kind in STATUS_RULES) == (metric == ACCURACY)
    return fits and matches_metric(scoped.metric, metric)


_NOT_FAILED = frozenset({PASSED, SKIPPED, ""})


class AllowedRange(Struct, frozen=True, gc=False):
    """The range of values that a rule allows; None means no limit in that direction."""

    low: float | None = None
    high: float | None = None


def limits_of(rule: Rule, expected: Number | None, margin: float | None) -> AllowedRange:
    """Return the allowed range. ``margin`` is that of the baseline row; a rule's own margin takes precedence."""
    value = 0 if expected is None else expected
    match rule.kind:
        case "ratio_floor":
            return AllowedRange(low=value * _given(rule.ratio))
        case "ratio_ceiling":
            return AllowedRange(high=value * _given(rule.ratio))
        case "margin":
            share = margin_of(rule, margin)
            return AllowedRange(value * (1 - share), value * (1 + share))
        case "count":
            below = None if rule.better == "lower" else value - rule.tolerance
            above = None if rule.better == "higher" else value + rule.tolerance
            return AllowedRange(below, above)
        case _:
            return AllowedRange(rule.low, rule.high)


def is_our_ratio(rule: Rule) -> bool:
    """Return whether this is one of our default ratios for times, memory and speedups, not one that a user chose."""
    return id(rule) in _DEFAULT_RATIOS


def margin_of(rule: Rule, stated: float | None) -> float:
    """Return the margin that applies: the rule's, the baseline row's, the metric's default, or the general default."""
    margins = (margin for margin in (rule.margin, stated, rule.usual) if margin is not None)
    return next(margins, DEFAULTS.count_margin)


def _given(number: float | None) -> float:
    return 1.0 if number is None else number


def decide_number(
    rule: Rule, actual: Number, expected: Number | None, limits: AllowedRange, better: str = "lower"
) -> Verdict:
    """Return the verdict on a number; ``better`` is the metric's own direction, for rules that limit both."""
    too_low = limits.low is not None and actual < limits.low
    too_high = limits.high is not None and actual > limits.high
    if rule.kind == "margin" and (
        too_low if better == "lower" else too_high if better == "higher" else False
    ):
        return Verdict.IMPROVEMENT
    if too_low or too_high:
        return Verdict.REGRESSION
    return Verdict.IMPROVEMENT if _is_better(rule, actual, expected) else Verdict.PASS


def _is_better(rule: Rule, actual: Number, expected: Number | None) -> bool:
    """Return whether a number within the limits is better by more than the rule tolerates in the other direction."""
    if expected is None:
        return False
    match rule.kind:
        case "count":
            if rule.better == "lower":
                return actual < expected - rule.tolerance
            return rule.better == "higher" and actual > expected + rule.tolerance
        case "ratio_floor":
            return actual > expected / _given(rule.ratio)
        case "ratio_ceiling":
            return actual < expected / _given(rule.ratio)
        case _:
            return False


def statuses_agree(actual: str, expected: str) -> bool:
    """Return whether two statuses are the same, or both are failures and one of them is unspecific."""
    if actual == expected:
        return True
    return FAILED in {actual, expected} and _NOT_FAILED.isdisjoint({actual, expected})


def numbers_count(outcome: Outcome, expected: str) -> bool:
    """Return whether the numbers of a result can be compared with a row that expects this status; used for judging and accepting.

    They can if the case passed, or ran to its end if its accuracy was tested. If it failed, they were counted up to the failure: they can only be
    compared with a row that expects the same failure. If nothing was compiled, nothing was counted.
    """
    if has_numbers(outcome) and (outcome.case.probe == Probe.ACCURACY or outcome.status in _NOT_FAILED):
        return True
    return statuses_agree(outcome.status, expected) and outcome.value("unique_graphs") != 0


def decide_status(rule: Rule, actual: str, expected: str) -> Verdict:
    """Return the verdict on a status: as expected, ``pass`` where a failure was expected, or a regression."""
    if rule.kind == "must_pass":
        return Verdict.PASS if actual in {PASSED, SKIPPED} else Verdict.REGRESSION
    if statuses_agree(actual, expected):
        return Verdict.PASS if actual == PASSED else Verdict.EXPECTED_FAILURE
    return Verdict.IMPROVEMENT if actual == PASSED else Verdict.REGRESSION


def describe_rule(rule: Rule, margin: float | None = None) -> str:
    """Describe a rule in words."""
    match rule.kind:
        case "status_equal":
            return "status equals the expected one"
        case "must_pass":
            return "status is pass or pass_due_to_skip"
        case "ratio_floor":
            return f"at least {format_limit(_given(rule.ratio))} x expected"
        case "ratio_ceiling":
            return f"at most {format_limit(_given(rule.ratio))} x expected"
        case "margin":
            return f"within {100 * margin_of(rule, margin):.4g}% of expected"
        case "count":
            return _describe_count(rule)
        case "floor":
            return f"at least {format_number(rule.low or 0)}"
        case "ceiling":
            return f"at most {format_number(rule.high or 0)}"
        case "between":
            return f"from {format_number(rule.low or 0)} to {format_number(rule.high or 0)}"
        case _:
            return "not judged"


def _describe_count(rule: Rule) -> str:
    if rule.better == "equal":
        return (
            f"expected, give or take {format_number(rule.tolerance)}"
            if rule.tolerance
            else "exactly as expected"
        )
    side, sign = ("at most", "+") if rule.better == "lower" else ("at least", "-")
    return f"{side} expected" + (f" {sign} {format_number(rule.tolerance)}" if rule.tolerance else "")


BY_OWN_MARGIN = Rule("margin")


def use_own_margin(rule: Rule | None, margin: float | None) -> Rule | None:
    """Return the rule for a number whose baseline row states a margin: it replaces a default ratio, and is enough if there is no rule."""
    if margin is None:
        return rule
    if rule is None:
        return BY_OWN_MARGIN
    if not is_our_ratio(rule):
        return rule
    return Rule(rule.kind, ratio=1 - margin if rule.kind == "ratio_floor" else 1 + margin)


def allowance(rule: Rule, stated: float | None) -> float:
    """Return the share by which a value may be off, given the margin that its baseline row states, if any."""
    if rule.kind == "margin":
        return margin_of(rule, stated)
    ratio = (use_own_margin(rule, stated) or rule).ratio
    return abs(1 - (ratio or 1))
