"""Bucket sizes against the fastest: what can be told, what cannot, and how often that is wrong."""

from __future__ import annotations

import random

import pytest

from scaling_samples import bucket_rounds, round_case, round_passed, sweep_of
from stated_facts import measurement_of
from torchstone.analyze.bucket_sizes import Bucket, BucketSweep, independent_values, sweep_buckets
from torchstone.analyze.scaling_curves import collect_sweeps
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Measurement, Outcome

FOUR = {"1": 0.061, "5": 0.0534, "25": 0.0512, "50": 0.0513}


def only(outcomes: list[Outcome]) -> BucketSweep:
    (sweep,) = collect_sweeps(outcomes)
    (buckets,) = sweep_buckets(sweep)
    return buckets


def by_size(sweep: BucketSweep) -> dict[str, Bucket]:
    return {bucket.size: bucket for bucket in sweep.buckets}


class TestSweeps:
    def test_each_number_of_ranks_with_several_sizes_is_one(self) -> None:
        two = bucket_rounds("mlp", {"25": 0.1, "5": 0.2})
        four = bucket_rounds("mlp", {"25": 0.1, "5": 0.2, "1": 0.3}, ranks=4)
        single = bucket_rounds("mlp", {"25": 0.1}, ranks=8)
        (sweep,) = collect_sweeps([*two, *four, *single])
        found = sweep_buckets(sweep)
        assert [(each.ranks, [bucket.size for bucket in each.buckets]) for each in found] == [
            (2, ["5", "25"]),
            (4, ["1", "5", "25"]),
        ]

    def test_rounds_without_buckets_are_none(self) -> None:
        (sweep,) = collect_sweeps(sweep_of("mlp", {("none", 1): 0.1, ("ddp", 2): 0.1, ("fsdp", 2): 0.2}))
        assert sweep_buckets(sweep) == []

    def test_the_fastest_is_the_one_with_the_shortest_iterations(self) -> None:
        sweep = only(bucket_rounds("mlp", FOUR))
        assert sweep.best is by_size(sweep)["25"]
        assert sweep.best.ratio == 1
        assert sweep.best.ratio_interval is None

    def test_a_size_that_failed_has_no_numbers_and_the_others_are_compared(self) -> None:
        sweep = only(bucket_rounds("mlp", {"1": 0.0, "5": 0.2, "25": 0.1}))
        failed, slow, best = sweep.buckets
        assert (failed.seconds, failed.interval, failed.ratio, failed.trials) == (None, None, None, 0)
        assert slow.is_slower
        assert sweep.best is best

    def test_where_all_failed_none_is_best(self) -> None:
        sweep = only(bucket_rounds("mlp", {"1": 0.0, "5": 0.0}))
        assert sweep.best is None
        assert sweep.trials == 0


class TestIntervals:
    def test_of_trials_they_are_students(self) -> None:
        values = (0.10, 0.11, 0.12)
        samples = tuple(value for value in values for _ in range(4))
        outcomes = [
            round_passed(
                round_case("mlp", "ddp", 2, bucket=bucket),
                Measurement(
                    "iteration_time",
                    tuple(times * s for s in samples),
                    MeasurementDetails(trials=(4,) * 3, ranks=(2, 2)),
                ),
            )
            for bucket, times in (("5", 1.0), ("25", 2.0))
        ]
        best, other = only(outcomes).buckets
        # mean of logarithms ± 4.3027 (t, 2 degrees of freedom, 95 %) standard errors, worked out by hand
        assert best.interval == pytest.approx((0.087460, 0.137586), rel=1e-4)
        assert (best.trials, other.trials) == (3, 3)
        assert other.ratio == pytest.approx(2)
        assert other.ratio_interval is not None
        assert other.ratio_interval[0] * other.ratio_interval[1] == pytest.approx(
            4
        )  # around 2, in logarithms

    def test_they_always_hold_the_value(self) -> None:
        for seed in range(20):
            sweep = only(bucket_rounds("mlp", {"5": 0.1 + seed / 1000, "25": 0.1}, trials=2 + seed % 3))
            for bucket in sweep.buckets:
                assert bucket.interval
                assert bucket.interval[0] <= (bucket.seconds or 0) <= bucket.interval[1]
                if bucket.ratio_interval:
                    assert bucket.ratio_interval[0] <= (bucket.ratio or 0) <= bucket.ratio_interval[1]

    def test_of_one_job_they_come_from_batches_of_iterations(self) -> None:
        sweep = only(bucket_rounds("mlp", FOUR, iterations=40))
        assert sweep.trials == 1
        assert all(bucket.interval for bucket in sweep.buckets)
        assert all(bucket.more is None for bucket in sweep.buckets)  # nothing says how much jobs differ

    def test_fewer_than_20_iterations_of_one_job_say_nothing(self) -> None:
        sweep = only(bucket_rounds("mlp", FOUR, iterations=19))
        assert {bucket.interval for bucket in sweep.buckets} == {None}
        assert not any(bucket.is_slower or bucket.is_as_fast for bucket in sweep.buckets)

    def test_ranks_that_go_in_step_are_not_counted_as_so_many_samples(self) -> None:
        chance = random.Random(7)  # noqa: S311
        steps = [chance.lognormvariate(0, 0.1) for _ in range(20)]
        one = Measurement("iteration_time", tuple(steps), MeasurementDetails(ranks=(20,)))
        eight = Measurement("iteration_time", tuple(steps * 8), MeasurementDetails(ranks=(20,) * 8))
        assert independent_values(eight) == independent_values(one)

    @pytest.mark.parametrize(
        "ranks", [None, "two", [], [20], [10, 30], [20.0, 20], [True] * 40, [0] * 40, [40, 40]]
    )
    def test_counts_that_do_not_fit_are_not_believed(self, ranks: object) -> None:
        times = measurement_of("iteration_time", range(1, 41), {"ranks": ranks})
        assert independent_values(times) == independent_values(Measurement("iteration_time", times.samples))


class TestHowOftenItIsWrong:
    def test_of_sizes_that_are_all_the_same_hardly_ever_is_one_called_slower(self) -> None:
        wrong = 0
        for number in range(300):
            sweep = only(_equal_sizes(random.Random(number), trials=4))  # noqa: S311
            wrong += any(bucket.is_slower for bucket in sweep.buckets)
        # 5 % is promised for the true fastest; here every size is that, so it holds for the sweep up to twice as much
        assert wrong <= 0.10 * 300

    def test_a_size_that_is_much_slower_is_found(self) -> None:
        found = 0
        for number in range(50):
            sweep = only(_equal_sizes(random.Random(number), trials=4, slow=1.2))  # noqa: S311
            found += by_size(sweep)["1"].is_slower
        assert found >= 48

    def test_more_trials_are_asked_for_where_they_would_help(self) -> None:
        sweep = only(bucket_rounds("mlp", FOUR, trials=3))
        assert by_size(sweep)["50"].more
        assert by_size(sweep)["1"].more is None


def _equal_sizes(chance: random.Random, trials: int, slow: float = 1.0) -> list[Outcome]:
    outcomes = []
    for bucket in ("1", "5", "25", "50"):
        level = 0.1 * (slow if bucket == "1" else 1)
        samples = tuple(level * chance.lognormvariate(0, 0.02) for _ in range(trials))
        times = Measurement("iteration_time", samples, MeasurementDetails(trials=(1,) * trials))
        outcomes.append(round_passed(round_case("mlp", "ddp", 1, bucket=bucket), times))
    return outcomes
