from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.core.config import RULE_KINDS, parse_rule
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Measurement, Outcome, Reading, Rule, run_of
from torchstone.core.vocabulary import METRICS, STATUSES, Verdict
from torchstone.gate.defaults import CUSTOM_RULES, DEFAULT_RULES
from torchstone.gate.rules import (
    RuleBook,
    decide_number,
    decide_status,
    describe_rule,
    limits_of,
)

CASE = Case("resnet50", "performance")
positive = st.floats(min_value=1e-3, max_value=1e9)


def decide(rule: Rule, actual: float, expected: float | None = None, margin: float | None = None) -> Verdict:
    return decide_number(rule, actual, expected, limits_of(rule, expected, margin))


@pytest.mark.parametrize(
    ("actual", "expected", "verdict"),
    [
        ("pass", "pass", Verdict.PASS),
        ("fail_accuracy", "fail_accuracy", Verdict.EXPECTED_FAILURE),
        ("pass_due_to_skip", "pass_due_to_skip", Verdict.EXPECTED_FAILURE),
        ("fail_accuracy", "pass", Verdict.REGRESSION),
        ("pass_due_to_skip", "pass", Verdict.REGRESSION),
        ("timeout", "fail_accuracy", Verdict.REGRESSION),
        ("pass_due_to_skip", "fail_accuracy", Verdict.REGRESSION),
        ("pass", "fail_accuracy", Verdict.IMPROVEMENT),
        ("pass", "pass_due_to_skip", Verdict.IMPROVEMENT),
    ],
)
def test_a_status_is_compared_with_the_expected_one(actual: str, expected: str, verdict: Verdict) -> None:
    assert decide_status(Rule("status_equal"), actual, expected) is verdict


@pytest.mark.parametrize("status", STATUSES)
def test_only_pass_and_skip_satisfy_must_pass(status: str) -> None:
    verdict = decide_status(Rule("must_pass"), status, "")
    assert (verdict is Verdict.PASS) == (status in {"pass", "pass_due_to_skip"})


@pytest.mark.parametrize(
    ("rule", "actual", "expected", "verdict"),
    [
        (Rule("ratio_floor", ratio=0.95), 0.95, 1.0, Verdict.PASS),
        (Rule("ratio_floor", ratio=0.95), 0.9499, 1.0, Verdict.REGRESSION),
        (Rule("ratio_floor", ratio=0.95), 1.06, 1.0, Verdict.IMPROVEMENT),
        (Rule("ratio_ceiling", ratio=1.15), 1.15, 1.0, Verdict.PASS),
        (Rule("ratio_ceiling", ratio=1.15), 1.16, 1.0, Verdict.REGRESSION),
        (Rule("ratio_ceiling", ratio=1.15), 0.86, 1.0, Verdict.IMPROVEMENT),
        (Rule("margin", margin=0.1), 110, 100, Verdict.PASS),
        (Rule("margin", margin=0.1), 111, 100, Verdict.REGRESSION),
        (Rule("margin", margin=0.1), 89, 100, Verdict.IMPROVEMENT),
        (Rule("count", better="lower"), 3, 3, Verdict.PASS),
        (Rule("count", better="lower"), 4, 3, Verdict.REGRESSION),
        (Rule("count", better="lower"), 2, 3, Verdict.IMPROVEMENT),
        (Rule("count", better="lower", tolerance=1), 4, 3, Verdict.PASS),
        (Rule("count", better="lower", tolerance=1), 2, 3, Verdict.PASS),
        (Rule("count", better="higher"), 2, 3, Verdict.REGRESSION),
        (Rule("count", better="higher"), 4, 3, Verdict.IMPROVEMENT),
        (Rule("count", better="equal"), 4, 3, Verdict.REGRESSION),
        (Rule("count", better="equal", tolerance=1), 4, 3, Verdict.PASS),
        (Rule("floor", low=1.2), 1.2, None, Verdict.PASS),
        (Rule("floor", low=1.2), 1.19, None, Verdict.REGRESSION),
        (Rule("ceiling", high=5), 5.01, None, Verdict.REGRESSION),
        (Rule("between", low=3, high=4), 2.9, None, Verdict.REGRESSION),
        (Rule("between", low=3, high=4), 4.1, None, Verdict.REGRESSION),
        (Rule("between", low=3, high=4), 3.5, None, Verdict.PASS),
    ],
)
def test_a_number_is_judged_by_its_rule(
    rule: Rule, actual: float, expected: float | None, verdict: Verdict
) -> None:
    assert decide(rule, actual, expected) is verdict


def test_the_margin_of_a_rule_comes_before_that_of_the_row_and_that_before_the_default() -> None:
    assert decide(Rule("margin", margin=0.5), 140, 100, margin=0.01) is Verdict.PASS
    assert decide(Rule("margin"), 140, 100, margin=0.5) is Verdict.PASS
    assert decide(Rule("margin"), 140, 100) is Verdict.REGRESSION


@given(positive)
def test_an_unchanged_number_passes_every_default_rule(value: float) -> None:
    for scoped in DEFAULT_RULES:
        if METRICS[scoped.metric].unit != "status":
            assert decide(scoped.rule, value, value) is Verdict.PASS


@given(positive, st.floats(min_value=0, max_value=10), st.floats(min_value=0, max_value=10))
def test_a_worse_number_never_gets_a_better_verdict(expected: float, one: float, other: float) -> None:
    order = [Verdict.REGRESSION, Verdict.PASS, Verdict.IMPROVEMENT]
    small, large = sorted([one * expected, other * expected])
    for scoped in DEFAULT_RULES:
        metric = METRICS[scoped.metric]
        if metric.better in {"lower", "higher"} and metric.unit != "status":
            worse, better = (large, small) if metric.better == "lower" else (small, large)
            assert order.index(decide(scoped.rule, worse, expected)) <= order.index(
                decide(scoped.rule, better, expected)
            )


def test_every_metric_has_a_default_rule_that_points_the_metrics_way() -> None:
    book = RuleBook()
    for metric in METRICS.values():
        rule = book.find(metric.name, CASE)
        assert rule is not None
        if rule.kind == "count":
            assert rule.better == metric.better
        if rule.kind.startswith("ratio"):
            assert rule.kind == ("ratio_floor" if metric.better == "higher" else "ratio_ceiling")


def test_the_last_rule_that_fits_wins() -> None:
    book = RuleBook([parse_rule("graph_breaks=ignore"), parse_rule("graph_breaks@resnet*=count:lower:2")])
    assert book.find("graph_breaks", CASE) == Rule("count", better="lower", tolerance=2)
    assert book.find("graph_breaks", Case("vgg16", "performance")) == Rule("ignore")


@pytest.mark.parametrize("order", [("defines", "does not"), ("does not", "defines")])
def test_a_metric_that_only_some_benchmarks_define_has_the_rule_of_its_definition_in_any_order(
    order: tuple[str, str],
) -> None:
    details = {"defines": MeasurementDetails(better="higher", unit="1/s"), "does not": None}
    outcomes = tuple(
        Outcome(Case(name, "performance"), "pass", (Measurement("tokens_per_second", (9.0,), details[name]),))
        for name in order
    )
    book = RuleBook()
    book.learn_from([Reading("r.jsonl", "run", run_of("r", outcomes), (2, 3))])
    found = {name: book.find("tokens_per_second", Case(name, "performance")) for name in order}
    assert found["does not"] is None
    assert found["defines"] == CUSTOM_RULES["higher"]


def test_a_rule_may_name_metrics_by_pattern() -> None:
    book = RuleBook([parse_rule("*_peak_mem=ratio_ceiling:1.01")])
    assert book.find("eager_peak_mem", CASE) == Rule("ratio_ceiling", ratio=1.01)


@pytest.mark.parametrize(
    "text",
    [
        "speedup",
        "=floor:1",
        "speedup=flor:1",
        "speedup=floor",
        "speedup=floor:x",
        "speedup=floor:1:2",
        "speedup=floor:nan",
        "speedup=between:2:1",
        "graph_breaks=count:down",
        "speedup=ratio_floor:-1",
        "accuracy=must_pass:1",
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_advice(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(text)
    assert text in caught.value.message
    assert caught.value.advice


def test_every_kind_of_rule_has_words_of_its_own() -> None:
    rules = [Rule(kind, ratio=0.9, margin=0.1, better="lower", low=1, high=2) for kind in RULE_KINDS]
    assert len({describe_rule(rule) for rule in rules}) == len(RULE_KINDS)
