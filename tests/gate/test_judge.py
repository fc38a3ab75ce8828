"""What the gate makes of results, baselines and rules, seen through ``torchstone check --format json``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from comparison_files import case_of, passed, times, write_run
from conftest import Command, WriteFile
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run

HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks\n"
PERFORMANCE = "dev,name,batch_size,speedup,abs_latency,compression_ratio\n"

Check = Callable[..., dict[str, Any]]


@pytest.fixture
def check(torchstone: Command) -> Check:
    def call(*arguments: str) -> dict[str, Any]:
        ran = torchstone("check", *arguments, "--format", "json")
        assert ran.err == ""
        report: dict[str, Any] = json.loads(ran.out)
        assert report["exit_code"] == ran.code
        return report

    return call


def verdicts(report: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(row["name"], row["metric"]): row["verdict"] for row in report["rows"]}


def test_everything_as_expected_passes(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,10,1,0\ncuda,b,8,OOM,10,1,2\n")
    baseline = write("e.csv", "name,accuracy,graph_breaks\na,pass,0\nb,OOM,2\n")
    report = check(results, "--baseline", baseline)
    assert report["exit_code"] == 0
    assert verdicts(report) == {
        ("a", "accuracy"): "pass",
        ("a", "graph_breaks"): "pass",
        ("b", "accuracy"): "expected_failure",
        ("b", "graph_breaks"): "pass",
    }
    assert report["summary"] == {
        "planned": 2,
        "judged": 2,
        "red": 0,
        "undecided": 0,
        "improved": 0,
        "quarantined": 0,
        "missing": 0,
        "new": 0,
    }


def test_all_rules_run_even_when_one_fails(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,fail_accuracy,10,1,4\n")
    baseline = write("e.csv", "name,accuracy,graph_breaks,calls_captured\na,pass,0,20\n")
    report = check(results, "--baseline", baseline)
    assert set(verdicts(report).values()) == {"regression"}
    assert len(report["rows"]) == 3
    assert report["summary"]["red"] == 1


def test_a_model_that_vanished_blocks(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,10,1,0\n")
    baseline = write("e.csv", "name,accuracy\na,pass\ncrashed,pass\n")
    report = check(results, "--baseline", baseline)
    assert verdicts(report)["crashed", "accuracy"] == "missing"
    assert (report["exit_code"], report["summary"]["missing"]) == (1, 1)


def test_a_model_without_a_baseline_blocks_unless_allowed(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,10,1,0\ncuda,b,8,pass,10,1,0\n")
    baseline = write("e.csv", "name,accuracy\na,pass\n")
    assert check(results, "--baseline", baseline)["exit_code"] == 1
    assert check(results, "--baseline", baseline, "--allow", "new")["exit_code"] == 0


def test_an_improvement_is_reported_and_blocks_only_if_asked(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,10,1,0\n")
    baseline = write("e.csv", "name,accuracy,graph_breaks\na,fail_to_run,0\n")
    report = check(results, "--baseline", baseline)
    assert (report["exit_code"], report["summary"]["improved"]) == (0, 1)
    assert check(results, "--baseline", baseline, "--block", "improvement")["exit_code"] == 1


def test_an_empty_cell_expects_nothing_but_an_absent_metric_is_missing(
    check: Check, write: WriteFile
) -> None:
    results = write("r.csv", "dev,name,batch_size,accuracy\ncuda,a,8,pass\ncuda,b,8,pass\n")
    baseline = write("e.csv", "name,accuracy,graph_breaks\na,pass,\nb,pass,0\n")
    assert verdicts(check(results, "--baseline", baseline)) == {
        ("a", "accuracy"): "pass",
        ("b", "accuracy"): "pass",
        ("b", "graph_breaks"): "missing",
    }


def test_the_zeros_of_a_failed_row_are_no_measurements(check: Check, write: WriteFile) -> None:
    padded = write("r.csv", HEADER + "cuda,a,0,fail_to_run,0,0,0\n")
    short = write("s.csv", HEADER + "cuda,a,0,fail_to_run\n")
    baseline = write("e.csv", "name,accuracy,graph_breaks\na,pass,5\n")
    for results in (padded, short):
        assert verdicts(check(results, "--baseline", baseline)) == {("a", "accuracy"): "regression"}


def test_a_performance_row_that_failed_is_a_regression_of_what_it_should_have_measured(
    check: Check, write: WriteFile
) -> None:
    results = write("r.csv", PERFORMANCE + "cuda,a,0,0.0,0.0\n")
    baseline = write("e.csv", "name,compression_ratio\na,1.1\n")
    report = check(results, "--baseline", baseline)
    assert verdicts(report) == {("a", "compression_ratio"): "regression"}
    assert report["rows"][0]["actual"] == "failed"


def test_a_performance_row_that_is_expected_to_fail_is_judged_too(check: Check, write: WriteFile) -> None:
    baseline = write("b.csv", PERFORMANCE + "cuda,a,0,0.0,0.0\ncuda,b,0,0.0,0.0\n")
    results = write("r.csv", PERFORMANCE + "cuda,a,0,0.0,0.0\ncuda,b,8,1.5,2.0,1.0\n")
    report = check(results, "--baseline", baseline)
    assert verdicts(report) == {("a", "accuracy"): "expected_failure", ("b", "accuracy"): "improvement"}


def test_another_batch_size_is_not_compared_unless_told_to(check: Check, write: WriteFile) -> None:
    results = write("r.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\n")
    baseline = write("b.csv", PERFORMANCE + "cuda,a,16,1.5,2.0,1.0\n")
    report = check(results, "--baseline", baseline)
    assert set(verdicts(report).values()) == {"inconclusive"}
    assert "batch_size is 8, expected 16" in report["rows"][0]["detail"]
    assert report["exit_code"] == 1
    assert check(results, "--baseline", baseline, "--compare-anyway")["exit_code"] == 0


def test_a_result_that_cannot_be_compared_leaves_its_row_to_one_that_can(
    check: Check, write: WriteFile
) -> None:
    results = write("r.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\ncuda,a,16,1.5,2.0,1.0\n")
    baseline = write("b.csv", PERFORMANCE + "cuda,a,16,1.5,2.0,1.0\n")
    report = check(results, "--baseline", baseline)
    assert [row["verdict"] for row in report["rows"]] == ["inconclusive", "pass", "pass", "pass"]


def test_of_several_rows_none_of_which_fits_none_is_taken(check: Check, write: WriteFile) -> None:
    results = write("r.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\n")
    baseline = write("b.csv", PERFORMANCE + "cuda,a,16,1.5,2.0,1.0\ncuda,a,32,1.5,2.0,1.0\n")
    report = check(results, "--baseline", baseline)
    assert [row["verdict"] for row in report["rows"]] == ["new", "missing", "missing"]


def test_rounds_of_ddp_reports_are_judged_by_model_batch_size_and_ranks(
    check: Check, write: WriteFile
) -> None:
    def report(seconds: float) -> str:
        rounds = [{"ranks": list(range(n)), "measurements": [seconds, seconds]} for n in (1, 1, 2)]
        return json.dumps({"benchmark_results": [{"model": "resnet50", "batch_size": 32, "result": rounds}]})

    base = write("base.json", report(0.1))
    assert check(write("same.json", report(0.102)), "--baseline", base)["exit_code"] == 0
    slower = check(write("slower.json", report(0.14)), "--baseline", base)
    assert [row["verdict"] for row in slower["rows"]] == ["regression"] * 3
    assert [row["ranks"] for row in slower["ddp_rows"]] == [1, 2]


def test_a_check_that_judges_nothing_is_an_error(torchstone: Command, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\n")
    write("torchstone.toml", '[[rule]]\nmetric = "speedup"\nkind = "floor"\nlow = 1\n')
    ran = torchstone("check", results)
    assert (ran.code, "nothing was judged" in ran.err) == (2, True)


def test_a_pinned_run_can_be_the_baseline(check: Check, write: WriteFile) -> None:
    baseline = write("b.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\n")
    slower = write("r.csv", PERFORMANCE + "cuda,a,8,1.5,2.4,1.0\n")
    assert verdicts(check(slower, "--baseline", baseline)) == {
        ("a", "speedup"): "pass",
        ("a", "abs_latency"): "regression",
        ("a", "compression_ratio"): "pass",
    }


def test_a_floor_needs_no_baseline(check: Check, write: WriteFile) -> None:
    results = write("r.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\ncuda,b,8,1.1,2.0,1.0\ncuda,c,0,0.0,0.0,0\n")
    report = check(results, "--rule", "speedup=floor:1.185")
    assert verdicts(report) == {
        ("a", "speedup"): "pass",
        ("b", "speedup"): "regression",
        ("c", "speedup"): "regression",
    }


def test_pass_must_appear(check: Check, write: WriteFile) -> None:
    results = write(
        "r.csv", HEADER + "cuda,a,8,pass,1,1,0\ncuda,b,8,pass_due_to_skip,1,1,0\ncuda,c,8,OOM,1,1,0\n"
    )
    report = check(results, "--rule", "accuracy=must_pass")
    assert [row["verdict"] for row in report["rows"]] == ["pass", "pass", "regression"]


def test_instruction_counts_are_two_sided_with_the_margin_of_their_row(
    check: Check, write: WriteFile
) -> None:
    results = write(
        "r.csv", "up,instruction_count,120\ndown,instruction_count,80\nsame,instruction_count,101\n"
    )
    baseline = write(
        "e.csv",
        "up,instruction_count,100,0.1\ndown,instruction_count,100,0.1\nsame,instruction_count,100,0.1\n",
    )
    report = check(results, "--baseline", baseline)
    assert [row["verdict"] for row in report["rows"]] == ["regression", "improvement", "pass"]


def test_a_metric_nobody_knows_is_judged_by_its_own_margin_or_not_at_all(
    check: Check, write: WriteFile
) -> None:
    results = write("r.csv", "a,load_time_us,150\n")
    with_margin = write("e.csv", "a,load_time_us,100,0.1\n")
    without = write("b.csv", "a,load_time_us,100\n")
    assert verdicts(check(results, "--baseline", with_margin)) == {("a", "load_time_us"): "regression"}
    report = check(results, "--baseline", without)
    assert verdicts(report) == {("a", "load_time_us"): "inconclusive"}
    assert "--rule" in report["cautions"][0]
    assert check(results, "--baseline", without, "--rule", "load_time_us=ratio_ceiling:2")["exit_code"] == 0


def test_the_wide_baseline_needs_to_know_the_dtype(
    torchstone: Command, check: Check, write: WriteFile
) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\ncuda,b,8,fail_accuracy,1,1,0\n")
    baseline = write("e.csv", "name,float32,bfloat16\na,pass,pass\nb,pass,fail_accuracy\n")
    ran = torchstone("check", results, "--baseline", baseline)
    assert ran.code == 2
    assert "--set dtype" in ran.err
    assert check(results, "--baseline", baseline, "--set", "dtype=bfloat16")["exit_code"] == 0
    report = check(results, "--baseline", baseline, "--set", "dtype=float32")
    assert verdicts(report) == {("a", "accuracy"): "pass", ("b", "accuracy"): "regression"}


def test_shards_are_merged(check: Check, write: WriteFile) -> None:
    shards = [write(f"s{n}.csv", HEADER + f"cuda,m{n},8,pass,1,1,0\n") for n in range(3)]
    baseline = write("e.csv", "name,accuracy\nm0,pass\nm1,pass\nm2,pass\n")
    assert check(*shards, "--baseline", baseline)["summary"]["judged"] == 3


def test_shards_may_have_different_counts_of_one_benchmark(
    check: Check, torchstone: Command, write: WriteFile
) -> None:
    first, second = (
        write("k1.csv", "x,instruction_count,5\n"),
        write("k2.csv", "y,instruction_count,1\nx,other_count,7\n"),
    )
    baseline = write("e.csv", "x,instruction_count,5,0.1\nx,other_count,7,0.1\ny,instruction_count,1,0.1\n")
    assert check(first, second, "--baseline", baseline)["summary"]["judged"] == 2
    again = write("k3.csv", "x,instruction_count,5\n")
    assert torchstone("check", first, again, "--baseline", baseline).code == 2


def test_the_same_case_twice_is_an_error_that_names_both_places(
    torchstone: Command, write: WriteFile
) -> None:
    first = write("s0.csv", HEADER + "cuda,x,8,pass,1,1,0\ncuda,a,8,pass,1,1,0\n")
    second = write("s1.csv", HEADER + "cuda,a,8,pass,1,1,0\n")
    ran = torchstone("check", first, second, "--baseline", write("e.csv", "name,accuracy\na,pass\n"))
    assert ran.code == 2
    assert "s0.csv:3" in ran.err
    assert "s1.csv:2" in ran.err


def test_two_results_for_one_baseline_row_are_an_error(torchstone: Command, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\ncpu,a,8,pass,1,1,0\n")
    ran = torchstone("check", results, "--baseline", write("e.csv", "name,accuracy\na,pass\n"))
    assert ran.code == 2
    assert "r.csv:3" in ran.err
    assert "r.csv:2" in ran.err


def run_file(*statuses: str | None) -> str:
    cases = [
        Case(f"m{number}", "accuracy", "smoke", Variant("cpu", "inductor")) for number in range(len(statuses))
    ]
    outcomes = [
        Outcome(
            case,
            status,
            (Measurement("graph_breaks", (0,)),),
            repro=f"torchstone repro run.jsonl '{case.id}'",
        )
        for case, status in zip(cases, statuses, strict=True)
        if status
    ]
    return encode_run(Run("r1", tuple(cases), tuple(outcomes), finished=None not in statuses))


def test_a_planned_case_without_an_outcome_is_missing_even_without_a_baseline_row(
    check: Check, write: WriteFile
) -> None:
    results = write("run.jsonl", run_file("pass", None))
    report = check(results, "--baseline", write("e.csv", "name,accuracy\nm0,pass\n"))
    assert verdicts(report) == {("m0", "accuracy"): "pass", ("m1", "accuracy"): "missing"}
    assert report["summary"]["planned"] == 2
    assert "did not finish" in report["cautions"][0]


def test_a_red_row_of_a_run_file_has_the_runs_own_command_to_reproduce_it(
    check: Check, write: WriteFile
) -> None:
    results = write("run.jsonl", run_file("fail_to_run"))
    (row,) = check(results, "--baseline", write("e.csv", "name,accuracy\nm0,pass\n"))["rows"]
    assert row["reproduce"].startswith("torchstone repro run.jsonl")
    assert row["accept"] == "torchstone accept run.jsonl --baseline e.csv --only m0"
    assert (row["place"], row["expected_place"]) == ("run.jsonl:2", "e.csv:2")


def test_the_name_that_ci_gives_a_file_makes_a_row_reproducible(check: Check, write: WriteFile) -> None:
    results = write(
        "inductor_timm_models_bfloat16_inference_cuda_accuracy.csv", HEADER + "cuda,a,8,OOM,1,1,0\n"
    )
    rows = check(results, "--baseline", write("e.csv", "name,accuracy\na,pass\ngone,pass\n"))["rows"]
    assert [row["reproduce"] for row in rows] == [
        "python benchmarks/dynamo/timm_models.py --accuracy --inference --bfloat16 --backend inductor --device cuda"
        f" --only {name}"
        for name in ("a", "gone")
    ]


def test_only_narrows_results_and_baseline_alike(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,bert,8,pass,1,1,0\ncuda,vgg,8,OOM,1,1,0\n")
    baseline = write("e.csv", "name,accuracy\nbert,pass\nvgg,pass\nbert_gone,pass\n")
    report = check(results, "--baseline", baseline, "--only", "bert*")
    assert verdicts(report) == {("bert", "accuracy"): "pass", ("bert_gone", "accuracy"): "missing"}


@pytest.mark.parametrize(
    ("row", "metric"),
    [
        ("10,1,2,3,1.0,2.0,2.0", "unique_graph_breaks"),
        ("10,0,2,2,1.0,2.0,2.0", "calls_captured"),
        ("10,1,2,2,1.5,2.0,2.0", "compression_ratio"),
    ],
)
def test_a_result_that_contradicts_itself_is_invalid_whatever_the_baseline_says(
    row: str, metric: str, check: Check, write: WriteFile
) -> None:
    columns = "calls_captured,unique_graphs,graph_breaks,unique_graph_breaks,compression_ratio,eager_peak_mem,dynamo_peak_mem"
    text = f"dev,name,batch_size,speedup,abs_latency,{columns}\ncuda,a,8,1.0,1.0,{row}\n"
    baseline = write("e.csv", "name,speedup\na,1.0\n")
    report = check(write("r.csv", text), "--baseline", baseline)
    assert verdicts(report) == {("a", "speedup"): "pass", ("a", metric): "invalid"}
    assert report["exit_code"] == 1
    assert check("r.csv", "--baseline", baseline, "--policy", "upstream")["exit_code"] == 0


def test_a_row_that_expects_nothing_does_not_hide_a_result(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,OOM,1,1,0\n")
    report = check(results, "--baseline", write("e.csv", "name,accuracy,graph_breaks\na,,\n"))
    assert verdicts(report) == {("a", "accuracy"): "new"}


def test_only_a_new_case_stays_red(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\ncuda,b,8,pass,1,1,0\n")
    report = check(results, "--baseline", write("e.csv", "name,accuracy\na,pass\n"), "--only", "b")
    assert (report["exit_code"], verdicts(report)) == (1, {("b", "accuracy"): "new"})


def test_a_performance_case_that_failed_is_red_once(check: Check, write: WriteFile) -> None:
    baseline = write("b.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\n")
    report = check(write("r.csv", PERFORMANCE + "cuda,a,0,0.0,0.0\n"), "--baseline", baseline)
    assert verdicts(report) == {("a", "speedup"): "regression"}
    assert report["rows"][0]["accept"] is None


class TestACaseThatFailed:
    """Whatever is judged of it, a case that failed otherwise than expected is red."""

    def test_is_red_if_its_status_is_not_judged(self, check: Check, write: WriteFile) -> None:
        results = write("r.csv", HEADER + "cuda,a,0,fail_to_run,0,0,0\n")
        baseline = write("e.csv", "name,accuracy,graph_breaks\na,pass,3\n")
        assert check(results, "--baseline", baseline, "--metric", "graph_breaks")["exit_code"] == 1
        assert check(results, "--baseline", baseline, "--rule", "accuracy=ignore")["exit_code"] == 1
        assert (
            check(results, "--baseline", write("c.csv", "name,accuracy,graph_breaks\na,,3\n"))["exit_code"]
            == 1
        )

    @pytest.mark.parametrize("row", ["cuda,a,8,fail_to_run,0,0,0", "cuda,a,8,timeout,9,1,3"])
    def test_is_red_whatever_its_batch_size(self, row: str, check: Check, write: WriteFile) -> None:
        results = write("r.csv", HEADER + row + "\n")
        assert check(results, "--baseline", write("e.csv", "name,graph_breaks\na,3\n"))["exit_code"] == 1
        baseline = write("f.csv", "name,accuracy,graph_breaks\na,pass,3\n")
        report = check(results, "--baseline", baseline)
        assert verdicts(report) == {("a", "accuracy"): "regression"}
        assert check(results, "--baseline", baseline, "--metric", "graph_breaks")["exit_code"] == 1

    def test_is_red_if_its_first_metric_is_ignored(self, check: Check, write: WriteFile) -> None:
        results = write("r.csv", PERFORMANCE + "cuda,a,0,0.0,0.0\n")
        baseline = write("e.csv", "name,eager_peak_mem,speedup\na,1,1.5\n")
        assert verdicts(check(results, "--baseline", baseline)) == {("a", "speedup"): "regression"}
        pinned = write("b.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\n")
        assert check(results, "--baseline", pinned, "--rule", "speedup=ignore")["exit_code"] == 1

    def test_is_red_whatever_numbers_it_left(self, check: Check, write: WriteFile) -> None:
        case = Case("a", "performance")
        run = Run("r", (case,), (Outcome(case, "worker_died", (Measurement("speedup", (2.0,)),)),))
        results = write("run.jsonl", encode_run(run))
        report = check(results, "--baseline", write("e.csv", "name,speedup\na,2.0\n"))
        assert verdicts(report) == {("a", "speedup"): "regression"}
        assert "worker_died" in report["rows"][0]["detail"]


def test_a_margin_knows_which_side_is_better(check: Check, write: WriteFile) -> None:
    baseline = write("b.csv", PERFORMANCE + "cuda,a,8,2.0,2.0,1.0\n")
    slower = write("r.csv", PERFORMANCE + "cuda,a,8,0.5,2.0,1.0\n")
    report = check(slower, "--baseline", baseline, "--rule", "speedup=margin:0.05")
    assert verdicts(report)["a", "speedup"] == "regression"


@pytest.mark.parametrize("row", ["a,instruction_count,0", "a,compile_time_instruction_count,0"])
def test_nothing_counted_is_no_improvement(row: str, check: Check, write: WriteFile) -> None:
    metric = row.split(",")[1]
    report = check(write("r.csv", row + "\n"), "--baseline", write("e.csv", f"a,{metric},1000,0.1\n"))
    assert report["exit_code"] == 1
    assert "invalid" in [found["verdict"] for found in report["rows"]]


def test_an_instruction_count_without_a_row_of_its_own_is_new(
    check: Check, torchstone: Command, write: WriteFile
) -> None:
    results = write("r.csv", "a,instruction_count,100\na,compile_time_instruction_count,55\n")
    baseline = write("e.csv", "a,instruction_count,100,0.1\n")
    report = check(results, "--baseline", baseline)
    assert verdicts(report) == {
        ("a", "instruction_count"): "pass",
        ("a", "compile_time_instruction_count"): "new",
    }
    assert torchstone("accept", results, "--baseline", baseline, "--add-new", "--yes").code == 0
    assert check(results, "--baseline", baseline)["exit_code"] == 0


@pytest.mark.parametrize(
    ("actual", "verdict"), [("-0.5", "invalid"), ("-0.4", "invalid"), ("3.0", "invalid")]
)
def test_nothing_is_a_share_of_less_than_nothing(
    actual: str, verdict: str, check: Check, write: WriteFile
) -> None:
    header = "dev,name,batch_size,speedup,abs_latency,compilation_latency\n"
    baseline = write("b.csv", header + "cuda,a,8,1.5,2.0,-0.5\n")
    report = check(write("r.csv", header + f"cuda,a,8,1.5,2.0,{actual}\n"), "--baseline", baseline)
    assert verdicts(report)["a", "compilation_latency"] == verdict


def test_a_torn_baseline_is_mentioned(check: Check, write: WriteFile) -> None:
    torn = run_file("pass", "pass")[:-60]
    report = check(write("r.jsonl", run_file("pass")), "--baseline", write("b.jsonl", torn))
    assert any("b.jsonl" in caution for caution in report["cautions"])


def test_a_model_that_has_no_result_in_a_measured_dtype_is_missing(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,c,8,pass,1,1,0\n")
    baseline = write("e.csv", "name,float32,bfloat16\na,pass,pass\n")
    report = check(results, "--baseline", baseline, "--set", "dtype=bfloat16", "--allow", "new")
    assert verdicts(report)["a", "accuracy"] == "missing"


def test_a_new_result_is_named_by_a_metric_that_the_baseline_has(check: Check, write: WriteFile) -> None:
    results = write("r.csv", PERFORMANCE + "cuda,n,8,1.5,2.0,1.0\ncuda,m,8,1.5,2.0,1.0\n")
    report = check(results, "--baseline", write("e.csv", "name,compression_ratio\nm,1\n"))
    assert verdicts(report) == {("m", "compression_ratio"): "pass", ("n", "compression_ratio"): "new"}


def test_a_metric_that_contradicts_itself_has_one_row(check: Check, write: WriteFile) -> None:
    header = HEADER.replace("graph_breaks", "graph_breaks,unique_graph_breaks")
    results = write("r.csv", header + "cuda,a,8,pass,9,0,0,0\n")
    report = check(results, "--baseline", write("e.csv", "name,accuracy,calls_captured\na,pass,5\n"))
    assert verdicts(report) == {("a", "accuracy"): "pass", ("a", "calls_captured"): "invalid"}
    assert len(report["rows"]) == 2


def test_a_missing_row_of_a_wide_table_stays_missing_when_it_alone_is_judged(
    check: Check, write: WriteFile
) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\n")
    baseline = write("e.csv", "name,float32,bfloat16\na,pass,pass\nm,pass,pass\n")
    report = check(
        results, "--baseline", baseline, "--set", "dtype=float32", "--only", "m[dtype=float32]::accuracy"
    )
    assert verdicts(report) == {("m", "accuracy"): "missing"}


def test_a_skipped_case_needs_no_numbers(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,0,pass_due_to_skip\n")
    report = check(
        results, "--baseline", write("e.csv", "name,accuracy,graph_breaks\na,pass_due_to_skip,0\n")
    )
    assert verdicts(report) == {("a", "accuracy"): "expected_failure"}


def test_a_pattern_that_means_a_result_means_its_row_too(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\ncuda,b,8,OOM,1,1,0\n")
    baseline = write("e.csv", "name,accuracy\na,pass\nb,pass\n")
    for pattern in ("a[device=cuda,batch_size=8]::accuracy", "a::accuracy", "a"):
        assert verdicts(check(results, "--baseline", baseline, "--only", pattern)) == {
            ("a", "accuracy"): "pass"
        }


def test_a_case_that_one_file_planned_and_another_measured_is_there(check: Check, write: WriteFile) -> None:
    cases = [Case(name, "accuracy") for name in ("a", "b")]
    first = encode_run(Run("r", tuple(cases), (Outcome(cases[0], "pass"),), finished=False))
    second = encode_run(Run("r", (cases[1],), (Outcome(cases[1], "pass"),)))
    files = (write("s1.jsonl", first), write("s2.jsonl", second))
    assert check(*files, "--baseline", write("e.csv", "name,accuracy\na,pass\nb,pass\n"))["exit_code"] == 0


def test_many_rows_of_one_name_are_found_at_once(check: Check, write: WriteFile) -> None:
    rows = "".join(f"cuda,a,{size},1.5,2.0,1.0\n" for size in range(1, 5001))
    report = check(write("r.csv", PERFORMANCE + rows), "--baseline", write("b.csv", PERFORMANCE + rows))
    assert (report["exit_code"], report["summary"]["judged"]) == (0, 5000)


def test_a_status_nobody_knows_is_a_failure_and_mentioned(check: Check, write: WriteFile) -> None:
    report = check(
        write("r.csv", HEADER + "cuda,a,8,pas,1,1,0\n"),
        "--baseline",
        write("e.csv", "name,accuracy\na,pass\n"),
    )
    assert verdicts(report) == {("a", "accuracy"): "regression"}
    assert "'pas'" in report["cautions"][0]


def test_a_dtype_that_no_result_has_is_mentioned(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\n")
    baseline = write("e.csv", "name,float32,bfloat16\na,pass,pass\n")
    report = check(results, "--baseline", baseline, "--set", "dtype=float32")
    assert report["exit_code"] == 0
    assert "bfloat16" in report["cautions"][0]


def test_metric_narrows_what_is_judged(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,fail_accuracy,1,1,0\n")
    baseline = write("e.csv", "name,accuracy,graph_breaks\na,pass,0\n")
    assert check(results, "--baseline", baseline, "--metric", "graph_breaks")["exit_code"] == 0


def test_results_of_a_probe_that_no_baseline_speaks_of_are_not_new(check: Check, write: WriteFile) -> None:
    accuracy = write("a.csv", HEADER + "cuda,a,8,pass,1,1,0\n")
    performance = write("p.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\n")
    report = check(accuracy, performance, "--baseline", write("e.csv", "name,accuracy\na,pass\n"))
    assert (report["exit_code"], len(report["rows"])) == (0, 1)


def test_several_baselines_speak_of_several_probes(check: Check, write: WriteFile) -> None:
    accuracy = write("a.csv", HEADER + "cuda,a,8,pass,1,1,0\n")
    performance = write("p.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,0.9\n")
    baselines = (
        "--baseline",
        write("e.csv", "name,accuracy\na,pass\n"),
        "--baseline",
        write("m.csv", "name,compression_ratio\na,1\n"),
    )
    assert verdicts(check(accuracy, performance, *baselines)) == {
        ("a", "accuracy"): "pass",
        ("a", "compression_ratio"): "regression",
    }


def test_red_rows_come_worst_first(torchstone: Command, write: WriteFile) -> None:
    results = write(
        "r.csv", PERFORMANCE + "cuda,little,8,1,1.2,1\ncuda,much,8,1,9.0,1\ncuda,newcomer,8,1,1,1\n"
    )
    baseline = write("b.csv", PERFORMANCE + "cuda,little,8,1,1,1\ncuda,much,8,1,1,1\ncuda,gone,8,1,1,1\n")
    out = torchstone("check", results, "--baseline", baseline).out
    assert sorted(("gone", "much", "little", "newcomer"), key=out.index) == [
        "gone",
        "much",
        "little",
        "newcomer",
    ]


class TestUpstream:
    """What the original does beyond the golden cases."""

    def test_graph_breaks_are_exact_and_improvements_fail(self, check: Check, write: WriteFile) -> None:
        results = write(
            "r.csv", HEADER + "cuda,a,8,pass,10,1,0\ncuda,b,8,pass,10,1,2\ncuda,c,8,pass,10,1,1\n"
        )
        baseline = write("e.csv", "name,accuracy,graph_breaks\na,pass,0\nb,pass,1\nc,pass,2\n")
        report = check(
            "--actual", results, "--expected", baseline, "--policy", "upstream", "--metric", "graph_breaks"
        )
        assert [row["label"] for row in report["rows"]] == ["PASS", "FAIL", "IMPROVED"]
        assert report["summary"]["red"] == 2

    def test_a_model_that_was_not_compiled_passes_the_graph_break_gate(
        self, check: Check, write: WriteFile
    ) -> None:
        results = write("r.csv", HEADER + "cuda,a,8,eager_1st_run_OOM,0,0,0\n")
        baseline = write("e.csv", "name,accuracy,graph_breaks\na,pass,5\n")
        report = check(
            "--actual", results, "--expected", baseline, "--policy", "upstream", "--metric", "graph_breaks"
        )
        assert report["exit_code"] == 0

    @pytest.mark.parametrize(
        "row", ["cuda,a,0,fail_to_run,0,0,0", "cuda,a,0,fail_to_run", "cuda,a,8,fail_to_run,0,0,0"]
    )
    def test_a_failed_model_has_one_row_in_the_graph_break_gate(
        self, row: str, check: Check, write: WriteFile
    ) -> None:
        results = write("r.csv", HEADER + row + "\n")
        baseline = write("e.csv", "name,accuracy,graph_breaks\na,pass,5\n")
        report = check(
            "--actual", results, "--expected", baseline, "--policy", "upstream", "--metric", "graph_breaks"
        )
        assert [row["label"] for row in report["rows"]] == ["PASS"]

    def test_only_does_not_change_which_gate_it_is(self, check: Check, write: WriteFile) -> None:
        results = write("r.csv", PERFORMANCE + "cuda,n,8,1.5,2.0,1.0\ncuda,m,8,1.5,2.0,1.0\n")
        baseline = write("e.csv", "name,compression_ratio\nm,1\n")
        report = check("--actual", results, "--expected", baseline, "--policy", "upstream", "--only", "n")
        assert [(row["metric"], row["label"]) for row in report["rows"]] == [("compression_ratio", "MISSING")]
        assert report["exit_code"] == 0

    def test_a_model_without_a_graph_break_baseline_counts_as_improved(
        self, check: Check, write: WriteFile
    ) -> None:
        results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\ncuda,b,8,pass,1,1,0\n")
        baseline = write("e.csv", "name,accuracy,graph_breaks\na,pass,0\n")
        report = check(
            "--actual", results, "--expected", baseline, "--policy", "upstream", "--metric", "graph_breaks"
        )
        assert {row["name"]: row["label"] for row in report["rows"]} == {"a": "PASS", "b": "MISSING"}
        assert report["exit_code"] == 1

    def test_instruction_counts_fail_on_wins_and_on_missing_results(
        self, check: Check, write: WriteFile
    ) -> None:
        baseline = write("e.csv", "a,instruction_count,100,0.1\n\n\n\nb,instruction_count,100,0.1\n")
        win = write("w.csv", "a,instruction_count,80\nb,instruction_count,100\nc,instruction_count,1\n")
        report = check("--actual", win, "--expected", baseline, "--policy", "upstream")
        assert {row["name"]: row["label"] for row in report["rows"]} == {
            "a": "IMPROVED",
            "b": "PASS",
            "c": "MISSING",
        }
        assert report["summary"]["red"] == 1
        gone = write("g.csv", "a,instruction_count,100\n")
        assert check("--actual", gone, "--expected", baseline, "--policy", "upstream")["exit_code"] == 1

    def test_expected_models_without_a_result_are_ignored_but_said(
        self, check: Check, write: WriteFile
    ) -> None:
        results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\n")
        baseline = write("e.csv", "name,accuracy\na,pass\ngone,pass\n")
        report = check("--actual", results, "--expected", baseline, "--policy", "upstream")
        assert report["exit_code"] == 0
        assert [row["name"] for row in report["ignored"]] == ["gone"]
        assert "1 expected row" in report["cautions"][0]

    def test_rules_without_a_baseline_work_as_the_scripts_that_have_none(
        self, check: Check, write: WriteFile
    ) -> None:
        results = write("r.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\n")
        assert check(results, "--rule", "speedup=floor:1.2", "--policy", "upstream")["exit_code"] == 0
        assert check(results, "--rule", "speedup=floor:1.6", "--policy", "upstream")["exit_code"] == 1

    def test_results_that_the_expected_file_does_not_speak_of_are_no_success(
        self, torchstone: Command, write: WriteFile
    ) -> None:
        results = write("p.csv", PERFORMANCE + "cuda,a,8,1.5,2.0,1.0\n")
        baseline = write("e.csv", "name,accuracy\na,pass\n")
        assert (
            torchstone("check", "--actual", results, "--expected", baseline, "--policy", "upstream").code == 2
        )

    @pytest.mark.parametrize(
        "broken", ["", HEADER, HEADER + "cuda,a,8,pass,NaN,1,0\n", HEADER + "cuda,a,8,pass,1,1,0\n" * 2]
    )
    def test_broken_input_is_an_error_where_the_original_decides_nonsense(
        self, broken: str, torchstone: Command, write: WriteFile
    ) -> None:
        baseline = write("e.csv", "name,accuracy\na,pass\n")
        ran = torchstone(
            "check", "--actual", write("r.csv", broken), "--expected", baseline, "--policy", "upstream"
        )
        assert ran.code == 2


@pytest.mark.parametrize(
    ("expected", "options"),
    [
        ("name,accuracy,graph_breaks\na,pass,3\n", ["--metric", "graph_breaks"]),
        ("name,graph_breaks\na,3\n", []),
    ],
)
def test_a_case_that_is_skipped_now_and_was_counted_is_missing(
    expected: str, options: list[str], torchstone: Command, write: WriteFile
) -> None:
    results = write("r.csv", "dev,name,batch_size,accuracy\ncuda,a,0,pass_due_to_skip\n")
    ran = torchstone("check", results, "--baseline", write("e.csv", expected), *options)
    assert ran.code == 1
    assert "it was skipped" in ran.out


def test_two_tables_for_the_same_results_are_refused_with_what_to_do(
    torchstone: Command, write: WriteFile
) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,1,1,0\n")
    tables = write("e.csv", "name,accuracy\na,pass\n"), write("b.csv", "name,graph_breaks\na,0\n")
    ran = torchstone("check", results, "--baseline", tables[0], "--baseline", tables[1])
    assert ran.code == 2
    assert "put the columns of both files into one" in ran.err


def test_a_row_that_is_made_to_block_says_where_it_stands(check: Check, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,fail_accuracy,1,1,0\n")
    baseline = write("e.csv", "name,accuracy\na,fail_accuracy\n")
    (row,) = check(results, "--baseline", baseline, "--block", "expected_failure")["rows"]
    assert (row["blocks"], row["place"], row["expected_place"]) == (True, "r.csv:2", "e.csv:2")


def test_a_case_that_was_planned_and_not_measured_is_not_offered_for_pruning(
    check: Check, write: WriteFile, tmp_path: Path
) -> None:
    run = write_run(tmp_path, "run.jsonl", [passed("b", times(5))], further_plan=[case_of("a")])
    baseline = write("e.csv", "name,abs_latency\na,5\nb,5\nc,5\n")
    rows = {row["name"]: row for row in check(run, "--baseline", baseline)["rows"]}
    assert (rows["a"]["verdict"], rows["a"]["accept"]) == ("missing", None)
    assert "--prune" in rows["c"]["accept"]


@pytest.mark.parametrize("policy", ["strict", "upstream"])
def test_a_new_benchmark_is_told_with_the_number_it_has_though_the_baseline_speaks_of_another_metric(
    torchstone: Command, write: WriteFile, policy: str
) -> None:
    results = write("results.csv", "a,compile_time_instruction_count,100\nb,instruction_count,50\n")
    baseline = write("expected.csv", "a,compile_time_instruction_count,100,0.1\n")
    told = torchstone("check", results, "--baseline", baseline, "--policy", policy).out
    assert "instruction_count: 50; no baseline row" in told
    assert "no result" not in told


def test_a_new_benchmark_without_the_metric_that_was_asked_for_has_no_result_of_it(
    torchstone: Command, write: WriteFile
) -> None:
    results = write("results.csv", "a,compile_time_instruction_count,100\nb,instruction_count,50\n")
    baseline = write("expected.csv", "a,compile_time_instruction_count,100,0.1\n")
    asked = ("--metric", "compile_time_instruction_count")
    told = torchstone("check", results, "--baseline", baseline, *asked).out
    assert "compile_time_instruction_count: no result; no baseline row" in told
