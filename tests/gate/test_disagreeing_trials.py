"""A case of which one trial passed and another failed is undecided in every command, and the report says which."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from msgspec import structs

import torchstone as product
from conftest import Command, WriteFile
from run_pairs import VARIANT, make_reading, measured_settings
from torchstone.api.files.report import ReportRequest, make_report
from torchstone.api.judging.check import check_results
from torchstone.api.judging.check_request import CheckRequest
from torchstone.api.judging.compare import CompareRequest, compare_results
from torchstone.core.records import Case, Failure, Measurement, Outcome, Reading, Run
from torchstone.core.run_file import encode_run
from torchstone.core.vocabulary import ACCURACY, Verdict
from torchstone.gate.judgement import Row, State
from torchstone.gate.trial_statuses import disagreement_caution
from torchstone.measure.procedures.trials import join_trials

CASE = Case("flips", "performance", "smoke", VARIANT)
GOOD = Outcome(CASE, "pass", (Measurement("speedup", (1.5,)),))
BAD = Outcome(CASE, "fail_to_run", failure=Failure("run", "it crashed"))


def reading(path: str, outcome: Outcome) -> Reading:
    return make_reading(path, [outcome], measured_settings())


def rows_of(base: Outcome, new: Outcome) -> list[Row]:
    """The rows of check and of compare."""
    sides = reading("b.jsonl", base), reading("n.jsonl", new)
    results = (
        check_results(CheckRequest(results=(sides[1],), baselines=(sides[0],))),
        compare_results(CompareRequest(base=(sides[0],), new=(sides[1],))),
    )
    page = make_report(ReportRequest(results=(sides[1],), baselines=(sides[0],))).page
    shown = [row for case in page.rows for row in case.judged]
    assert [row.detail for row in shown] == [row.detail for row in results[0].rows]
    return [row for result in results for row in result.rows]


@pytest.mark.parametrize("probe", ["performance", "accuracy"])
def test_a_trial_that_failed_after_others_passed_leaves_the_case_undecided(probe: str) -> None:
    case = structs.replace(CASE, probe=probe)
    good, bad = (structs.replace(each, case=case) for each in (GOOD, BAD))
    found = rows_of(good, join_trials([good, good, bad]))
    assert [(row.metric, row.verdict, row.blocks) for row in found] == [
        (ACCURACY, Verdict.INCONCLUSIVE, True)
    ] * 2
    assert {row.detail for row in found} == {"its trials disagree: 2 pass, 1 fail_to_run"}


def test_a_baseline_whose_trials_disagree_decides_nothing_either() -> None:
    found = rows_of(join_trials([GOOD, BAD]), GOOD)
    assert {(row.verdict, row.detail) for row in found} == {
        (Verdict.INCONCLUSIVE, "the trials of the baseline disagree: 1 pass, 1 fail_to_run")
    }


def test_a_result_that_fails_clearly_more_often_is_a_regression() -> None:
    flaky = structs.replace(GOOD, cautions=(disagreement_caution(Counter({"pass": 3, "fail_to_run": 2})),))
    assert {row.verdict for row in rows_of(GOOD, flaky)} == {Verdict.REGRESSION}
    assert {row.verdict for row in rows_of(BAD, flaky)} == {Verdict.INCONCLUSIVE}
    assert {row.verdict for row in rows_of(flaky, flaky)} == {Verdict.INCONCLUSIVE}


def test_a_failure_in_every_trial_is_still_a_regression() -> None:
    assert {row.verdict for row in rows_of(GOOD, BAD)} == {Verdict.REGRESSION}


def test_files_of_one_side_that_disagree_are_undecided(write: WriteFile, torchstone: Command) -> None:
    for name, outcome in (("b", GOOD), ("n1", GOOD), ("n2", BAD)):
        write(f"{name}.jsonl", encode_run(Run(name, (CASE,), (outcome,))))
    ran = torchstone("compare", "b.jsonl", "n1.jsonl", "--new", "n2.jsonl", "--format", "json")
    (row,) = json.loads(ran.out)["rows"]
    assert (ran.code, row["verdict"]) == (1, "inconclusive")
    assert row["detail"].endswith("its trials disagree: 1 pass, 1 fail_to_run")
    lenient = torchstone("compare", "b.jsonl", "n1.jsonl", "--new", "n2.jsonl", "--policy", "lenient")
    assert lenient.code == 0
    assert lenient.out.startswith("UNDECIDED: 1 of 1 row (1 cannot be judged)")


def test_every_command_says_the_same_of_a_file_with_a_failed_trial(
    write: WriteFile, torchstone: Command
) -> None:
    write("b.jsonl", encode_run(Run("b", (CASE,), (GOOD,))))
    write("n.jsonl", encode_run(Run("n", (CASE,), (join_trials([GOOD, BAD]),))))
    for command in (("check", "n.jsonl", "--baseline", "b.jsonl"), ("compare", "b.jsonl", "n.jsonl")):
        ran = torchstone(*command)
        assert ran.code == 1
        assert ran.out.startswith("UNDECIDED: 1 of 1 row")
        assert "its trials disagree: 1 pass, 1 fail_to_run" in " ".join(ran.out.split())
    result = product.check("n.jsonl", baselines="b.jsonl")
    assert result.judgement.state is State.UNDECIDED
    assert "find out why its trials differ" in " ".join(result.render("text").split())


def test_a_limit_is_not_judged_if_trials_disagree() -> None:
    for rule in ("accuracy=must_pass", "speedup=floor:1.2"):
        new = reading("n.jsonl", join_trials([GOOD, BAD]))
        result = check_results(CheckRequest(results=(new,), rules=(rule,)))
        assert {row.verdict for row in result.rows} == {Verdict.INCONCLUSIVE}


def test_the_upstream_policy_knows_no_trials() -> None:
    sides = reading("b.jsonl", GOOD), reading("n.jsonl", join_trials([GOOD, BAD]))
    request = CheckRequest(results=(sides[1],), baselines=(sides[0],), policy="upstream")
    assert check_results(request).judgement.state is not State.UNDECIDED
