"""The same question has the same answer: check, compare, the page, and the Python API agree on any pair of runs."""

from __future__ import annotations

import json
import math
import random
from contextlib import suppress
from datetime import date
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

import torchstone
from conftest import Command, WriteFile
from run_pairs import (
    DEFINITIONS,
    VARIANT,
    PairMaker,
    RunPair,
    make_reading,
    pairing_of,
    random_contests,
    random_pair,
)
from torchstone.api.files.report import ReportRequest, make_report
from torchstone.api.judging.check import CheckResult, check_results
from torchstone.api.judging.check_request import CheckRequest
from torchstone.api.judging.compare import CompareRequest, CompareResult, compare_results
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import UsageError
from torchstone.core.records import Case, Measurement, Outcome, Reading, Run
from torchstone.core.run_file import encode_run
from torchstone.core.vocabulary import ACCURACY, Verdict
from torchstone.formats import FORMATS
from torchstone.gate.apply_quarantine import Exemptions
from torchstone.gate.blocking_policy import comparison_policy
from torchstone.gate.disturbance import disturbance_of, steady_part
from torchstone.gate.judgement import Row
from torchstone.gate.rules import NEEDS_NO_BASELINE
from torchstone.measure.ab.contest import AbSettings
from torchstone.measure.ab.judging import Unmatched, judge_contests
from torchstone.reporting.html.comparison_page import render_comparison
from torchstone.reporting.views.comparison.comparison_view import make_comparison_page
from torchstone.reporting.views.report_view import interval_of, metric_name, value_text

FEW, MANY = 200, 1_000
TONES = {"PASS": "good", "UNDECIDED": "open", "FAIL": "bad"}
CHANGED = {Verdict.REGRESSION, Verdict.IMPROVEMENT}
WITHOUT_BASE = {Verdict.NEW, Verdict.INVALID}
"""Verdicts on the new number alone: what it is compared with does not matter."""


def check_pair(pair: RunPair, folder: Path) -> CheckResult:
    return check_results(
        CheckRequest(
            results=(pair.new,),
            baselines=(pair.base,),
            policy=pair.policy,
            config=write_config(pair, folder),
        )
    )


def compare_pair(pair: RunPair, folder: Path) -> CompareResult:
    return compare_results(
        CompareRequest(
            base=(pair.base,), new=(pair.new,), policy=pair.policy, config=write_config(pair, folder)
        )
    )


def judge_both(pair: RunPair, folder: Path) -> tuple[CheckResult, CompareResult] | None:
    """What check and compare say of a pair; None if it is refused, because the runs have nothing in common."""
    try:
        compared = compare_pair(pair, folder)
    except UsageError:
        with suppress(UsageError):
            assert not any(row.base and row.new for row in check_pair(pair, folder).rows)
        return None
    return check_pair(pair, folder), compared


def write_config(pair: RunPair, folder: Path) -> str:
    """The settings file of a pair; its name."""
    path = folder / "torchstone.toml"
    path.write_text(f'[check]\npolicy = "{pair.policy}"\n\n{pair.rules}')
    return str(path)


def answer(row: Row) -> tuple[object, ...]:
    """All that two commands have to agree on."""
    verdict = Verdict.SAME if row.verdict is Verdict.PASS else row.verdict
    said: tuple[object, ...] = (verdict, row.blocks, comparable(row.new_value))
    if row.verdict in WITHOUT_BASE:
        return said
    found, criteria = row.comparison, row.criteria
    said += (comparable(row.base_value),)
    if found is not None:
        said += tuple(map(comparable, (found.ratio, found.low, found.high, found.p_value)))
        said += (found.method, row.ruling.relevance if found.p_value is not None else "")
    if found is not None and found.p_value is not None and criteria is not None:
        said += (criteria.limits, criteria.alpha, row.adjusted)
    return said


def comparable(value: object) -> object:
    return "not a number" if isinstance(value, float) and math.isnan(value) else value


def by_metric(rows: list[Row]) -> dict[tuple[Case, str], Row]:
    found = {(row.case, row.metric): row for row in rows}
    assert len(found) == len(rows)
    return found


def expect_agreement(pair: RunPair, folder: Path) -> None:
    judged = judge_both(pair, folder)
    if judged is None:
        return
    checked, compared = judged
    ours, theirs = by_metric(checked.rows), by_metric(compared.rows)
    for key in ours.keys() & theirs.keys():
        assert answer(ours[key]) == answer(theirs[key]), key
    assert {case for case, _ in ours} == {case for case, _ in theirs}
    for case in {
        case for case, _ in ours.keys() ^ theirs.keys()
    }:  # one row or several of a case that has no numbers
        assert blocking(ours, case) == blocking(theirs, case), describe(ours, theirs, case)
    assert checked.exit_code == compared.exit_code
    assert checked.judgement.state is compared.judgement.state
    assert checked.judgement.points == compared.judgement.points
    expect_same_page(pair, checked, folder)
    expect_same_comparison_page(compared, ours)


def describe(ours: dict[tuple[Case, str], Row], theirs: dict[tuple[Case, str], Row], case: Case) -> list[str]:
    return [
        f"{name} {row.metric} {row.verdict.value}: {row.detail}"
        for name, rows in (("check", ours), ("compare", theirs))
        for (of, _), row in rows.items()
        if of == case
    ]


def blocking(rows: dict[tuple[Case, str], Row], case: Case) -> bool:
    return any(row.blocks for (of, _), row in rows.items() if of == case)


def expect_same_page(pair: RunPair, checked: CheckResult, folder: Path) -> None:
    request = ReportRequest(results=(pair.new,), baselines=(pair.base,), config=write_config(pair, folder))
    page = make_report(request).page
    assert page.gate is not None
    shown = by_metric([row for case in page.rows for row in case.judged])
    rows = by_metric(checked.rows)
    assert shown.keys() == rows.keys()
    assert {key: answer(row) for key, row in shown.items()} == {key: answer(row) for key, row in rows.items()}
    assert page.gate.tone == TONES[checked.judgement.state]


def expect_same_comparison_page(compared: CompareResult, ours: dict[tuple[Case, str], Row]) -> None:
    """The page of a comparison shows the values, intervals and verdicts of the rows of check."""
    report = compared.report
    page = make_comparison_page(report)
    shown = [row for section in page.sections for row in (*section.rows, *section.counts)]
    assert len(shown) == len(compared.rows)
    assert page.headline.tone == TONES[compared.judgement.state]
    found = {(row.name, row.metric): row for row in shown}
    assert len(found) == len(shown)
    html = unescape(render_comparison(page))
    for row in compared.rows:
        on_page = found[report.name_of(row.case), metric_name(row)]
        checked = ours.get((row.case, row.metric), row)
        same = Verdict.SAME if checked.verdict is Verdict.PASS else checked.verdict
        assert on_page.verdict in {same, checked.verdict}
        assert on_page.blocks == checked.blocks
        assert on_page.values[1] == value_text(checked.new_value, checked)
        if checked.verdict not in WITHOUT_BASE:
            assert on_page.values[0] == value_text(checked.base_value, checked)
        if checked.comparison is not None and (interval := interval_on_page(checked)):
            assert on_page.interval == interval
        for text in (on_page.values[1], on_page.interval):
            assert text in html


def interval_on_page(row: Row) -> str:
    """The interval of a row in percent; empty if it has none, or none that is bounded."""
    comparison = row.comparison
    if comparison is None or row.ratio is None or comparison.low == comparison.high:
        return ""
    return interval_of(comparison.low, comparison.high)


@pytest.mark.parametrize("first", range(0, FEW, 50))
def test_all_commands_agree_on_pairs_of_runs(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 50):
        expect_agreement(random_pair(seed), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FEW, MANY, 100))
def test_all_commands_agree_on_many_pairs_of_runs(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 100):
        expect_agreement(random_pair(seed), tmp_path)


@settings(deadline=None, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_all_commands_agree_on_any_pair_of_runs(
    tmp_path_factory: pytest.TempPathFactory, chance: random.Random
) -> None:
    expect_agreement(PairMaker(chance).pair(), tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("seed", range(20))
def test_python_says_the_same_of_files_as_the_records_do(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pair = random_pair(f"file {seed}")
    pair = RunPair(finite(pair.base), finite(pair.new), pair.rules, pair.policy)
    checked, compared = judge_both(pair, tmp_path) or pytest.skip("the runs have nothing in common")
    for reading in (pair.base, pair.new):
        Path(reading.path).write_text(FORMATS[reading.kind].write(reading.run))
    options: dict[str, Any] = {"policy": pair.policy, "config": "torchstone.toml"}
    again = torchstone.check(pair.new.path, baselines=pair.base.path, **options)
    assert list(map(answer, again.rows)) == list(map(answer, checked.rows))
    assert again.exit_code == checked.exit_code
    repeated = torchstone.compare(pair.base.path, pair.new.path, **options)
    assert list(map(answer, repeated.rows)) == list(map(answer, compared.rows))
    assert repeated.exit_code == checked.exit_code


def finite(reading: Reading) -> Reading:
    """A reading that a file can hold: without the intervals that are not numbers."""

    def keep(measurement: Measurement) -> Measurement:
        details = measurement.details
        if details and details.interval and not all(map(math.isfinite, details.interval)):
            return structs.replace(measurement, details=structs.replace(details, interval=(0.0, 1.0)))
        return measurement

    outcomes = tuple(
        structs.replace(each, measurements=tuple(map(keep, each.measurements)))
        for each in reading.run.outcomes
    )
    return structs.replace(reading, run=structs.replace(reading.run, outcomes=outcomes))


def test_the_pairs_have_everything_that_commands_could_disagree_on(tmp_path: Path) -> None:
    verdicts, methods, kinds, defined = set(), set(), set(), set()
    for seed in range(FEW):
        pair = random_pair(seed)
        kinds.add((pair.base.kind == "run", pair.new.kind == "run"))
        for judged in judge_both(pair, tmp_path) or ():
            defined |= {
                row.metric for row in judged.rows if row.metric in DEFINITIONS and row.base and row.new
            }
            verdicts |= {row.verdict for row in judged.rows}
            methods |= {row.comparison.method for row in judged.rows if row.comparison}
    assert verdicts >= {
        *(Verdict.PASS, Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.INCONCLUSIVE),
        *(Verdict.MISSING, Verdict.NEW, Verdict.INVALID),
    }
    assert methods >= {"value", "exact", "Welch's t", ""}
    assert kinds == {(True, True), (True, False), (False, True), (False, False)}
    assert defined == set(DEFINITIONS)


def test_a_result_whose_baseline_row_states_nothing_is_new_to_check_and_compare(
    torchstone: Command, write: WriteFile
) -> None:
    write("expected.csv", "name,speedup\nfirst,1.5\nsecond,\n")
    header = "dev,name,batch_size,speedup,abs_latency\n"
    write("results.csv", f"{header}cpu,first,1,1.5,1\ncpu,second,1,2,1\n")
    for command in (
        ("check", "results.csv", "--baseline", "expected.csv"),
        ("compare", "expected.csv", "results.csv"),
    ):
        ran = torchstone(*command, "--format", "json")
        rows = {row["name"]: row["verdict"] for row in json.loads(ran.out)["rows"]}
        assert (ran.code, rows["second"]) == (1, "new")


def test_the_numbers_of_trials_before_a_failure_are_not_shown_as_its_result(
    torchstone: Command, write: WriteFile
) -> None:
    case = Case("flips", "performance", "smoke", VARIANT)
    for name, status, speedup in (("base.jsonl", "pass", 1.5), ("new.jsonl", "fail_to_run", 7.75)):
        found = Measurement("speedup", (speedup, speedup), MeasurementDetails(trials=(1, 1)))
        write(name, encode_run(Run("x", (case,), (Outcome(case, status, (found,)),))))
    for command in (
        ("check", "new.jsonl", "--baseline", "base.jsonl"),
        ("compare", "base.jsonl", "new.jsonl"),
    ):
        ran = torchstone(*command, "--format", "json")
        (row,) = json.loads(ran.out)["rows"]
        assert (ran.code, row["verdict"]) == (1, "regression")
        assert "fail_to_run" in row["detail"]
        assert "7.7" not in row["detail"]


def test_what_was_disturbed_is_neither_red_nor_green(tmp_path: Path) -> None:
    seen = 0
    for seed in range(FEW):
        judged = judge_both(random_pair(f"disturbed {seed}"), tmp_path) or ()
        for row in (row for result in judged for row in result.rows):
            if row.comparison is None or (row.rule and row.rule.kind in NEEDS_NO_BASELINE):
                continue
            if is_disturbed(row):
                seen += 1
                assert row.verdict is Verdict.INCONCLUSIVE
                assert "disturbed while " in row.detail or "not comparable" in row.detail
    assert seen > 100


def is_disturbed(row: Row) -> bool:
    """Whether a side of a row has no trial that was not disturbed."""
    for outcome in (row.base, row.new):
        found = [each for each in (outcome.measurements if outcome else ()) if each.metric == row.metric]
        if (
            outcome
            and found
            and disturbance_of(outcome, row.metric)
            and steady_part(outcome, found[0])[0] is None
        ):
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_the_files_of_ab_say_what_ab_said_while_it_measured(seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"ab {seed}")  # noqa: S311  (noise, not secrets)
    name = chance.choice(("strict", "lenient"))
    policy = comparison_policy(name)
    settings = AbSettings(
        margin=chance.choice((0.01, 0.02, 0.1)), alpha=chance.choice((0.0025, 0.05)), session="session"
    )
    contests = random_contests(chance, settings, policy)
    said = judge_contests(
        contests, Unmatched(), settings, policy, Exemptions(policy, (), date.max), lambda _: ""
    )
    sides = [
        make_reading(path, [contest.outcome(side, "") for contest in contests], pairing_of(letter, settings))
        for side, (path, letter) in enumerate((("base.jsonl", "a"), ("new.jsonl", "b")))
    ]
    pair = RunPair(sides[0], sides[1], policy=name)
    judged = judge_both(pair, tmp_path)
    assert judged is not None
    for result in judged:
        rows = {row.case: row for row in result.rows}
        assert len(rows) == len(said.rows)
        for row in said.rows:
            assert effect(rows[row.case]) == effect(row)
        assert result.exit_code == said.exit_code
        assert result.judgement.state is said.state
    expect_agreement(pair, tmp_path)


def effect(row: Row) -> tuple[object, ...]:
    """The verdict and the numbers of a row that was measured in pairs."""
    found = row.comparison
    verdict = Verdict.SAME if row.verdict is Verdict.PASS else row.verdict
    if found is None:  # decided by how its trials ended
        assert row.metric == ACCURACY
        return verdict, row.blocks, row.new_value, row.base_value
    return verdict, row.blocks, row.new_value, row.base_value, comparable(found.ratio), found.low, found.high


def test_files_of_ab_are_judged_by_the_criteria_they_carry_unless_told_otherwise(tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311  (noise, not secrets)
    settings, policy = AbSettings(margin=0.04, alpha=0.01, session="session"), comparison_policy("strict")
    contests = random_contests(chance, settings, policy)
    base, new = (
        make_reading(path, [contest.outcome(side, "") for contest in contests], pairing_of(letter, settings))
        for side, (path, letter) in enumerate((("base.jsonl", "a"), ("new.jsonl", "b")))
    )
    said = f"{len(contests)} rows of 'torchstone ab' judged by the criteria that it used: margin 4%, alpha 1%"
    for result in judge_both(RunPair(base, new), tmp_path) or ():
        margins = {row.criteria.margin for row in result.rows if row.criteria}
        assert margins <= {0.04}
        assert margins or result.report.command == "check"  # which keeps the criteria of tested rows only
        assert said in " ".join(result.render("text").split())
    rule = '[[rule]]\nmetric = "abs_latency"\nkind = "ratio_ceiling"\nratio = 1.3\n'
    for result in judge_both(RunPair(base, new, rule), tmp_path) or ():
        assert {round(row.criteria.margin, 9) for row in result.rows if row.criteria} <= {0.3}
        assert "that it used" not in " ".join(result.render("text").split())
    told = compare_results(CompareRequest(base=(base,), new=(new,), margin=0.1))
    assert {row.criteria.margin for row in told.rows if row.criteria} == {0.1}
