"""Counts: never compared with those of another counter, and what cannot be counted here is neither green nor forgotten."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import Command, WriteFile
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Run
from torchstone.core.run_file import encode_run

COUNT = "compile_time_instruction_count"
TREE = f"{COUNT}_tree"
CALLS = "compile_time_python_calls"
SECONDS = "compile_time_cpu_seconds"


def counted(name: str, counter: str, **values: float) -> Outcome:
    details = MeasurementDetails(counter=counter) if counter else None
    measurements = tuple(Measurement(metric, (value,), details) for metric, value in values.items())
    return Outcome(Case(name, "instructions", "compile_time"), "pass", measurements)


def unavailable(name: str, why: str = "it needs a device of type cuda") -> Outcome:
    return Outcome(Case(name, "instructions", "compile_time"), "not_available", failure=Failure("", why))


def run_of(*outcomes: Outcome) -> str:
    return encode_run(Run("run", tuple(outcome.case for outcome in outcomes), outcomes))


def report_of(torchstone: Command, *arguments: str) -> dict[str, Any]:
    ran = torchstone("check", *arguments, "--format", "json")
    assert ran.err == ""
    report: dict[str, Any] = json.loads(ran.out)
    return report


def rows_of(report: dict[str, Any]) -> dict[tuple[str, str], tuple[str, str]]:
    return {
        (row["name"], row["metric"]): (row["verdict"], row.get("detail", "").partition("; ")[2])
        for row in report["rows"]
    }


@pytest.mark.parametrize(
    "options",
    [(), ("--compare-anyway",), ("--cross-environment",), ("--compare-anyway", "--cross-environment")],
)
def test_two_counters_are_never_compared_whatever_is_asked_for(
    options: tuple[str, ...], torchstone: Command, write: WriteFile
) -> None:
    now = write("now.jsonl", run_of(counted("add", "simulated", **{COUNT: 100})))
    before = write("before.jsonl", run_of(counted("add", "hardware", **{COUNT: 100})))
    report = report_of(torchstone, now, "--baseline", before, *options)
    assert report["exit_code"] == 1
    told = "not comparable: counted by the simulated counter, the baseline by the hardware one"
    assert rows_of(report) == {("add", COUNT): ("inconclusive", told)}


def test_the_original_compares_no_two_counters_either(torchstone: Command, write: WriteFile) -> None:
    now = write("now.jsonl", run_of(counted("add", "simulated", **{COUNT: 100})))
    before = write("before.jsonl", run_of(counted("add", "hardware", **{COUNT: 100})))
    report = report_of(torchstone, now, "--baseline", before, "--policy", "upstream")
    assert [verdict for verdict, _ in rows_of(report).values()] == ["inconclusive"]


def test_one_counter_is_compared_with_itself(torchstone: Command, write: WriteFile) -> None:
    now = write("now.jsonl", run_of(counted("add", "simulated", **{COUNT: 102})))
    before = write("before.jsonl", run_of(counted("add", "simulated", **{COUNT: 100})))
    report = report_of(torchstone, now, "--baseline", before)
    assert rows_of(report)["add", COUNT][0] == "regression"
    assert report["cautions"] == []


def test_a_table_that_names_no_counter_is_a_caution_once(torchstone: Command, write: WriteFile) -> None:
    now = write(
        "now.jsonl",
        run_of(
            counted("add", "simulated", **{COUNT: 100, TREE: 120}), counted("mul", "simulated", **{COUNT: 7})
        ),
    )
    table = write("expected.csv", f"add,{COUNT},100,0.01\nmul,{COUNT},7,0.01\n")
    report = report_of(torchstone, now, "--baseline", table)
    assert report["exit_code"] == 0
    told = "expected.csv does not say which counter its counts are from; these are from the simulated one"
    assert report["cautions"] == [told]


def test_results_that_name_no_counter_are_a_caution_too(torchstone: Command, write: WriteFile) -> None:
    results = write("r.csv", f"add,{COUNT},100\n")
    before = write("before.jsonl", run_of(counted("add", "hardware", **{COUNT: 100})))
    (caution,) = report_of(torchstone, results, "--baseline", before)["cautions"]
    assert caution == (
        "r.csv does not say which counter its counts are from; those of before.jsonl are from the hardware one"
    )


def test_two_tables_and_metrics_that_name_their_counter_need_no_caution(
    torchstone: Command, write: WriteFile
) -> None:
    results = write("r.csv", f"add,{COUNT},100\n")
    table = write("e.csv", f"add,{COUNT},100,0.01\n")
    assert report_of(torchstone, results, "--baseline", table)["cautions"] == []
    now = write("now.jsonl", run_of(counted("add", "python", **{CALLS: 5000})))
    calls = write("calls.csv", f"add,{CALLS},5000,0.01\n")
    report = report_of(torchstone, now, "--baseline", calls)
    assert (report["exit_code"], report["cautions"]) == (0, [])


def test_a_count_that_another_counter_would_have_made_is_missing_with_the_reason(
    torchstone: Command, write: WriteFile
) -> None:
    now = write("now.jsonl", run_of(counted("add", "python", **{CALLS: 5000})))
    report = report_of(torchstone, now, "--baseline", write("e.csv", f"add,{COUNT},100,0.01\n"))
    assert report["exit_code"] == 1
    rows = rows_of(report)
    assert rows["add", COUNT][0] == "missing"
    assert f"the result has no {COUNT}: it was counted by the python counter" in json.dumps(report["rows"])
    assert rows["add", CALLS][0] == "new"


@pytest.mark.parametrize(
    ("metric", "value", "verdict"),
    [
        (CALLS, 101, "pass"),
        (CALLS, 102, "regression"),
        (CALLS, 98, "improvement"),
        (SECONDS, 129, "pass"),
        (SECONDS, 131, "regression"),
        (SECONDS, 69, "improvement"),
    ],
)
def test_calls_have_the_margin_of_counts_and_times_a_wider_one(
    metric: str, value: int, verdict: str, torchstone: Command, write: WriteFile
) -> None:
    counter = "python" if metric == CALLS else "cpu_time"
    now = write("now.jsonl", run_of(counted("add", counter, **{metric: value})))
    before = write("before.jsonl", run_of(counted("add", counter, **{metric: 100})))
    assert rows_of(report_of(torchstone, now, "--baseline", before))["add", metric][0] == verdict


def test_the_margin_of_a_row_comes_before_the_usual_one_of_its_metric(
    torchstone: Command, write: WriteFile
) -> None:
    now = write("now.jsonl", run_of(counted("add", "cpu_time", **{SECONDS: 1.2})))
    report = report_of(torchstone, now, "--baseline", write("e.csv", f"add,{SECONDS},1.0,0.1\n"))
    assert rows_of(report)["add", SECONDS][0] == "regression"
    rule = f"{SECONDS}=margin:0.25"
    assert report_of(torchstone, now, "--baseline", "e.csv", "--rule", rule)["exit_code"] == 0


def test_what_the_process_tree_did_is_judged_only_if_a_rule_says_so(
    torchstone: Command, write: WriteFile
) -> None:
    now = write("now.jsonl", run_of(counted("add", "hardware", **{COUNT: 100, TREE: 900})))
    before = write("before.jsonl", run_of(counted("add", "hardware", **{COUNT: 100, TREE: 100})))
    table = write("e.csv", f"add,{COUNT},100,0.01\n")
    assert set(rows_of(report_of(torchstone, now, "--baseline", before))) == {("add", COUNT)}
    assert set(rows_of(report_of(torchstone, now, "--baseline", table))) == {("add", COUNT)}
    asked = report_of(torchstone, now, "--baseline", before, "--rule", f"{TREE}=margin:0.1")
    assert rows_of(asked)["add", TREE][0] == "regression"


@pytest.mark.parametrize(
    ("values", "metric"),
    [
        ({CALLS: 0}, CALLS),
        ({SECONDS: 0}, SECONDS),
        ({COUNT: 100, TREE: 99}, TREE),
    ],
)
def test_a_count_that_cannot_be_is_invalid(
    values: dict[str, float], metric: str, torchstone: Command, write: WriteFile
) -> None:
    now = write("now.jsonl", run_of(counted("add", "hardware", **values)))
    good = dict.fromkeys(values, 100.0)
    before = write("before.jsonl", run_of(counted("add", "hardware", **good)))
    assert rows_of(report_of(torchstone, now, "--baseline", before))["add", metric][0] == "invalid"


def test_what_is_expected_and_not_available_is_missing_with_the_reason(
    torchstone: Command, write: WriteFile
) -> None:
    now = write("now.jsonl", run_of(unavailable("add_gpu")))
    ran = torchstone("check", now, "--baseline", write("e.csv", f"add_gpu,{COUNT},100,0.01\n"))
    assert ran.code == 1
    assert "not available here: it needs a device of type cuda" in " ".join(ran.out.split())
    report = report_of(torchstone, now, "--baseline", "e.csv")
    assert rows_of(report)["add_gpu", COUNT][0] == "missing"
    assert report["summary"]["missing"] == 1


def test_what_nobody_expects_and_is_not_available_blocks_nothing_but_is_told(
    torchstone: Command, write: WriteFile
) -> None:
    gone = (unavailable("add_gpu"), unavailable("mm_gpu"), unavailable("dtensor", "no torch.distributed"))
    now = write("now.jsonl", run_of(counted("add", "simulated", **{COUNT: 100}), *gone))
    before = write("before.jsonl", run_of(counted("add", "simulated", **{COUNT: 100})))
    report = report_of(torchstone, now, "--baseline", before)
    assert report["exit_code"] == 0
    assert set(rows_of(report)) == {("add", COUNT)}
    assert report["cautions"] == [
        "not available here, and no baseline expects it: add_gpu and 1 other: it needs a device of type cuda",
        "not available here, and no baseline expects it: dtensor: no torch.distributed",
    ]


def test_it_blocks_nothing_where_only_another_probe_is_expected_either(
    torchstone: Command, write: WriteFile
) -> None:
    judged = Outcome(Case("mlp", "accuracy"), "pass", (Measurement("graph_breaks", (0,)),))
    now = write("now.jsonl", run_of(judged, unavailable("add_gpu")))
    table = write("e.csv", "name,accuracy,graph_breaks\nmlp,pass,0\n")
    assert report_of(torchstone, now, "--baseline", table)["exit_code"] == 0


def test_a_rule_that_needs_no_baseline_misses_what_is_not_available(
    torchstone: Command, write: WriteFile
) -> None:
    now = write("now.jsonl", run_of(counted("add", "simulated", **{COUNT: 9}), unavailable("add_gpu")))
    report = report_of(torchstone, now, "--rule", f"{COUNT}=ceiling:10")
    assert rows_of(report)["add_gpu", COUNT][0] == "missing"
    assert report["exit_code"] == 1


def test_what_was_not_available_to_the_baseline_is_as_expected_or_new(
    torchstone: Command, write: WriteFile
) -> None:
    before = write("before.jsonl", run_of(unavailable("add_gpu")))
    still = report_of(torchstone, write("still.jsonl", run_of(unavailable("add_gpu"))), "--baseline", before)
    assert (still["exit_code"], [row["verdict"] for row in still["rows"]]) == (0, ["expected_failure"])
    there = write("there.jsonl", run_of(counted("add_gpu", "hardware", **{COUNT: 100})))
    report = report_of(torchstone, there, "--baseline", before)
    assert [verdict for verdict, _ in rows_of(report).values()] == ["new"]
    assert "it was not available there" in json.dumps(report["rows"])
