"""Rounds as curves over ranks: what belongs together, in which order, and what follows from samples alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from record_strategies import ddp_runs
from scaling_samples import (
    MLP,
    bucket_rounds,
    ddp_report,
    round_case,
    round_failed,
    round_passed,
    scaling_run,
    sweep_of,
    times_of,
)
from torchstone.analyze.scaling_curves import ScalingSweep, collect_sweeps, rank_count
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.formats.torch import ddp


def only(outcomes: list[Outcome], planned: tuple[Case, ...] = ()) -> ScalingSweep:
    (sweep,) = collect_sweeps(outcomes, planned)
    return sweep


def bare(strategy: str, ranks: int, seconds: float, batch_size: int | None = 10) -> Outcome:
    """A round as a file has it that states nothing but samples."""
    further = (("ranks", str(ranks)), ("strategy", strategy))
    case = Case("mlp", "scaling", variant=Variant(batch_size=batch_size, further=further))
    return Outcome(case, "pass", (Measurement("iteration_time", (seconds,)),))


class TestGrouping:
    def test_rounds_of_a_benchmark_are_one_sweep_with_a_curve_for_each_strategy(self) -> None:
        mlp, convnet, transformer = collect_sweeps(scaling_run().outcomes)
        assert [sweep.of.benchmark for sweep in (mlp, convnet, transformer)] == [
            "mlp",
            "convnet",
            "transformer",
        ]
        assert [(curve.strategy, [point.ranks for point in curve.points]) for curve in mlp.curves] == [
            ("none", [1]),
            ("ddp", [1, 2, 4, 8]),
            ("fsdp", [2, 4, 8]),
        ]

    def test_the_order_of_the_outcomes_does_not_matter(self) -> None:
        outcomes = sweep_of("mlp", MLP)
        assert only(outcomes[::-1]) == only(outcomes)

    def test_another_dtype_or_batch_size_is_another_sweep(self) -> None:
        outcomes = [
            round_passed(round_case("mlp", "ddp", 2, dtype=dtype, batch_size=size), times_of(0.1, 2))
            for dtype in ("float32", "bfloat16")
            for size in (8, 16)
        ]
        assert len(collect_sweeps(outcomes)) == 4

    def test_another_bucket_size_or_collective_is_another_curve_and_sizes_are_in_order(self) -> None:
        buckets = bucket_rounds("mlp", {"25": 0.1, "5": 0.1, "100": 0.1})
        other = round_passed(round_case("mlp", "ddp", 2, collective="mpi"), times_of(0.1, 2))
        curves = [(curve.bucket, curve.collective) for curve in only([*buckets, other]).curves]
        assert curves == [("5", "gloo"), ("25", "gloo"), ("25", "mpi"), ("100", "gloo")]

    def test_cases_of_other_probes_and_without_a_count_of_ranks_are_left_out(self) -> None:
        other = Outcome(Case("mlp", "performance", variant=Variant(further=(("ranks", "2"),))), "pass")
        without = [
            Outcome(Case("mlp", "scaling", variant=Variant(further=further)), "pass")
            for further in ((), (("ranks", "0 1"),), (("ranks", "0"),), (("ranks", "9" * 5000),))
        ]
        assert collect_sweeps([other, *without]) == []
        assert rank_count(round_case("mlp", "ddp", 16)) == 16


class TestNumbers:
    def test_a_round_has_what_it_states(self) -> None:
        point = only(sweep_of("mlp", MLP)).curves[1].points[1]
        stated = {m.metric: m.value for m in point.outcome.measurements} if point.outcome else {}
        assert point.seconds == stated["iteration_time"]
        assert point.slow_seconds == stated["iteration_time_p95"]
        assert point.examples == stated["examples_per_second"]
        assert point.efficiency == stated["scaling_efficiency"]
        assert point.communication == stated["communication_share"] == 11.0
        assert point.rank_spread == stated["rank_spread"]
        assert point.peak == pytest.approx(0.32)  # of the largest rank

    def test_what_a_file_of_samples_does_not_state_follows_from_them(self) -> None:
        sweep = only([bare("none", 1, 0.5), bare("ddp", 4, 0.8)])
        none, four = sweep.points
        assert (none.examples, none.efficiency) == (20.0, 100.0)
        assert four.examples == pytest.approx(10 * 4 / 0.8)
        assert four.efficiency == pytest.approx(62.5)
        assert sweep.smallest == none

    def test_without_a_batch_size_there_are_no_examples(self) -> None:
        point = only([bare("none", 1, 0.5, None)]).points[0]
        assert (point.seconds, point.examples, point.efficiency) == (0.5, None, None)

    def test_a_report_of_the_original_has_curves_too(self) -> None:
        sweep = only(list(ddp.read("ddp.json", ddp_report()).run.outcomes))
        assert [(curve.strategy, len(curve.points)) for curve in sweep.curves] == [("none", 1), ("ddp", 3)]
        assert sweep.curves[1].points[-1].ranks == 4
        assert 50 < (sweep.curves[1].points[-1].efficiency or 0) < 70

    def test_efficiency_does_not_follow_if_the_smallest_round_failed(self) -> None:
        failed = structs.replace(bare("none", 1, 0.5), status="timeout", measurements=())
        assert [point.efficiency for point in only([failed, bare("ddp", 4, 0.8)]).points] == [None, None]

    def test_nor_if_it_was_planned_and_not_measured(self) -> None:
        planned = bare("none", 1, 0.5).case
        sweep = only([bare("ddp", 4, 0.8)], (planned,))
        assert [(point.ranks, point.outcome is None) for point in sweep.points] == [(1, True), (4, False)]
        assert [point.efficiency for point in sweep.points] == [None, None]

    def test_nor_if_several_are_the_smallest(self) -> None:
        assert {point.efficiency for point in only(bucket_rounds("mlp", {"5": 0.1, "25": 0.2})).points} == {
            None
        }

    def test_a_round_that_failed_has_no_numbers_even_if_trials_before_it_do(self) -> None:
        times = times_of(0.1, 2)
        failed = structs.replace(round_failed(round_case("mlp", "ddp", 2)), measurements=(times,))
        point = only([failed]).points[0]
        assert (point.seconds, point.examples) == (None, None)

    @pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), 1e308, 1e-308, 10**400])
    def test_a_number_that_nobody_can_have_measured_is_none(self, value: float) -> None:
        outcome = structs.replace(
            bare("none", 1, 1.0), measurements=(Measurement("iteration_time", (value,)),)
        )
        point = only([outcome]).points[0]
        assert (point.seconds, point.slow_seconds, point.examples) == (None, None, None)


@given(run=ddp_runs())
def test_every_round_of_a_report_is_in_one_curve(run: Run) -> None:
    cases = {outcome.case for outcome in run.outcomes}
    points = [point for sweep in collect_sweeps(run.outcomes) for point in sweep.points]
    assert sorted(point.case.id for point in points) == sorted(case.id for case in cases)


@given(st.lists(st.tuples(st.sampled_from(["none", "ddp"]), st.integers(1, 64)), min_size=1, unique=True))
def test_the_smallest_round_has_100_percent(rounds: list[tuple[str, int]]) -> None:
    sweep = only([bare(strategy, ranks, 0.1) for strategy, ranks in rounds])
    assert sweep.smallest.efficiency == pytest.approx(100)
