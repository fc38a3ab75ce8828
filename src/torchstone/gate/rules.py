"""One rule on one number: within the limits, better, or worse; and which rule is for which metric and case."""

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
    SKIPPED,
    Probe,
    Verdict,
)
from torchstone.gate.baseline import has_numbers

_OF_SCENARIOS = {
    COMPILE_SECONDS: Rule("ratio_ceiling", ratio=1.15),
    "saved": Rule("count", better="higher", tolerance=5),  # in points: a saving may be near 0, or less
    "hit_rate": Rule("count", better="higher"),
}


def _scenario_rules() -> tuple[ScopedRule, ...]:
    """What compile_cache is judged by. The rest explains these and is not judged unless asked for; cold starts have no hits to lose."""
    return tuple(
        ScopedRule(
            Rule("ignore") if metric.name == "cold_hit_rate" else _OF_SCENARIOS.get(quantity, Rule("ignore")),
            metric.name,
        )
        for metric in METRICS.values()
        if Probe.COMPILE_CACHE in metric.probes
        for quantity in [metric.name.partition("_")[2]]
    )


_OF_SCALING = {
    "iteration_time": Rule("ratio_ceiling", ratio=1.15),
    "scaling_efficiency": Rule("count", better="higher", tolerance=5),  # in points
    "peak_memory": Rule("ratio_ceiling", ratio=1.15),
}


def _scaling_rules() -> tuple[ScopedRule, ...]:
    """What scaling is judged by. The rest says the same in other words, or why it is so."""
    return tuple(
        ScopedRule(_OF_SCALING.get(metric.name, Rule("ignore")), metric.name)
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
    # Times: as noisy as any, so the customary margin of a count would be of no use.
    ScopedRule(Rule("margin", usual=0.3), "cpu_seconds"),
    ScopedRule(Rule("margin", usual=0.3), "compile_time_cpu_seconds"),
    ScopedRule(Rule("margin", usual=0.3), "import_time_us"),
    # What other threads and processes did depends on how they were scheduled.
    ScopedRule(Rule("ignore"), "instruction_count_tree"),
    ScopedRule(Rule("ignore"), "compile_time_instruction_count_tree"),
    # Not judged unless asked for: what eager needs, and what is neither good nor bad.
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

_OUR_RATIOS = frozenset(id(scoped.rule) for scoped in DEFAULT_RULES if scoped.rule.kind.startswith("ratio_"))

SHARES = frozenset({"ratio_floor", "ratio_ceiling", "margin"})  # limits that are a share of what is expected
NEEDS_NO_BASELINE = frozenset({"must_pass", "floor", "ceiling", "between"})


class RuleBook:
    """Finds the rule for a metric of a case: the last one that fits, so that later ones refine earlier ones."""

    def __init__(self, further: Iterable[ScopedRule] = ()) -> None:
        self.rules = (*DEFAULT_RULES, *further)
        self._of_metric: dict[str, list[ScopedRule]] = {}
        self._unused = {id(rule) for rule in self.rules if rule.asked and rule.rule.kind != "ignore"}

    def find(self, metric: str, case: Case) -> Rule | None:
        """The rule, or None where nothing says how to judge this metric."""
        scoped = self._of_metric.get(metric)
        if scoped is None:
            scoped = [rule for rule in reversed(self.rules) if _is_for(rule, metric)]
            self._of_metric[metric] = scoped
        for rule in scoped:
            if rule.case == "*" or matches(rule.case, case):
                if self._unused:
                    self._unused.discard(id(rule))
                return rule.rule
        return None

    def depends_on_case(self, metric: str) -> bool:
        """Whether the rule for a metric is not the same one for all cases."""
        scoped = self._of_metric.get(metric)
        return scoped is None or bool(scoped and scoped[0].case != "*")

    def ignores(self, metric: str, case: Case) -> bool:
        """Whether a rule says that this metric is not judged."""
        rule = self.find(metric, case)
        return rule is not None and rule.kind == "ignore"

    def is_unknown(self, metric: str) -> bool:
        """Whether no rule is for this metric, whatever the case."""
        return not any(_is_for(rule, metric) for rule in self.rules)

    def unused(self) -> list[ScopedRule]:
        """The rules given on the command line that were never the one that fits."""
        return [rule for rule in self.rules if id(rule) in self._unused]

    def metrics_without_baseline(self) -> list[str]:
        """The metrics (or patterns of them) that some rule judges by itself."""
        return list(dict.fromkeys(r.metric for r in self.rules if r.rule.kind in NEEDS_NO_BASELINE))


def _is_for(scoped: ScopedRule, metric: str) -> bool:
    """Whether a rule is for a metric: by its name, and for a status only if it can judge one."""
    kind = scoped.rule.kind
    fits = kind == "ignore" or (kind in STATUS_RULES) == (metric == ACCURACY)
    return fits and matches_metric(scoped.metric, metric)


_NOT_FAILED = frozenset({PASSED, SKIPPED, ""})


class AllowedRange(Struct, frozen=True):
    """The range of values that a rule allows; None means no limit on that side."""

    low: float | None = None
    high: float | None = None


def limits_of(rule: Rule, expected: Number | None, margin: float | None) -> AllowedRange:
    """The allowed range. ``margin`` is what the baseline row says; a rule's own margin comes first."""
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
    """Whether this is one of our own ratios for times, memory and speedups, and none that somebody has chosen."""
    return id(rule) in _OUR_RATIOS


def margin_of(rule: Rule, stated: float | None) -> float:
    """The margin that counts: the rule's, the baseline row's, the metric's usual one, or the customary one."""
    known = (margin for margin in (rule.margin, stated, rule.usual) if margin is not None)
    return next(known, DEFAULT_MARGIN)


def _given(number: float | None) -> float:
    return 1.0 if number is None else number


def decide_number(
    rule: Rule, actual: Number, expected: Number | None, limits: AllowedRange, better: str = "lower"
) -> Verdict:
    """The verdict on a number; ``better`` is the metric's own direction, for rules with two sides."""
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
    """Whether a number within the limits is better by more than the rule lets pass in the other direction."""
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


def ended_alike(actual: str, expected: str) -> bool:
    """Whether two statuses are the same, or both are failures of which one does not say how."""
    both = {actual, expected}
    return actual == expected or (FAILED in both and not both & {PASSED, SKIPPED, ""})


def numbers_count(outcome: Outcome, expected: str) -> bool:
    """Whether the numbers of a result belong to a row that expects this status. Judging and accepting both ask here.

    They do if the case passed, or ran to its end where that is what was tested. If it failed, they were counted up to the failure: they belong to a row
    that expects this very failure, and to no other. Where nothing was compiled there was nothing to count.
    """
    if has_numbers(outcome) and (outcome.case.probe == Probe.ACCURACY or outcome.status in _NOT_FAILED):
        return True
    return ended_alike(outcome.status, expected) and outcome.value("unique_graphs") != 0


def decide_status(rule: Rule, actual: str, expected: str) -> Verdict:
    """The verdict on a status: the expected one, or ``pass`` where something else was expected, or worse."""
    if rule.kind == "must_pass":
        return Verdict.PASS if actual in {PASSED, SKIPPED} else Verdict.REGRESSION
    if ended_alike(actual, expected):
        return Verdict.PASS if actual == PASSED else Verdict.EXPECTED_FAILURE
    return Verdict.IMPROVEMENT if actual == PASSED else Verdict.REGRESSION


def describe_rule(rule: Rule, margin: float | None = None) -> str:
    """The rule in words."""
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
    """The rule for a number whose baseline row states a margin: the usual ratio gives way to it, and it will do where there is no rule at all."""
    if margin is None:
        return rule
    if rule is None:
        return BY_OWN_MARGIN
    if not is_our_ratio(rule):
        return rule
    return Rule(rule.kind, ratio=1 - margin if rule.kind == "ratio_floor" else 1 + margin)


def allowance(rule: Rule, stated: float | None) -> float:
    """By what share a value may be off, where a baseline row states a margin or none."""
    if rule.kind == "margin":
        return margin_of(rule, stated)
    ratio = (use_own_margin(rule, stated) or rule).ratio
    return abs(1 - (ratio or 1))
