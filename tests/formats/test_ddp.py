from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from record_strategies import ddp_runs
from round_files import failed_round, round_case, round_of, scaling_run, sweep
from sample_files import DDP, DDP_REPORT, read_as, rewrite
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.formats import FORMATS
from torchstone.formats.torch.ddp import count_ranks, group_by_model, left_out, ranks_of, split


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
        "resnet50", "scaling", variant=Variant(batch_size=32, further=(("ranks", "1"), ("strategy", "none")))
    )
    assert dict(second.case.variant.further) == {"ranks": "1", "strategy": "ddp"}
    assert dict(third.case.variant.further) == {"ranks": "4", "strategy": "ddp"}
    assert (count_ranks(third.case), ranks_of(third.case)) == (4, [0, 1, 2, 3])
    assert first.measurements == (Measurement("iteration_time", (0.101, 0.1025, 0.1)),)
    assert [len(rounds) for _, _, rounds in group_by_model(reading.run)] == [3, 2]


@pytest.mark.parametrize("ranks", [[0, 2], [1], [1, 0], [0, 0], [8, 9, 10, 11]])
def test_ranks_that_are_not_the_first_ones_are_listed_beside_their_number(ranks: list[int]) -> None:
    text = report(result=[{"ranks": [0], "measurements": [0.1]}, {"ranks": ranks, "measurements": [0.2]}])
    case = read_as("ddp", text).run.outcomes[1].case
    assert case.variant.further == (
        ("rank_list", " ".join(map(str, ranks))),
        ("ranks", str(len(ranks))),
        ("strategy", "ddp"),
    )
    assert (count_ranks(case), ranks_of(case)) == (len(ranks), ranks)
    assert json.loads(rewrite("ddp", text)) == json.loads(text)


def test_the_head_of_a_report_is_kept_as_settings() -> None:
    assert read_as("ddp", DDP).run.settings.rest == {
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
        "a", "scaling", variant=Variant(batch_size=4, further=(("ranks", "1"), ("strategy", "none")))
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


@pytest.mark.parametrize("ranks", ["a b", "²", "-1", "1.5", "", "0", "0 1", "1000000", "9" * 5000])
def test_ranks_that_are_no_numbers_are_none(ranks: str) -> None:
    assert ranks_of(Case("a", "scaling", variant=Variant(further=(("ranks", ranks),)))) == []


@settings(deadline=None)
@given(ddp_runs())
def test_a_run_that_is_written_reads_the_same(run: Run) -> None:
    assert read_as("ddp", FORMATS["ddp"].write(run)).run == run


GOLDEN = sorted((Path(__file__).parent.parent / "golden" / "ddp_diff").glob("*.json"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_reports_of_the_recorded_comparisons_are_written_as_they_were_read(path: Path) -> None:
    golden = json.loads(path.read_text())
    for side in ("baseline_json", "test_json"):
        assert json.loads(rewrite("ddp", json.dumps(golden[side]))) == golden[side]


def written(*outcomes: Outcome) -> Any:  # noqa: ANN401  (JSON is anything)
    return json.loads(FORMATS["ddp"].write(scaling_run(*outcomes)))


def test_what_torchstone_measured_is_a_report_with_the_head_of_the_original() -> None:
    report = written(*sweep())
    rounds = report.pop("benchmark_results")[0]["result"]
    assert report == {
        "pytorch_version": "2.13.0+cu130",
        "cuda_version": "13.0",
        "distributed_backend": "gloo",
        "bucket_size": 25,
    }
    assert [each["ranks"] for each in rounds] == [[0], [0], [0, 1], [0, 1, 2, 3]]
    assert rounds[2]["measurements"] == [0.1, 0.101, 0.102, 0.103]


def test_rounds_are_written_in_the_order_of_the_original_whatever_the_order_of_the_run() -> None:
    mlp, convnet = sweep("mlp"), sweep("convnet", 0.2)
    report = written(*(outcome for pair in zip(mlp, convnet, strict=True) for outcome in reversed(pair)))
    assert [entry["model"] for entry in report["benchmark_results"]] == ["convnet", "mlp"]
    assert report == written(*convnet, *mlp) == written(*reversed(convnet), *reversed(mlp))


def test_a_model_without_a_round_without_ddp_is_left_out_and_so_is_a_round_that_no_report_has() -> None:
    alone, *with_ddp = sweep("convnet")
    outcomes = [
        *sweep("mlp")[:-1],
        failed_round(round_case("mlp", 4)),
        failed_round(alone.case, "OOM"),
        *with_ddp[:1],
        round_of(round_case("mlp", 2, "fsdp")),
    ]
    (entry,) = written(*outcomes)["benchmark_results"]
    assert (entry["model"], len(entry["result"])) == ("mlp", 3)
    assert left_out(scaling_run(*outcomes)) == [
        "1 round with fsdp: a DDP report cannot hold them",
        "mlp on 4 ranks: timeout",
        "convnet on 1 rank without DDP: OOM",
        "convnet on 1 rank: its model has no result without DDP, which has to be the first",
    ]
    with pytest.raises(UsageError, match="no model has a result without DDP"):
        written(*with_ddp)


def test_a_report_has_one_bucket_size() -> None:
    outcomes = [*sweep(), *(round_of(round_case("mlp", ranks, bucket="2.5")) for ranks in (1, 2))]
    with pytest.raises(UsageError, match=r"one bucket_mb, and these results have 25 and 2\.5\n") as caught:
        written(*outcomes)
    assert caught.value.advice.endswith("--only '*bucket_mb=2.5,*' --only '*strategy=none*'")
    parts = split(scaling_run(*outcomes))
    assert [axes for axes, _ in parts] == [{"bucket_mb": "25"}, {"bucket_mb": "2.5"}]
    reports = [json.loads(FORMATS["ddp"].write(run)) for _, run in parts]
    assert [report["bucket_size"] for report in reports] == [25, 2.5]
    ranks = [[each["ranks"] for each in report["benchmark_results"][0]["result"]] for report in reports]
    assert ranks == [[[0], [0], [0, 1], [0, 1, 2, 3]], [[0], [0], [0, 1]]]


def test_a_report_has_one_dtype_and_its_rounds_stay_together() -> None:
    parts = split(scaling_run(*sweep(), *sweep(dtype="bfloat16", bucket="1")))
    assert [axes for axes, _ in parts] == [
        {"dtype": "float32", "bucket_mb": "25"},
        {"dtype": "bfloat16", "bucket_mb": "1"},
    ]
    assert [{o.case.variant.dtype for o in run.outcomes} for _, run in parts] == [{"float32"}, {"bfloat16"}]


def test_models_of_two_suites_share_a_report_unless_they_share_a_name() -> None:
    assert len(written(*sweep("mlp"), *sweep("lstm", suite="smoke"))["benchmark_results"]) == 2
    with pytest.raises(UsageError, match="mlp is in scaling and in smoke"):
        written(*sweep("mlp"), *sweep("mlp", suite="smoke"))


def test_rounds_without_any_ddp_have_no_bucket_size() -> None:
    report = written(*sweep()[:1])
    assert (report["distributed_backend"], report["bucket_size"]) == (None, None)
