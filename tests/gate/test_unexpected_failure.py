"""A case that failed is red even if the baseline speaks only of another probe."""

from __future__ import annotations

import pytest

from conftest import Command, WriteFile
from torchstone.core.records import Case, Failure, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run


def run_of(performance: str, accuracy: str = "pass") -> str:
    breaks = Measurement("graph_breaks", (0,))
    judged = Outcome(Case("mlp", "accuracy"), accuracy, (breaks,) if accuracy == "pass" else ())
    timed = Outcome(Case("mlp", "performance"), performance, failure=Failure("eager", "gone"))
    return encode_run(Run("run", (judged.case, timed.case), (judged, timed)))


@pytest.mark.parametrize("status", ["worker_died", "timeout", "OOM", "fail_to_run"])
def test_a_crash_while_timing_blocks_although_the_baseline_is_about_accuracy(
    torchstone: Command, write: WriteFile, status: str
) -> None:
    baseline = write("expected.csv", "name,accuracy,graph_breaks\nmlp,pass,0\n")
    ran = torchstone("check", write("run.jsonl", run_of(status)), "--baseline", baseline)
    assert ran.code == 1
    assert f"accuracy: {status}; it failed, and no baseline says that it does" in ran.out


def test_a_case_that_was_timed_and_has_no_baseline_of_its_own_does_not_block(
    torchstone: Command, write: WriteFile
) -> None:
    baseline = write("expected.csv", "name,accuracy,graph_breaks\nmlp,pass,0\n")
    assert torchstone("check", write("run.jsonl", run_of("pass")), "--baseline", baseline).code == 0


def test_a_model_that_is_expected_to_fail_may_fail_while_it_is_timed_too(
    torchstone: Command, write: WriteFile
) -> None:
    baseline = write("expected.csv", "name,accuracy,graph_breaks\nmlp,fail_to_run,0\n")
    run = write("run.jsonl", run_of("fail_to_run", "fail_to_run"))
    assert torchstone("check", run, "--baseline", baseline).code == 0


def test_a_crash_blocks_where_only_rules_judge_another_probe(torchstone: Command, write: WriteFile) -> None:
    run = write("run.jsonl", run_of("worker_died"))
    ran = torchstone("check", run, "--rule", "graph_breaks=ceiling:0")
    assert ran.code == 1
    assert "worker_died" in ran.out


@pytest.mark.parametrize(("status", "code"), [("fail_to_run", 1), ("pass", 0), ("pass_due_to_skip", 0)])
def test_who_lets_new_cases_pass_lets_no_crash_pass(
    torchstone: Command, write: WriteFile, status: str, code: int
) -> None:
    baseline = write("expected.csv", "name,accuracy\nold,pass\n")
    results = write("r.csv", f"dev,name,batch_size,accuracy\ncpu,old,4,pass\ncpu,new,4,{status}\n")
    assert torchstone("check", results, "--baseline", baseline, "--allow", "new").code == code


@pytest.mark.parametrize(
    ("options", "passing", "failing"),
    [
        ((), 1, 1),
        (("--policy", "lenient"), 0, 1),
        (("--allow", "new"), 0, 1),
        (("--allow", "regression"), 1, 1),
        (("--allow", "new", "--allow", "regression"), 0, 0),
        (("--policy", "lenient", "--allow", "regression"), 0, 0),
        (("--policy", "lenient", "--allow", "regression", "--block", "new"), 1, 1),
    ],
)
def test_check_and_compare_agree_on_whether_a_new_case_blocks(
    torchstone: Command, write: WriteFile, options: tuple[str, ...], passing: int, failing: int
) -> None:
    header = "dev,name,batch_size,accuracy\n"
    old = write("old.csv", f"{header}cpu,old,4,pass\n")
    for status, code in (("pass", passing), ("fail_to_run", failing)):
        results = write(f"{status}.csv", f"{header}cpu,old,4,pass\ncpu,new,4,{status}\n")
        assert torchstone("check", results, "--baseline", old, *options).code == code
        assert torchstone("compare", old, results, *options).code == code


@pytest.mark.parametrize("policy", ["strict", "lenient"])
def test_a_quarantine_covers_a_new_case_that_failed(
    torchstone: Command, write: WriteFile, policy: str
) -> None:
    baseline = write("expected.csv", "name,accuracy\nold,pass\n")
    results = write("r.csv", "dev,name,batch_size,accuracy\ncpu,old,4,pass\ncpu,new,4,fail_to_run\n")
    listed = write("q.toml", '[[quarantine]]\ncase = "new"\nreason = "known"\n')
    ran = torchstone("check", results, "--baseline", baseline, "--policy", policy, "--quarantine", listed)
    assert ran.code == 0
    assert "quarantined" in ran.out


def test_a_counted_case_without_numbers_that_vanished_is_missing(
    torchstone: Command, write: WriteFile
) -> None:
    failed = Outcome(Case("a", "instructions"), "fail_to_run")
    counted = Outcome(Case("b", "instructions"), "pass", (Measurement("instruction_count", (1000,)),))
    baseline = write("base.jsonl", encode_run(Run("base", (failed.case, counted.case), (failed, counted))))
    ran = torchstone(
        "check",
        write("new.jsonl", encode_run(Run("new", (counted.case,), (counted,)))),
        "--baseline",
        baseline,
    )
    assert ran.code == 1
    assert "missing" in ran.out


def test_a_wrong_result_that_lacks_what_is_expected_is_missing(torchstone: Command, write: WriteFile) -> None:
    header = "dev,name,batch_size,accuracy,graph_breaks,unique_graphs\n"
    results = write(
        "r.csv", header + "cpu,a,4,fail_accuracy,,\ncpu,b,4,pass,0,1\ncpu,c,4,pass_due_to_skip,0,\n"
    )
    baseline = write("e.csv", "name,graph_breaks,unique_graphs\na,0,1\nb,0,1\nc,0,1\n")
    ran = torchstone("check", results, "--baseline", baseline)
    assert ran.code == 1
    assert ran.out.count("missing") >= 3
    with_status = write("s.csv", "name,accuracy,graph_breaks\na,pass,0\nb,pass,0\nc,pass,0\n")
    assert (
        torchstone(
            "check", results, "--baseline", with_status, "--metric", "graph_breaks", "--only", "a"
        ).code
        == 1
    )


def test_a_failure_that_a_file_does_not_describe_is_as_expected_and_accept_leaves_it(
    torchstone: Command, write: WriteFile
) -> None:
    base = write("base.csv", "dev,name,batch_size,speedup,abs_latency\ncpu,a,4,1.5,10\ncpu,moco,0,0.0,0.0\n")
    timed = Outcome(Case("moco", "performance"), "timeout", failure=Failure("run", "late"))
    run = write("run.jsonl", encode_run(Run("run", (timed.case,), (timed,))))
    only = ("--only", "moco")
    assert torchstone("check", run, "--baseline", base, *only).code == 0
    ran = torchstone("accept", run, "--baseline", base, "--yes", *only)
    assert ran.code == 0
    assert "nothing to change" in ran.out


def test_an_axis_that_a_planned_case_states_otherwise_is_a_clear_error(
    torchstone: Command, write: WriteFile
) -> None:
    planned = Case("a", "accuracy", variant=Variant(dtype="float32"))
    run = write("run.jsonl", encode_run(Run("run", (planned,), ())))
    ran = torchstone(
        "check", run, "--baseline", write("e.csv", "name,accuracy\na,pass\n"), "--set", "dtype=bfloat16"
    )
    assert ran.code == 2
    assert "the file says dtype=float32, but --set says bfloat16" in ran.err
