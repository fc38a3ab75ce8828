"""What a check knows of its numbers: evidence, single numbers without any, intervals that are none, and limits that need no baseline."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from run_pairs import VARIANT, busy, busy_while_compiling, make_reading, measured_settings
from torchstone.api.files.report import ReportRequest, make_report
from torchstone.api.judging.check import CheckResult, check_results
from torchstone.api.judging.check_request import CheckRequest
from torchstone.api.judging.compare import CompareRequest, compare_results
from torchstone.api.judging.decide import needs_more
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.cautions import Caution
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Reading
from torchstone.core.run_settings import Settings
from torchstone.core.vocabulary import Verdict
from torchstone.gate.disturbance import disturbance_of
from torchstone.gate.judgement import State
from torchstone.gate.weigh import NO_INTERVAL

CASE = Case("a", "performance", "smoke", VARIANT)
MEASURED = measured_settings()
NOTE = "1 row judged without evidence of noise: only single numbers are known"


def speedup(value: float, interval: tuple[float, float] | None = None) -> Measurement:
    return Measurement("speedup", (value,), MeasurementDetails(interval=interval, confidence=0.95))


def latency(*samples: float, trials: int = 1) -> Measurement:
    details = MeasurementDetails(trials=(len(samples) // trials,) * trials)
    return Measurement("abs_latency", samples, details)


def reading(
    path: str,
    *measurements: Measurement,
    settings: Settings = MEASURED,
    cautions: tuple[Caution, ...] = (),
) -> Reading:
    return make_reading(path, [Outcome(CASE, "pass", measurements, cautions=cautions)], settings)


def check(new: Reading, base: Reading | None = None, **options: Any) -> CheckResult:  # noqa: ANN401  (options of any kind)
    baselines = (base,) if base else ()
    return check_results(CheckRequest(results=(new,), baselines=baselines, **options))


def test_single_numbers_of_another_tool_are_judged_as_they_are_and_counted() -> None:
    base, new = (
        reading(name, speedup(value), settings=Settings()) for name, value in (("b", 1.5), ("n", 1.3))
    )
    compared = compare_results(CompareRequest(base=(base,), new=(new,)))
    page = make_report(ReportRequest(results=(new,), baselines=(base,)))
    for result in (check(new, base), compared):
        assert [(row.verdict, row.comparison and row.comparison.method) for row in result.rows] == [
            (Verdict.REGRESSION, "value")
        ]
        assert result.judgement.points == 1
        assert NOTE in result.render("text")
        assert NOTE in result.render("markdown")
        assert json.loads(result.render("json"))["without_evidence"] == 1
    assert NOTE in page.html
    assert NOTE in compared.html


def test_what_torchstone_measured_has_evidence() -> None:
    result = check(reading("n", speedup(1.3)), reading("b", speedup(1.5)))
    assert result.judgement.points == 0
    assert "without evidence" not in result.render("text")
    (row,) = result.rows
    assert row.comparison is not None
    assert row.comparison.p_value is not None


def test_a_margin_that_was_learned_stands_for_the_noise() -> None:
    details = MeasurementDetails(margin=0.1)
    base = reading("b", Measurement("speedup", (1.5,), details), settings=Settings())
    result = check(reading("n", speedup(1.4), settings=Settings()), base)
    assert [row.verdict for row in result.rows] == [Verdict.PASS]
    assert result.judgement.points == 0


def noisy_speedup(*values: float) -> Measurement:
    return Measurement("speedup", values, MeasurementDetails(trials=(1,) * len(values)))


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (1.4, Verdict.PASS),
        (1.354, Verdict.INCONCLUSIVE),
        (1.346, Verdict.INCONCLUSIVE),
        (1.3, Verdict.REGRESSION),
    ],
)
def test_only_what_is_certainly_beyond_a_learned_margin_is_red(value: float, verdict: Verdict) -> None:
    """The margin already contains the noise, and says nothing about how certain a smaller change is."""
    base = reading("b", Measurement("speedup", (1.5,), MeasurementDetails(margin=0.1)), settings=Settings())
    new = reading("n", speedup(value, (value * 0.99, value * 1.01)))
    for result in (check(new, base), compare_results(CompareRequest(base=(base,), new=(new,)))):
        (row,) = result.rows
        assert (Verdict.SAME if verdict is Verdict.PASS else verdict) is (
            Verdict.SAME if row.verdict is Verdict.PASS else row.verdict
        )
        assert (row.more_new is None) == (verdict is not Verdict.INCONCLUSIVE)


def test_a_rule_narrower_than_a_learned_margin_takes_the_noise_from_it() -> None:
    base = reading("b", Measurement("speedup", (1.5,), MeasurementDetails(margin=0.1)), settings=Settings())
    new = reading("n", speedup(1.44, (1.437, 1.443)))
    (row,) = check(new, base, rules=("speedup=ratio_floor:0.99",)).rows
    assert row.verdict is Verdict.INCONCLUSIVE
    assert row.comparison is not None
    assert row.comparison.low < 0.88
    assert row.comparison.high > 1.05


def test_one_process_has_the_noise_that_the_other_side_shows() -> None:
    calm, noisy = (
        noisy_speedup(*(1.5 * (1 + spread * at) for at in (-2, -1, 0, 1, 2))) for spread in (0.002, 0.05)
    )
    stated = Measurement("speedup", (1.5,), MeasurementDetails(spread=0.08, spread_trials=5))
    one = speedup(1.3, (1.299, 1.301))
    for shown, verdict in (
        (calm, Verdict.REGRESSION),
        (noisy, Verdict.INCONCLUSIVE),
        (stated, Verdict.INCONCLUSIVE),
    ):
        assert [row.verdict for row in check(reading("n", one), reading("b", shown)).rows] == [verdict]
    for shown in (calm, noisy):
        (row,) = check(reading("n", shown), reading("b", speedup(1.7, (1.699, 1.701)))).rows
        assert row.verdict is (Verdict.REGRESSION if shown is calm else Verdict.INCONCLUSIVE)


def test_device_times_of_one_process_are_weighed_against_trials() -> None:
    """Their interval allows for other processes: there is no usual noise that trials could exceed."""
    trials = Measurement("device_speedup", (1.5, 1.501, 1.499), MeasurementDetails(trials=(1, 1, 1)))
    for value, verdict in ((1.5, Verdict.PASS), (1.2, Verdict.REGRESSION)):
        details = MeasurementDetails(interval=(0.995 * value, 1.005 * value), confidence=0.95)
        one = Measurement("device_speedup", (value,), details)
        assert [row.verdict for row in check(reading("n", one), reading("b", trials)).rows] == [verdict]


def test_a_change_is_not_certain_by_an_assumption_about_noise() -> None:
    """Three times the usual noise is much, if the noise is as usual here; two processes do not show that."""
    base, new = reading("b", speedup(1.5)), reading("n", speedup(1.5 * 0.958))
    for result in (check(new, base), compare_results(CompareRequest(base=(base,), new=(new,)))):
        (row,) = result.rows
        assert row.verdict is Verdict.INCONCLUSIVE
        assert row.detail.startswith("more than the usual noise between processes")
        assert row.comparison is not None
        assert row.comparison.high < 1
        assert row.more_new is not None
    (row,) = check(reading("n", speedup(1.5 * 0.8)), base).rows
    assert row.verdict is Verdict.REGRESSION


def test_the_policy_of_others_knows_of_no_evidence() -> None:
    base, new = (reading(name, speedup(1.5), settings=Settings()) for name in "bn")
    result = check(new, base, policy="upstream")
    assert result.judgement.points == 0
    assert "without evidence" not in result.render("text")


@pytest.mark.parametrize(
    "interval", [(0.0, math.inf), (1.4, math.inf), (math.nan, 1.6), (1.4, math.nan), (1.6, 1.4), (-1.0, 2.0)]
)
@pytest.mark.parametrize("is_base", [True, False])
def test_an_interval_that_is_none_decides_nothing(*, interval: tuple[float, float], is_base: bool) -> None:
    bad, good = speedup(1.5, interval), speedup(1.5, (1.49, 1.51))
    base = reading("b", bad if is_base else good)
    new = reading("n", good if is_base else bad)
    for result in (check(new, base), compare_results(CompareRequest(base=(base,), new=(new,)))):
        (row,) = result.rows
        assert (row.verdict, row.detail) == (Verdict.INCONCLUSIVE, NO_INTERVAL)
        assert (result.exit_code, result.judgement.state) == (1, State.UNDECIDED)
        assert NO_INTERVAL.split()[0] in result.render("text")
    alone = check(reading("n", bad), rules=("speedup=floor:1.2",))
    assert [(row.verdict, row.detail) for row in alone.rows] == [(Verdict.INCONCLUSIVE, NO_INTERVAL)]


def test_trials_tell_more_than_an_interval_that_is_none() -> None:
    trials = tuple(1.5 * (1 + 0.001 * number) for number in range(5))
    details = MeasurementDetails(trials=(1,) * 5, interval=(1.0, math.inf))
    sides = (reading(name, Measurement("speedup", trials, details)) for name in "nb")
    assert [row.verdict for row in check(*sides).rows] == [Verdict.PASS]


@pytest.mark.parametrize(
    ("rule", "value", "verdict"),
    [
        ("floor:1.2", 1.5, Verdict.PASS),
        ("floor:1.2", 1.21, Verdict.INCONCLUSIVE),
        ("floor:1.2", 0.9, Verdict.REGRESSION),
        ("ceiling:1.2", 0.9, Verdict.PASS),
        ("ceiling:1.2", 1.19, Verdict.INCONCLUSIVE),
        ("ceiling:1.2", 1.5, Verdict.REGRESSION),
        ("between:1.0:2.0", 1.5, Verdict.PASS),
        ("between:1.0:2.0", 1.99, Verdict.INCONCLUSIVE),
        ("between:1.0:2.0", 1.01, Verdict.INCONCLUSIVE),
        ("between:1.0:2.0", 2.5, Verdict.REGRESSION),
        ("between:1.0:2.0", 0.5, Verdict.REGRESSION),
    ],
)
def test_a_number_is_within_limits_beyond_them_or_undecided(
    rule: str, value: float, verdict: Verdict
) -> None:
    measured = reading("n", speedup(value, (value / 1.004, value * 1.004)))
    (row,) = check(measured, rules=(f"speedup={rule}",)).rows
    assert row.verdict is verdict
    assert ("more trials would settle it" in row.detail) == (verdict is Verdict.INCONCLUSIVE)


def test_several_trials_settle_what_one_left_open() -> None:
    trials = tuple(1.205 + 0.0005 * number for number in range(10))
    settled = Measurement("speedup", trials, MeasurementDetails(trials=(1,) * 10))
    assert [row.verdict for row in check(reading("n", settled), rules=("speedup=floor:1.2",)).rows] == [
        Verdict.PASS
    ]


def test_a_limit_is_not_judged_by_what_was_disturbed() -> None:
    disturbed = reading("n", speedup(0.5), cautions=(busy(),))
    (row,) = check(disturbed, rules=("speedup=floor:1.2",)).rows
    assert row.verdict is Verdict.INCONCLUSIVE
    assert "it was disturbed while it was timed" in row.detail


def test_undisturbed_trials_are_judged_without_the_others() -> None:
    steady = [1e-3 * (1 + 0.001 * number) for number in range(5)]
    details = MeasurementDetails(trials=(1,) * 6, disturbed=(5,))
    measured = Measurement("abs_latency", (*steady, 9e-3), details)
    base = reading("b", latency(*steady, trials=5))
    (row,) = check(reading("n", measured, cautions=(busy(),)), base).rows
    assert row.verdict is Verdict.PASS
    assert row.new_value == pytest.approx(row.expected_value)


def test_a_run_that_may_have_been_judged_several_times_is_judged_at_its_share_of_alpha() -> None:
    base = reading("b", latency(*(1e-3 * (1 + 0.01 * number) for number in range(5)), trials=5))
    slower = latency(*(1.2e-3 * (1 + 0.01 * number) for number in range(5)), trials=5)
    for looks in (None, 5):
        new = reading("n", slower, settings=measured_settings(looks=looks))
        results = check(new, base), compare_results(CompareRequest(base=(base,), new=(new,)))
        for result in results:
            (row,) = result.rows
            assert row.criteria is not None
            assert row.criteria.alpha == pytest.approx(0.01 / (looks or 1))


def test_a_metric_without_a_rule_is_the_same_within_the_usual_margin_and_else_undecided() -> None:
    for factor, verdict in ((1.0, Verdict.PASS), (2.0, Verdict.INCONCLUSIVE)):
        base, new = (
            reading(name, Measurement("tokens", tuple(level * (1 + 0.001 * n) for n in range(5)), FIVE))
            for name, level in (("b", 900.0), ("n", 900.0 * factor))
        )
        (row,) = check(new, base).rows
        assert row.verdict is verdict
        assert ("no rule says which direction" in row.detail) == (verdict is Verdict.INCONCLUSIVE)


FIVE = MeasurementDetails(trials=(1,) * 5)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_an_impossible_number_of_the_baseline_is_invalid(value: float) -> None:
    base, new = reading("b", latency(value)), reading("n", latency(1e-3))
    for result in (check(new, base), compare_results(CompareRequest(base=(base,), new=(new,)))):
        assert [row.verdict for row in result.rows] == [Verdict.INVALID]
        assert result.exit_code == 1


def test_looking_again_measures_a_row_whose_limit_needs_no_baseline() -> None:
    measured = reading("n", speedup(1.21, (1.205, 1.215)))
    (row,) = check(measured, rules=("speedup=floor:1.2",)).rows
    assert row.verdict is Verdict.INCONCLUSIVE
    assert "99% interval" in row.detail
    assert needs_more(row)
    assert "--trials 5, or run with --decide" in check(measured, rules=("speedup=floor:1.2",)).render("text")


def test_both_sides_that_were_disturbed_are_named() -> None:
    base, new = (reading(name, speedup(1.5), cautions=(busy(),)) for name in "bn")
    result = check(new, base)
    (row,) = result.rows
    assert row.detail == (
        "the baseline and it were disturbed while they were timed: other work had the processor 60% of the time"
    )
    assert "measure it and the baseline again on a quiet machine" in " ".join(result.render("text").split())


def test_an_undecided_row_has_the_command_that_measures_it_in_as_many_trials_as_it_takes() -> None:
    settings = Settings(sources={"smoke": BenchmarkSource("suite", "smoke")}, threads=1)
    base, new = (
        reading(name, speedup(value), settings=settings) for name, value in (("b", 1.5), ("n", 1.47))
    )
    result = check(new, base)
    (row,) = result.rows
    assert row.more_new is not None
    text = " ".join(result.render("text").replace("\\\n", " ").split())
    assert "torchstone run smoke --only a --probe performance" in text
    assert f"--threads 1 --trials {1 + row.more_new}" in text


@pytest.mark.parametrize("metric", ["compile_seconds", "compilation_latency"])
def test_a_compile_time_taken_while_others_had_the_processor_is_neither_red_nor_green(metric: str) -> None:
    base = reading("b", Measurement(metric, (10.0,)), speedup(1.5, (1.49, 1.51)))
    for factor in (3.0, 0.2):
        new = reading(
            "n",
            Measurement(metric, (10.0 * factor,)),
            speedup(1.0, (0.99, 1.01)),
            cautions=(busy_while_compiling(),),
        )
        for result in (check(new, base), compare_results(CompareRequest(base=(base,), new=(new,)))):
            verdicts = {row.metric: row.verdict for row in result.rows}
            assert verdicts == {metric: Verdict.INCONCLUSIVE, "speedup": Verdict.REGRESSION}
            (row,) = [row for row in result.rows if row.metric == metric]
            assert row.detail == (
                "it was disturbed while it was compiled: other work had the processor 40% of the time"
            )


@pytest.mark.parametrize(
    ("metric", "values", "is_strained"),
    [
        ("cold_compile_seconds", (10.0, 30.0), True),
        ("warm_first_result_seconds", (10.0, 30.0), True),
        ("warm_saved", (90.0, 40.0), True),
        ("warm_hit_rate", (100.0, 50.0), False),
    ],
)
def test_the_times_of_the_compile_cache_probe_are_compile_times(
    metric: str, values: tuple[float, float], is_strained: bool
) -> None:
    assert (
        disturbance_of(
            Outcome(CASE, "pass", (Measurement(metric, values[1:]),), cautions=(busy_while_compiling(),)),
            metric,
        )
        is not None
    ) == is_strained
