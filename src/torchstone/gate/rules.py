"""Rules: which one applies to a metric of a case, what it allows, and its verdict on a number or a status."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from torchstone.core.records import (
    STATUS_RULES,
    Case,
    Number,
    Outcome,
    Rule,
    ScopedRule,
    matches,
    matches_metric,
)
from torchstone.core.text.units import format_limit, format_number
from torchstone.core.vocabulary import (
    ACCURACY,
    COMPILE_SECONDS,
    DEFAULT_MARGIN,
    FAILED,
    METRICS,
    PASSED,
    SCENARIOS,
    SKIPPED,
    Probe,
    Verdict,
)
from torchstone.gate.baseline import has_numbers

_CACHE_RULES = {
    COMPILE_SECONDS: Rule("ratio_ceiling", ratio=1.15),
    "saved": Rule("count", better="higher", tolerance=5),  # in points: a saving may be near 0, or less
    "hit_rate": Rule("count", better="higher"),
}


def _scenario_rules() -> tuple[ScopedRule, ...]:
    """Return the rules of the compile_cache probe. Other metrics explain these, and are ignored by default; a cold start has no hits to lose."""
    rules = {
        f"{scenario}_{quantity}": rule
        for scenario in SCENARIOS
        for quantity, rule in _CACHE_RULES.items()
        if (scenario, quantity) != ("cold", "hit_rate")
    }
    return tuple(
        ScopedRule(rules.get(metric.name, Rule("ignore")), metric.name)
        for metric in METRICS.values()
        if Probe.COMPILE_CACHE in metric.probes
    )


_SCALING_RULES = {
    "iteration_time": Rule("ratio_ceiling", ratio=1.15),
    "scaling_efficiency": Rule("count", better="higher", tolerance=5),  # in points
    "peak_memory": Rule("ratio_ceiling", ratio=1.15),
}


def _scaling_rules() -> tuple[ScopedRule, ...]:
    """Return the rules of the scaling probe. Other metrics express or explain the same, and are ignored by default."""
    return tuple(
        ScopedRule(_SCALING_RULES.get(metric.name, Rule("ignore")), metric.name)
        for metric in METRICS.values()
        if Probe.SCALING in metric.probes
    )


DEFAULT_RULES: tuple[ScopedRule, ...] = (
    ScopedRule(Rule("status_equal"), "accuracy"),
    ScopedRule(Rule("ratio_floor", ratio=0.95), "speedup"),
    ScopedRule(Rule("ratio_floor", ratio=0.95), "compression_ratio"),
    ScopedRule(Rule("ratio_ceiling", ratio=1.15), "abs_latency"),
    ScopedRule(Rule("ratio_ceiling", ratio=1.15), "compilation_latency"),
    ScopedRule(Rule("ratio_ceiling", ratio=1.15), COMPILE_SECONDS),
    ScopedRule(Rule("ratio_ceiling", ratio=1.15), "dynamo_peak_mem"),
    ScopedRule(Rule("ratio_ceiling", ratio=1.15), "seconds"),
    ScopedRule(Rule("ratio_ceiling", ratio=1.15), "bytes"),
    ScopedRule(Rule("count", better="lower"), "graph_breaks"),
    ScopedRule(Rule("count", better="lower"), "unique_graph_breaks"),
    ScopedRule(Rule("count", better="lower"), "fallbacks_to_eager"),
    ScopedRule(Rule("count", better="lower"), "cudagraph_skips"),
    ScopedRule(Rule("count", better="lower"), "recompiles"),
    ScopedRule(Rule("count", better="higher"), "calls_captured"),
    ScopedRule(Rule("count", better="higher"), "unique_graphs"),
    ScopedRule(Rule("margin"), "instruction_count"),
    ScopedRule(Rule("margin"), "compile_time_instruction_count"),
    ScopedRule(Rule("margin"), "python_calls"),
    ScopedRule(Rule("margin"), "compile_time_python_calls"),
    # Times are noisy: the default margin of counts would be too narrow.
    ScopedRule(Rule("margin", usual=0.3), "cpu_seconds"),
    ScopedRule(Rule("margin", usual=0.3), "compile_time_cpu_seconds"),
    ScopedRule(Rule("margin", usual=0.3), "import_time_us"),
    # The work of other threads and processes depends on scheduling.
    ScopedRule(Rule("ignore"), "instruction_count_tree"),
    ScopedRule(Rule("ignore"), "compile_time_instruction_count_tree"),
    # Ignored by default: the cost of eager, and metrics that are neither good nor bad.
    ScopedRule(Rule("ignore"), "eager_peak_mem"),
    ScopedRule(Rule("ignore"), "eager_latency"),
    ScopedRule(Rule("ignore"), "baseline"),
    ScopedRule(Rule("ignore"), "speedup_vs_baseline"),
    ScopedRule(Rule("ignore"), "cache_lookup_latency"),
    ScopedRule(Rule("ignore"), "autograd_captures"),
    ScopedRule(Rule("ignore"), "autograd_compiles"),
    ScopedRule(Rule("ignore"), "tracked_value"),
    *_scenario_rules(),
    *_scaling_rules(),
)

RATIOS = frozenset({"ratio_floor", "ratio_ceiling"})
SHARES = RATIOS | {"margin"}
"""The kinds of rules whose limits are a share of the expected value."""
NEEDS_NO_BASELINE = frozenset({"must_pass", "floor", "ceiling", "between"})
_DEFAULT_RATIOS = frozenset(id(scoped.rule) for scoped in DEFAULT_RULES if scoped.rule.kind in RATIOS)


class RuleBook:
    """Finds the rule for a metric of a case: the last one that applies, so that later rules refine earlier ones."""

    def __init__(self, further: Iterable[ScopedRule] = ()) -> None:
        self.rules = (*DEFAULT_RULES, *further)
        self._by_metric: dict[str, list[ScopedRule]] = {}
        self._for_all_cases: dict[str, Rule | None] = {}
        self._unused = {id(rule) for rule in self.rules if rule.asked and rule.rule.kind != "ignore"}

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
        self._unused.discard(id(found))
        if not scoped or scoped[0].case == "*":
            self._for_all_cases[metric] = rule
        return rule

    def depends_on_case(self, metric: str) -> bool:
        """Whether the rule for a metric that was looked up may be another one for another case."""
        return metric not in self._for_all_cases

    def ignores(self, metric: str, case: Case) -> bool:
        """Whether the rule for a metric says that it is not judged."""
        rule = self.find(metric, case)
        return rule is not None and rule.kind == "ignore"

    def is_unknown(self, metric: str) -> bool:
        """Whether no rule applies to a metric, for any case."""
        return not any(_applies_to(rule, metric) for rule in self.rules)

    def unused(self) -> list[ScopedRule]:
        """Return the rules of the command line that ``find`` never returned."""
        return [rule for rule in self.rules if id(rule) in self._unused]

    def metrics_without_baseline(self) -> list[str]:
        """Return the metrics (or patterns of them) that have a rule that needs no baseline."""
        return list(dict.fromkeys(r.metric for r in self.rules if r.rule.kind in NEEDS_NO_BASELINE))


def _applies_to(scoped: ScopedRule, metric: str) -> bool:
    """Whether a rule applies to a metric: by name, and to a status only if it can judge one."""
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
    """Whether this is one of our default ratios for times, memory and speedups, not one that a user chose."""
    return id(rule) in _DEFAULT_RATIOS


def margin_of(rule: Rule, stated: float | None) -> float:
    """Return the margin that applies: the rule's, the baseline row's, the metric's default, or the general default."""
    margins = (margin for margin in (rule.margin, stated, rule.usual) if margin is not None)
    return next(margins, DEFAULT_MARGIN)


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
    """Whether a number within the limits is better by more than the rule tolerates in the other direction."""
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
    """Whether two statuses are the same, or both are failures and one of them is unspecific."""
    if actual == expected:
        return True
    return FAILED in {actual, expected} and _NOT_FAILED.isdisjoint({actual, expected})


def numbers_count(outcome: Outcome, expected: str) -> bool:
    """Whether the numbers of a result can be compared with a row that expects this status; used for judging and accepting.

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
