"""What ``torchstone compare`` makes of files that say less, fail in parts, or were made elsewhere: nothing is passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from comparison_files import case_of, counts, failed, only_row, passed, times, write_run
from conftest import Command, Compare, WriteFile
from stated_facts import measurement_of
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Failure, Measurement, Outcome, Variant


def rows_of(out: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["name"], row["metric"]): row for row in json.loads(out)["rows"]}


def trials(metric: str, *values: float, **extra: object) -> Measurement:
    return measurement_of(metric, values, {"trials": [1] * len(values), **extra})


def test_memory_that_is_the_same_in_every_trial_is_judged(compare: Compare) -> None:
    base = [passed("a", trials("dynamo_peak_mem", *[2.0] * 5), trials("compression_ratio", *[2.0] * 5))]
    new = [passed("a", trials("dynamo_peak_mem", *[4.0] * 5), trials("compression_ratio", *[1.0] * 5))]
    ran, report = compare(base, new)
    assert ran.code == 1
    assert [row["verdict"] for row in report["rows"]] == ["regression", "regression"]
    one = [passed("a", measurement_of("speedup", (1.0,), {"interval": [0.9, 1.1], "confidence": 0.95}))]
    other = [passed("a", measurement_of("speedup", (0.9,), {"interval": [0.8, 1.0], "confidence": 0.95}))]
    assert only_row(compare(one, other)[1])["verdict"] == "inconclusive"


def test_whole_numbers_of_a_metric_that_nobody_knows_may_repeat_too(compare: Compare) -> None:
    base, new = ([passed("a", counts("kernels", *[count] * 3))] for count in (10, 20))
    row = only_row(compare(base, new, "--better", "kernels=lower")[1])
    assert (row["verdict"], row["method"]) == ("regression", "exact")


def test_what_a_base_measured_before_it_failed_is_not_passed_over(compare: Compare) -> None:
    late = Outcome(case_of("a"), "timeout", (times(10, 4),), Failure(message="late"))
    ran, report = compare([late, passed("b", times(5))], [passed("a", times(15)), passed("b", times(5))])
    (row,) = [row for row in report["rows"] if (row["name"], row["metric"]) == ("a", "abs_latency")]
    assert (row["verdict"], row["reason"]) == ("inconclusive", "not comparable: BASE ended as timeout")
    assert ran.code == 1


def test_a_new_case_that_failed_blocks_and_says_so(compare: Compare) -> None:
    good = passed("a", times(5))
    crashed = failed("b", "worker_died", "ended by SIGSEGV")
    ran, report = compare([good], [good, crashed])
    (row,) = [row for row in report["rows"] if row["name"] == "b"]
    assert (ran.code, row["verdict"], row["blocks"]) == (1, "new", True)
    assert row["reason"] == "only NEW has this case, and it failed: worker_died: ended by SIGSEGV"
    absent = failed("b", "not_available", "no GPU")
    ran, report = compare([good, absent], [good, crashed])
    assert ran.code == 1
    fresh = [good, absent], [good, passed("b", times(5))]
    assert (compare(*fresh)[0].code, compare(*fresh, "--policy", "lenient")[0].code) == (1, 0)


def test_a_single_sample_that_cannot_be_is_invalid_whatever_the_median(compare: Compare) -> None:
    sound = [passed("a", times(5))]
    for bad in (-5.0, 0.0):
        values = tuple(each for _ in range(5) for each in (5.0, bad, 5.1))
        new = [passed("a", Measurement("abs_latency", values, MeasurementDetails(trials=(3,) * 5)))]
        ran, report = compare(sound, new)
        assert (ran.code, only_row(report)["verdict"]) == (1, "invalid")


def test_memory_that_agrees_in_every_trial_is_not_invalid(compare: Compare) -> None:
    eager, compiled = [1.0, 1.1, 1.05, 1.0, 1.1], [1.1, 1.0, 1.05, 1.0, 1.0]
    ratios = [one / other for one, other in zip(eager, compiled, strict=True)]
    outcome = passed(
        "a",
        trials("eager_peak_mem", *eager),
        trials("dynamo_peak_mem", *compiled),
        trials("compression_ratio", *ratios),
    )
    _, report = compare([outcome], [outcome])
    assert "invalid" not in {row["verdict"] for row in report["rows"]}


def test_a_tolerance_is_that_of_the_gate(compare: Compare, torchstone: Command, write: WriteFile) -> None:
    write(
        "torchstone.toml",
        '[[rule]]\nmetric = "graph_breaks"\nkind = "count"\nbetter = "lower"\ntolerance = 2\n'
        '[[rule]]\nmetric = "calls_captured"\nkind = "count"\nbetter = "higher"\ntolerance = 2\n',
    )
    for metric, before, after, verdict in (
        ("graph_breaks", 0, 1, "same"),
        ("graph_breaks", 0, 3, "regression"),
        ("calls_captured", 4, 2, "same"),
        ("calls_captured", 4, 1, "regression"),
    ):
        row = only_row(
            compare([passed("a", counts(metric, before))], [passed("a", counts(metric, after))])[1]
        )
        assert row["verdict"] == verdict, (metric, before, after)
        gate = torchstone("check", "new.jsonl", "--baseline", "base.jsonl")
        assert gate.code == (verdict != "same")


def test_a_margin_that_the_base_states_is_that_of_the_gate_and_of_all_its_files(
    torchstone: Command, tmp_path: Path
) -> None:
    def speedups(level: float, **extra: object) -> list[Outcome]:
        return [passed("a", trials("speedup", *(level * (1 + n / 1e4) for n in range(5)), **extra))]

    base = [write_run(tmp_path, f"base{n}.jsonl", speedups(2.0 + n / 1e3, margin=0.4)) for n in (1, 2)]
    for level, verdict in ((1.3, "same"), (1.1, "regression")):
        new = write_run(tmp_path, "new.jsonl", speedups(level))
        for further in ((), ("--base", base[1])):
            ran = torchstone("compare", base[0], new, *further, "--format", "json")
            assert only_row(json.loads(ran.out))["verdict"] == verdict


CSV = "dev,name,batch_size,speedup,abs_latency\n"


def test_a_failure_in_one_of_several_files_that_say_less_of_it_is_one_of_the_case(
    torchstone: Command, write: WriteFile
) -> None:
    base = [write(f"base{n}.csv", f"{CSV}cpu,a,4,1.5,{10 + n / 10}\n") for n in range(2)]
    new = [write("new0.csv", f"{CSV}cpu,a,4,1.5,10.1\n"), write("new1.csv", f"{CSV}cpu,a,0,0.0,0.0\n")]
    arguments = ("--base", base[1], "--format", "json")
    ran = torchstone("compare", base[0], new[0], *arguments, "--new", new[1])
    assert ran.code == 1, ran.err
    assert {key: row["verdict"] for key, row in rows_of(ran.out).items()} == {
        ("a", "accuracy"): "inconclusive"
    }
    back = torchstone("compare", new[0], base[0], "--base", new[1], "--new", base[1], "--format", "json")
    assert back.code == 1, back.err
    assert rows_of(back.out)["a", "accuracy"]["verdict"] == "inconclusive"


def test_a_file_is_the_same_whatever_it_is_called(torchstone: Command, tmp_path: Path) -> None:
    for name in ("base.jsonl", "new.jsonl"):
        write_run(tmp_path, name, [passed("a", times(5))])
    ran = torchstone("compare", "base.jsonl", "new.jsonl", "--base", "./base.jsonl")
    assert ran.code == 2
    assert "given twice for one side" in ran.err


def test_another_batch_size_of_a_case_that_both_have_is_new(compare: Compare) -> None:
    four, eight = (
        passed("a", times(5), case=Case("a", "performance", "", Variant(batch_size=size))) for size in (4, 8)
    )
    for options in ([], ["--compare-anyway"]):
        ran, report = compare([four], [four, eight], *options)
        assert ran.code == 1, ran.err
        assert sorted(row["verdict"] for row in report["rows"]) == ["new", "same"]


def test_files_of_one_side_that_were_measured_in_two_ways_are_compared_if_that_is_asked_for(
    torchstone: Command, tmp_path: Path
) -> None:
    def started(start: str) -> list[Outcome]:
        return [passed("a", trials("compilation_latency", 5.0, 5.1, 4.9, start=start))]

    for name, start in (("base.jsonl", "fork"), ("more.jsonl", "spawn"), ("new.jsonl", "fork")):
        write_run(tmp_path, name, started(start))
    arguments = ("compare", "base.jsonl", "new.jsonl", "--base", "more.jsonl", "--format", "json")
    assert "differ in start" in only_row(json.loads(torchstone(*arguments).out))["reason"]
    anyway = only_row(json.loads(torchstone(*arguments, "--compare-anyway").out))
    assert anyway["verdict"] == "same"


def test_environments_that_differ_among_the_files_of_a_side_are_shown(
    torchstone: Command, tmp_path: Path
) -> None:
    for name, version in (("base.jsonl", "2.11"), ("more.jsonl", "2.13"), ("new.jsonl", "")):
        environment = {"versions": {"torch": version}} if version else None
        write_run(tmp_path, name, [passed("a", times(5))], environment=environment)
    ran = torchstone("compare", "base.jsonl", "new.jsonl", "--base", "more.jsonl")
    assert ran.out.startswith("environment: torch is 2.13, was 2.11 (both are BASE)")
    assert "--cross-environment" in ran.out


def test_a_change_from_nothing_is_named(torchstone: Command, tmp_path: Path) -> None:
    base = write_run(tmp_path, "base.jsonl", [passed("a", counts("unique_graphs", 0))])
    new = write_run(tmp_path, "new.jsonl", [passed("a", counts("unique_graphs", 3))])
    ran = torchstone("compare", base, new)
    assert "from 0" in ran.out


@pytest.mark.parametrize(
    ("was", "now", "verdict", "rate"),
    [
        ("fail_accuracy", "pass_due_to_skip", "regression", (0, 0)),
        ("pass", "pass_due_to_skip", "regression", (1, 0)),
        ("pass_due_to_skip", "pass", "improvement", (0, 1)),
        ("pass_due_to_skip", "pass_due_to_skip", "expected_failure", (0, 0)),
    ],
)
def test_what_is_skipped_neither_passes_nor_fails(
    was: str, now: str, verdict: str, rate: tuple[int, int], compare: Compare
) -> None:
    sides = ([Outcome(Case("a", "accuracy"), status)] for status in (was, now))
    _, report = compare(*sides)
    assert only_row(report)["verdict"] == verdict
    assert (report["pass_rate"]["base"], report["pass_rate"]["new"]) == rate


def record(value: float, **extra: str) -> dict[str, Any]:
    return {
        "benchmark": {"name": "pr_time_benchmarks", "extra_info": extra},
        "model": {"name": "loop"},
        "metric": {"name": "instruction_count", "benchmark_values": [value]},
    }


def test_records_of_two_counters_are_never_compared(torchstone: Command, write: WriteFile) -> None:
    base, new = (
        write(f"{n}.json", json.dumps([found]))
        for n, found in enumerate((record(1e9), record(1.1e9, counter="simulated")))
    )
    row = only_row(json.loads(torchstone("compare", base, new, "--format", "json").out))
    assert (row["verdict"], "simulated counter" in row["reason"]) == ("inconclusive", True)


def test_records_say_where_they_were_measured(torchstone: Command, tmp_path: Path) -> None:
    files = []
    for side, (gpu, level) in (("base", ("A100", 5.0)), ("new", ("H100", 6.0))):
        environment = {"accelerators": [{"name": gpu}], "versions": {"torch": "2.13.0"}}
        run = write_run(tmp_path, f"{side}.jsonl", [passed("a", times(level))], environment=environment)
        assert torchstone("export", run, "-o", f"{side}.json", "--to", "v3", "--lossy").code == 0
        files.append(f"{side}.json")
    ran = torchstone("compare", *files)
    assert ran.out.startswith("environment: accelerator is H100, was A100")
    assert ran.code == 1


def report(version: str, bucket: int, seconds: float) -> str:
    rounds = [{"ranks": [0], "measurements": [0.1]}, {"ranks": [0, 1], "measurements": [seconds]}]
    head = {"pytorch_version": version, "distributed_backend": "gloo", "bucket_size": bucket}
    results = [{"model": "m", "batch_size": 8, "result": rounds}]
    return json.dumps({**head, "benchmark_results": results})


def test_the_head_of_a_ddp_report_says_what_cannot_be_compared(torchstone: Command, write: WriteFile) -> None:
    base = write("base.json", report("2.11", 25, 0.1))
    other = torchstone("compare", base, write("new.json", report("2.13", 25, 0.2)))
    assert other.out.startswith("environment: torch is 2.13, was 2.11")
    bucket = torchstone("compare", base, write("new.json", report("2.11", 1, 0.2)), "--format", "json")
    reasons = {row.get("reason") for row in json.loads(bucket.out)["rows"]}
    assert any(
        "measured with bucket_size 1, the baseline with bucket_size 25" in str(each) for each in reasons
    )


@pytest.mark.parametrize("seconds", [1e-310, 1e300])
def test_times_of_a_ddp_report_that_cannot_be_are_refused(
    seconds: float, torchstone: Command, write: WriteFile
) -> None:
    base, new = write("base.json", report("2", 1, 0.1)), write("new.json", report("2", 1, seconds))
    ran = torchstone("compare", base, new)
    assert ran.code == 2
    assert "expected seconds, each from 1e-09 to 1e+09" in ran.err


def test_a_page_that_would_be_none_is_refused(torchstone: Command, tmp_path: Path) -> None:
    files = [write_run(tmp_path, f"{side}.jsonl", [passed("a", times(5))]) for side in ("base", "new")]
    ran = torchstone("compare", *files, "-o", "page.html", "--format", "json")
    assert ran.code == 2
    assert "this report is json, not an HTML page" in ran.err
    assert not (tmp_path / "page.html").exists()


def test_cases_that_are_told_apart_by_the_middle_of_their_names_are_told_apart(
    torchstone: Command, tmp_path: Path
) -> None:
    names = [f"a_rather_long_name_of_a_network({width})_with_something_behind_it" for width in (8, 16)]
    files = [
        write_run(tmp_path, f"{side}.jsonl", [passed(name, times(5, 2, seed=seed)) for name in names])
        for seed, side in enumerate(("base", "new"))
    ]
    ran = torchstone("compare", *files)
    assert all(name in ran.out for name in names)


def test_a_file_without_a_single_outcome_is_said_to_be_one(torchstone: Command, tmp_path: Path) -> None:
    good = write_run(tmp_path, "good.jsonl", [passed("a", times(5))])
    cut = write_run(tmp_path, "cut.jsonl", [], further_plan=[case_of("a")])
    for files in ((cut, good), (good, cut)):
        ran = torchstone("compare", *files)
        assert ran.code == 2
        assert "no outcome of 1 planned case is in cut.jsonl" in ran.err
        assert "torchstone run --resume cut.jsonl" in ran.err
