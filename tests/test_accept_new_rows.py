"""Baselines that are started from results: of any probe, of several files, with what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from comparison_files import case_of, counts, passed, times, write_run
from conftest import Command, WriteFile
from torchstone.core.records import Measurement, Outcome

HEADER = "dev,name,batch_size,accuracy,calls_captured,unique_graphs,graph_breaks\n"
START = ("--baseline", "e.csv", "--add-new", "--yes")


def test_a_run_without_outcomes_is_nothing_to_start_with(torchstone: Command, tmp_path: Path) -> None:
    run = write_run(tmp_path, "run.jsonl", [], further_plan=[case_of("a")])
    ran = torchstone("accept", run, *START)
    assert ran.code == 2
    assert "no outcome to start it with" in ran.err
    assert not Path("e.csv").exists()


def test_what_a_performance_run_measures_makes_a_baseline(torchstone: Command, tmp_path: Path) -> None:
    both = passed(
        "a", Measurement("speedup", (1.5,)), times(5), counts("recompiles", 0), counts("graph_breaks", 0)
    )
    run = write_run(tmp_path, "run.jsonl", [both])
    assert torchstone("accept", run, *START).code == 0
    assert torchstone("check", run, "--baseline", "e.csv").code == 0
    again = passed(
        "a", Measurement("speedup", (1.5,)), times(5), counts("recompiles", 2), counts("graph_breaks", 0)
    )
    worse = write_run(tmp_path, "worse.jsonl", [again])
    ran = torchstone("check", worse, "--baseline", "e.csv")
    assert ran.code == 1
    assert "recompiles" in ran.out


def test_a_row_that_is_added_is_named_by_what_is_written(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("memory.csv", "name,compression_ratio\nz,1.0\n")
    header = "dev,name,batch_size,speedup,abs_latency,compression_ratio,eager_peak_mem,dynamo_peak_mem\n"
    rows = write("perf.csv", f"{header}cuda,z,8,1,1,1.0,2,2\ncuda,n,8,1.4,1,1.2,2.4,2\n")
    ran = torchstone("accept", rows, "--baseline", "memory.csv", "--add-new", "--yes")
    assert "add  n     compression_ratio  -    1.2x" in ran.out
    run = write_run(tmp_path, "run.jsonl", [passed("a", Measurement("speedup", (1.5,)), times(5))])
    ran = torchstone("accept", run, "--baseline", "e.jsonl", "--add-new", "--yes")
    assert "also adds abs_latency" in ran.out


def test_only_what_is_added_is_told_of_a_benchmark_that_has_rows_already(
    torchstone: Command, write: WriteFile
) -> None:
    expected = write("e.csv", "add,compile_time_instruction_count,100,0.015\n")
    accept = ("accept", "r.csv", "--baseline", expected, "--add-new", "--dry-run")
    write("r.csv", "add,compile_time_instruction_count,100\nadd,memory,5\n")
    alone = torchstone(*accept).out
    assert "+add,memory,5,0.015\n" in alone
    assert "more" not in alone
    assert "also adds" not in alone
    write(
        "r.csv", "add,compile_time_instruction_count,100\n" + "".join(f"add,{name},5\n" for name in "mnopqr")
    )
    several = torchstone(*accept).out
    assert "also adds n, o, p and 2 more" in several
    assert several.count("\n+add,") == 6


def test_hits_and_savings_may_be_nothing_or_less(torchstone: Command, tmp_path: Path) -> None:
    measured = {
        "cold_compile_seconds": 9.0,
        "cold_hit_rate": 0.0,
        "warm_saved": -3.5,
        "warm_native_seconds": 0.0,
    }
    numbers = (Measurement(metric, (value,)) for metric, value in measured.items())
    run = write_run(tmp_path, "run.jsonl", [passed("a", *numbers, case=case_of("a", "compile_cache"))])
    assert torchstone("accept", run, *START).code == 0
    assert torchstone("check", run, "--baseline", "e.csv").code == 0
    header, row = Path("e.csv").read_text().splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=True))
    assert float(cells["warm_saved"]) == -3.5
    assert not cells.get("warm_native_seconds")


def test_of_a_run_of_several_probes_one_can_be_chosen(torchstone: Command, tmp_path: Path) -> None:
    outcomes = [
        passed("a", times(5)),
        Outcome(case_of("a", "accuracy"), "pass", (counts("graph_breaks", 1),)),
    ]
    run = write_run(tmp_path, "run.jsonl", outcomes)
    refused = torchstone("accept", run, *START)
    assert refused.code == 2
    assert "--only '*::accuracy'" in refused.err
    assert torchstone("accept", run, *START, "--only", "*::accuracy").code == 0
    assert Path("e.csv").read_text().split() == ["name,accuracy,graph_breaks", "a,pass,1"]


def test_counts_that_are_asked_for_stand_beside_a_status(torchstone: Command, write: WriteFile) -> None:
    results = write("r.csv", HEADER + "cuda,a,8,pass,9,1,0\n")
    assert torchstone("accept", results, *START, "--metric", "unique_graphs").code == 0
    assert Path("e.csv").read_text().split() == ["name,accuracy,unique_graphs", "a,pass,1"]


def test_the_middle_of_two_counts_is_a_count(torchstone: Command, write: WriteFile) -> None:
    write("e.csv", "x,compile_time_instruction_count,4000000,0.015\n")
    files = [
        write(f"r{count}.csv", f"x,compile_time_instruction_count,{count}\n") for count in (4052301, 4052302)
    ]
    assert torchstone("accept", *files, *START).code == 0
    assert Path("e.csv").read_text() == "x,compile_time_instruction_count,4052000,0.015\n"


def test_counts_of_one_benchmark_in_several_files_are_joined(torchstone: Command, write: WriteFile) -> None:
    files = (
        write("a.csv", "x,instruction_count,5000\n"),
        write("b.csv", "x,compile_time_instruction_count,7000\n"),
    )
    assert torchstone("import", *files, "-o", "r.jsonl").code == 0
    assert torchstone("accept", *files, *START).code == 0
    rows = {tuple(line.split(",")[:3]) for line in Path("e.csv").read_text().splitlines() if line}
    assert rows == {("x", "instruction_count", "5000"), ("x", "compile_time_instruction_count", "7000")}
    assert torchstone("check", "r.jsonl", "--baseline", "e.csv").code == 0


@pytest.mark.parametrize("status", ["pass", "timeout"])
def test_what_is_not_available_is_never_expected(status: str, torchstone: Command, tmp_path: Path) -> None:
    base = write_run(tmp_path, "base.jsonl", [Outcome(case_of("a", "accuracy"), status)])
    before = Path(base).read_text()
    new = write_run(tmp_path, "new.jsonl", [Outcome(case_of("a", "accuracy"), "not_available")])
    ran = torchstone("accept", new, "--baseline", base, "--yes")
    assert "not available here" in ran.out
    assert Path(base).read_text() == before


def both_probes(tmp_path: Path) -> str:
    accuracy = Outcome(case_of("a", "accuracy"), "pass", (counts("graph_breaks", 0),))
    return write_run(tmp_path, "run.jsonl", [accuracy, passed("a", times(5))])


def test_a_run_file_is_started_with_all_probes(tmp_path: Path, torchstone: Command) -> None:
    run = both_probes(tmp_path)
    refused = torchstone("accept", run, "--baseline", "base.csv", "--add-new", "--yes")
    assert refused.code == 2
    assert "base.jsonl" in refused.err
    assert torchstone("accept", run, "--baseline", "base.jsonl", "--add-new", "--yes").code == 0
    ran = torchstone("check", run, "--baseline", "base.jsonl")
    assert ran.code == 0, ran.out
    assert "2 cases judged" in ran.out


def test_cases_that_a_baseline_has_no_place_for_are_not_passed_over(
    tmp_path: Path, torchstone: Command
) -> None:
    run = both_probes(tmp_path)
    only = ("--only", "*::accuracy")
    assert torchstone("accept", run, "--baseline", "base.csv", "--add-new", "--yes", *only).code == 0
    ran = torchstone("accept", run, "--baseline", "base.csv", "--add-new", "--yes")
    assert "1 case of performance skipped" in ran.out


def test_rows_of_other_metrics_are_not_pruned(tmp_path: Path, torchstone: Command, write: WriteFile) -> None:
    rows = "a,instruction_count,1000,0.1\nb,instruction_count,1000,0.1\nb,compile_time_instruction_count,500,0.1\n"
    baseline = write("expected.csv", rows)
    results = write("results.csv", "a,instruction_count,1000\n")
    metric = ("--metric", "compile_time_instruction_count")
    ran = torchstone("accept", results, "--baseline", baseline, "--prune", "--yes", *metric)
    assert ran.code in {0, 2}
    assert Path(baseline).read_text() == rows
