"""A case that failed is red even if the baseline speaks only of another probe."""

from __future__ import annotations

import pytest

from conftest import Command, WriteFile
from torchstone.codec import encode_run
from torchstone.model import Case, Failure, Measurement, Outcome, Run


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
