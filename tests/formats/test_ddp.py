from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from record_strategies import ddp_runs
from sample_files import DDP, DDP_REPORT, read_as, rewrite
from torchstone.errors import InputError
from torchstone.formats import FORMATS
from torchstone.formats.ddp import group_by_model, ranks_of
from torchstone.model import Case, Measurement, Outcome, Run, Variant


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_as("ddp", text, "bad.json")
    assert caught.value.path == "bad.json"
    return caught.value


def report(**changes: object) -> str:
    model = {"model": "resnet50", "batch_size": 32, "result": [{"ranks": [0], "measurements": [0.1]}]}
    return json.dumps({"benchmark_results": [model | changes]})


def test_each_round_is_a_case_and_the_first_is_without_ddp() -> None:
    reading = read_as("ddp", DDP)
    first, second, third, *_ = reading.run.outcomes
    assert first.case == Case(
        "resnet50", "scaling", variant=Variant(batch_size=32, further=(("ranks", "0"), ("strategy", "none")))
    )
    assert dict(second.case.variant.further) == {"ranks": "0", "strategy": "ddp"}
    assert ranks_of(third.case) == [0, 1, 2, 3]
    assert first.measurements == (Measurement("iteration_time", (0.101, 0.1025, 0.1)),)
    assert [len(rounds) for _, _, rounds in group_by_model(reading.run)] == [3, 2]


def test_the_head_of_a_report_is_kept_as_settings() -> None:
    assert read_as("ddp", DDP).run.settings == {
        "pytorch_version": "2.9.0",
        "cuda_version": "12.8",
        "distributed_backend": "nccl",
        "bucket_size": 25,
    }


def test_a_report_comes_back_byte_for_byte() -> None:
    assert rewrite("ddp", DDP) == DDP


def test_a_report_over_several_lines_says_the_same() -> None:
    assert json.loads(rewrite("ddp", json.dumps(DDP_REPORT, indent=4))) == DDP_REPORT


def test_the_same_model_twice_stays_two_entries() -> None:
    entry: Any = DDP_REPORT["benchmark_results"][0]
    twice = {"benchmark_results": [entry, entry]}
    assert json.loads(rewrite("ddp", json.dumps(twice))) == twice


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[]", 1, None),
        ("\n{}", 2, "benchmark_results"),
        ('{"benchmark_results": []}', 1, "benchmark_results"),
        ('{"benchmark_results": {}}', 1, "benchmark_results"),
        ('{"benchmark_results": [5]}', 1, "benchmark_results[0]"),
        (DDP + DDP, 2, None),
        (f"[{DDP},{DDP}]", 2, None),
        (report(model=""), 1, "benchmark_results[0].model"),
        (report(model="a\nb"), 1, "benchmark_results[0].model"),
        (report(batch_size=0), 1, "benchmark_results[0].batch_size"),
        (report(batch_size=True), 1, "benchmark_results[0].batch_size"),
        (report(batch_size="32"), 1, "benchmark_results[0].batch_size"),
        (report(result=[]), 1, "benchmark_results"),
        (report(result=[{"measurements": [1]}]), 1, "resnet50.result[0].ranks"),
        (report(result=[{"ranks": [-1], "measurements": [1]}]), 1, "resnet50.result[0].ranks"),
        (report(result=[{"ranks": [True], "measurements": [1]}]), 1, "resnet50.result[0].ranks"),
        (report(result=[{"ranks": [10**18], "measurements": [1]}]), 1, "resnet50.result[0].ranks"),
        (report(result=[{"ranks": [0], "measurements": []}]), 1, "resnet50.result[0].measurements"),
        (report(result=[{"ranks": [0], "measurements": [0]}]), 1, "resnet50.result[0].measurements"),
        (report(result=[{"ranks": [0], "measurements": [None]}]), 1, "resnet50.result[0].measurements"),
        (DDP[:-4], 1, len(DDP) - 3),
        (DDP.replace("0.5]", "NaN]"), 1, None),
        (DDP.replace("0.5]", "1e400]"), 1, None),
        (DDP.replace("25", "1e400"), 1, None),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(
    text: str, line: int, column: str | int | None
) -> None:
    error = refused(text)
    assert (error.line, error.column) == (line, column)


def test_only_iteration_times_of_scaling_are_written() -> None:
    scaling = Case(
        "a", "scaling", variant=Variant(batch_size=4, further=(("ranks", "0"), ("strategy", "none")))
    )
    other = Case("a", "performance", variant=scaling.variant)
    outcomes = (
        Outcome(scaling, "pass", (Measurement("own", (9,)), Measurement("iteration_time", (0.5, 0.25)))),
        Outcome(other, "pass", (Measurement("iteration_time", (7,)),)),
    )
    written = FORMATS["ddp"].write(Run("x", (scaling, other), outcomes))
    assert json.loads(written)["benchmark_results"] == [
        {"model": "a", "batch_size": 4, "result": [{"ranks": [0], "measurements": [0.5, 0.25]}]}
    ]


@pytest.mark.parametrize("ranks", ["a b", "²", "-1", "1.5", "", "9" * 5000])
def test_ranks_that_are_no_numbers_are_none(ranks: str) -> None:
    assert ranks_of(Case("a", "scaling", variant=Variant(further=(("ranks", ranks),)))) == []


@settings(deadline=None)
@given(ddp_runs())
def test_a_run_that_is_written_reads_the_same(run: Run) -> None:
    assert read_as("ddp", FORMATS["ddp"].write(run)).run == run
