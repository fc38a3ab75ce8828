"""Host-bound cases, whose wall time is left to the device's own; and devices that were throttled or shared. In check and compare alike."""

from __future__ import annotations

import pytest

from run_pairs import VARIANT, busy, make_reading, measured_settings
from torchstone.api.judging.check import CheckResult, check_results
from torchstone.api.judging.check_request import CheckRequest
from torchstone.api.judging.compare import CompareRequest, CompareResult, compare_results
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.records import Case, Measurement, Outcome, Reading
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import State

CASE = Case("gpt", "performance", "smoke", VARIANT)
SETTLED = {Verdict.PASS, Verdict.SAME}


def host_bound(side: str = "compiled") -> Caution:
    return make_caution(CautionKind.HOST_BOUND, side=side, submit=6.0, busy=4.5, idle=0.3)


def reading(name: str, *cautions: Caution, wall: float, device: float | None) -> Reading:
    measured = [Measurement("abs_latency", (wall,) * 40)]
    if device is not None:
        interval = (1.36 / device * 0.99, 1.36 / device * 1.01)
        details = MeasurementDetails(interval=interval, confidence=0.95)
        measured += [
            Measurement("device_latency", (device,) * 40),
            Measurement("device_speedup", (1.36 / device,), details),
        ]
    outcome = Outcome(CASE, "pass", tuple(measured), cautions=cautions)
    return make_reading(name, [outcome], measured_settings())


def both(base: Reading, new: Reading) -> tuple[CheckResult | CompareResult, ...]:
    return (
        check_results(CheckRequest(results=(new,), baselines=(base,))),
        compare_results(CompareRequest(base=(base,), new=(new,))),
    )


@pytest.mark.parametrize("wall", [2.0, 0.4])
def test_a_wall_time_that_the_host_changed_is_neither_red_nor_green_and_does_not_block(wall: float) -> None:
    for result in both(
        reading("b", host_bound(), wall=1.0, device=0.5), reading("n", host_bound(), wall=wall, device=0.5)
    ):
        rows = {row.metric: row for row in result.rows}
        assert rows["abs_latency"].verdict is Verdict.INCONCLUSIVE
        assert rows["abs_latency"].ruling.detail == (
            "host-bound: this wall time measures the host; device_latency decides"
        )
        assert rows["device_latency"].verdict in SETTLED
        assert result.exit_code == 0


def test_a_device_time_that_changed_is_red_whatever_the_host_did() -> None:
    for result in both(
        reading("b", host_bound(), wall=1.0, device=0.5), reading("n", host_bound(), wall=1.0, device=0.56)
    ):
        rows = {row.metric: row.verdict for row in result.rows}
        assert rows["device_latency"] is Verdict.REGRESSION
        assert rows["device_speedup"] is Verdict.REGRESSION
        assert rows["abs_latency"] in SETTLED
        assert result.exit_code == 1


def test_without_device_time_on_both_sides_a_host_bound_wall_time_is_undecided_and_blocks() -> None:
    for result in both(reading("b", wall=1.0, device=None), reading("n", host_bound(), wall=2.0, device=0.5)):
        row = next(row for row in result.rows if row.metric == "abs_latency")
        assert row.verdict is Verdict.INCONCLUSIVE
        assert row.ruling.detail.endswith("not both sides have the device's own time")
        assert result.exit_code == 1


def test_a_wall_time_of_calls_that_are_not_host_bound_is_judged_as_ever() -> None:
    for result in both(
        reading("b", host_bound("eager"), wall=1.0, device=0.5), reading("n", wall=2.0, device=0.5)
    ):
        row = next(row for row in result.rows if row.metric == "abs_latency")
        assert row.verdict is Verdict.REGRESSION


def test_a_baseline_that_had_device_time_and_results_that_cannot_have_it_are_undecided_with_the_reason() -> (
    None
):
    details = OutcomeDetails(left_out={"device_latency": "torch's profiler does not record mps devices here"})
    new = make_reading(
        "n",
        [Outcome(CASE, "pass", (Measurement("abs_latency", (1.0,) * 40),), details=details)],
        measured_settings(),
    )
    for result in both(reading("b", wall=1.0, device=0.5), new):
        row = next(row for row in result.rows if row.metric == "device_latency")
        assert row.verdict is Verdict.INCONCLUSIVE
        assert "does not record mps" in row.ruling.detail


def test_a_busy_processor_does_not_make_device_time_unusable() -> None:
    for result in both(
        reading("b", busy(), wall=1.0, device=0.5), reading("n", busy(), wall=2.0, device=0.56)
    ):
        rows = {row.metric: row.verdict for row in result.rows}
        assert rows["device_latency"] is Verdict.REGRESSION
        assert rows["abs_latency"] is Verdict.INCONCLUSIVE


def test_a_judgement_in_which_the_device_decides_is_a_pass_and_not_undecided() -> None:
    for result in both(
        reading("b", host_bound(), wall=1.0, device=0.5), reading("n", host_bound(), wall=2.0, device=0.5)
    ):
        judgement = result.report.judgement
        assert judgement.state is State.PASS
        assert judgement.undecided == []


THROTTLED = make_caution(CautionKind.DEVICE_THROTTLED, reasons="too hot", clock=1200.0)
SHARED = make_caution(CautionKind.DEVICE_SHARED, processes="python (process 7)")


@pytest.mark.parametrize(
    ("caution", "why"),
    [
        (THROTTLED, "the device was throttled (too hot)"),
        (SHARED, "others used the device (python (process 7))"),
    ],
)
def test_what_was_timed_on_a_device_that_was_throttled_or_shared_is_neither_red_nor_green(
    caution: Caution, why: str
) -> None:
    for result in both(reading("b", wall=1.0, device=0.5), reading("n", caution, wall=2.0, device=0.7)):
        rows = [
            row for row in result.rows if row.metric in {"abs_latency", "device_latency", "device_speedup"}
        ]
        assert len(rows) == 3
        for row in rows:
            assert row.verdict is Verdict.INCONCLUSIVE
            assert row.ruling.detail == f"it was disturbed while it was timed: {why}"
