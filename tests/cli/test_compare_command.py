"""``torchstone compare``: verdicts, exit codes and bad input, from files to what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import structs

from comparison_files import case_of, counts, failed, only_row, passed, times, write_run
from conftest import Command, Compare, WriteFile
from sample_files import ACCURACY, CANONICAL, TOOLS
from stated_facts import measurement_of
from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.records import Measurement, Outcome
from torchstone.core.vocabulary import VERDICTS


def test_a_slower_case_is_a_regression_with_effect_interval_method_and_counts(compare: Compare) -> None:
    ran, report = compare([passed("a", times(5))], [passed("a", times(6, seed=2))])
    row = only_row(report)
    assert (ran.code, row["verdict"], row["blocks"]) == (1, "regression", True)
    assert row["low"] < row["ratio"] < row["high"]
    assert row["ratio"] == pytest.approx(1.2, abs=0.02)
    assert row["method"] == "Welch's t"
    assert row["base_side"]["trials"] == row["new_side"]["trials"] == 5
    assert row["base_side"]["samples"] == 40
    assert row["significant"] is True
    assert row["relevance"] == "beyond"
    assert row["adjusted_p_value"] <= 0.01
    assert row["better"] == "lower"
    assert "--only" in row["reproduce"]


def test_a_faster_case_is_an_improvement_and_does_not_block(compare: Compare) -> None:
    ran, report = compare([passed("a", times(6))], [passed("a", times(5, seed=2))])
    assert (ran.code, only_row(report)["verdict"]) == (0, "improvement")


def test_a_higher_number_is_better_where_the_metric_says_so(compare: Compare) -> None:
    base, new = (
        [passed("a", Measurement("speedup", values, MeasurementDetails(trials=(1,) * 4)))]
        for values in ((1.5, 1.51, 1.49, 1.5), (1.2, 1.21, 1.19, 1.2))
    )
    assert only_row(compare(base, new)[1])["verdict"] == "regression"
    assert only_row(compare(new, base)[1])["verdict"] == "improvement"


def test_an_interval_within_the_margin_is_the_same_even_if_a_change_is_certain(compare: Compare) -> None:
    base = [passed("a", times(5, 12, spread=0.001))]
    new = [passed("a", times(5.05, 12, spread=0.001, seed=2))]
    ran, report = compare(base, new, "--margin", "2%")
    row = only_row(report)
    assert (ran.code, row["verdict"]) == (0, "same")
    assert row["significant"] is True
    assert row["relevance"] == "within"


def test_a_row_that_is_undecided_says_how_many_more_trials_would_settle_it(compare: Compare) -> None:
    base = [passed("a", times(5, 3, spread=0.02))]
    new = [passed("a", times(5.05, 3, spread=0.02, seed=2))]
    ran, report = compare(base, new, "--margin", "2%")
    row = only_row(report)
    assert (ran.code, row["verdict"]) == (1, "inconclusive")
    assert row["more_trials"] > 0
    assert f"about {row['more_trials']} more trials per side would settle it" in row["detail"]
    assert report["headline"] == (
        "UNDECIDED: 1 of 1 row (1 needs more trials); policy strict blocks undecided rows: exit code 1"
    )
    ran, report = compare(base, new, "--margin", "2%", "--policy", "lenient")
    assert ran.code == 0
    assert report["headline"] == (
        "UNDECIDED: 1 of 1 row (1 needs more trials); policy lenient lets undecided rows pass: exit code 0"
    )


@pytest.mark.parametrize(("level", "verdict"), [(5, "same"), (5.5, "inconclusive"), (9, "regression")])
def test_one_process_a_side_has_the_usual_noise_between_processes(
    level: float, verdict: str, compare: Compare
) -> None:
    _, report = compare([passed("a", times(5, 1))], [passed("a", times(level, 1))])
    row = only_row(report)
    assert row["verdict"] == verdict
    assert row["high"] / row["low"] > 1.2  # 3 % each way between processes, on either side, at 99 %


def test_many_samples_of_one_process_are_one_trial(compare: Compare) -> None:
    base = Measurement("abs_latency", tuple(5 + n / 1000 for n in range(100)))
    new = Measurement("abs_latency", tuple(5.5 + n / 1000 for n in range(100)))
    _, report = compare([passed("a", base)], [passed("a", new)])
    assert only_row(report)["verdict"] == "inconclusive"


def test_times_that_are_all_the_same_are_no_measurement(compare: Compare) -> None:
    flat = Measurement("abs_latency", (5.0,) * 4, MeasurementDetails(trials=(1,) * 4))
    _, report = compare([passed("a", flat)], [passed("a", times(6))])
    row = only_row(report)
    assert row["verdict"] == "inconclusive"
    assert "exactly the same value" in row["reason"]


@pytest.mark.parametrize(
    ("was", "now", "verdict"),
    [(0, 0, "same"), (0, 1, "regression"), (2, 1, "improvement"), (3, 3, "same"), (3, 4, "regression")],
)
def test_graph_breaks_are_compared_exactly(compare: Compare, was: int, now: int, verdict: str) -> None:
    _, report = compare(
        [passed("a", counts("graph_breaks", was))], [passed("a", counts("graph_breaks", now))]
    )
    row = only_row(report)
    assert (row["verdict"], row["method"], row["base"], row["new"]) == (verdict, "exact", was, now)


def test_an_instruction_count_may_be_off_by_its_margin(compare: Compare) -> None:
    def one(value: int) -> list[Outcome]:
        case = case_of("loop", "instructions")
        return [Outcome(case, "pass", (counts("instruction_count", value, counter="hardware"),))]

    assert only_row(compare(one(1_000_000), one(1_014_000))[1])["verdict"] == "same"
    assert only_row(compare(one(1_000_000), one(1_016_000))[1])["verdict"] == "regression"
    assert only_row(compare(one(1_000_000), one(980_000))[1])["verdict"] == "improvement"
    narrow = compare(one(1_000_000), one(1_014_000), "--margin", "instruction_count=1%")[1]
    assert only_row(narrow)["verdict"] == "regression"


def test_a_count_whose_trials_disagree_with_each_other_stays_open(compare: Compare) -> None:
    base, new = counts("graph_breaks", 3, 3), counts("graph_breaks", 3, 4)
    row = only_row(compare([passed("a", base)], [passed("a", new)])[1])
    assert row["verdict"] == "inconclusive"
    assert row["more_trials"] > 0
    base, new = counts("graph_breaks", 0, 0), counts("graph_breaks", 0, 1)
    row = only_row(compare([passed("a", base)], [passed("a", new)])[1])
    assert row["verdict"] == "inconclusive"
    assert "differ from each other" in row["reason"]


def test_counts_of_two_counters_are_never_compared(compare: Compare) -> None:
    def one(counter: str) -> list[Outcome]:
        case = case_of("loop", "instructions")
        return [Outcome(case, "pass", (counts("instruction_count", 100, counter=counter),))]

    row = only_row(compare(one("hardware"), one("simulated"), "--cross-environment", "--compare-anyway")[1])
    assert row["verdict"] == "inconclusive"
    assert "counter" in row["reason"]


def test_a_case_that_fails_only_now_is_a_regression_and_the_pass_rate_names_it(compare: Compare) -> None:
    base = [passed("a", times(5)), passed("b", times(5))]
    ran, report = compare(base, [passed("a", times(5, seed=2)), failed("b")])
    row = next(row for row in report["rows"] if row["name"] == "b")
    assert (ran.code, row["verdict"], row["base"], row["new"]) == (1, "regression", "pass", "timeout")
    assert "ended after 30 s" in row["detail"]
    rate = report["pass_rate"]
    assert (rate["cases"], rate["base"], rate["new"]) == (2, 2, 1)
    assert rate["lost"] == [{"case": case_of("b").id, "status": "timeout"}]
    assert [change["new"] for change in report["status_changes"]] == ["timeout"]
    assert [mean["cases"] for mean in report["geometric_means"]] == [1]


def test_a_case_that_passes_again_is_an_improvement(compare: Compare) -> None:
    ran, report = compare(
        [failed("a"), passed("b", times(5))], [passed("a", times(5)), passed("b", times(5))]
    )
    row = next(row for row in report["rows"] if row["name"] == "a")
    assert (ran.code, row["verdict"]) == (0, "improvement")
    assert report["pass_rate"]["gained"] == [{"case": case_of("a").id, "was": "timeout"}]


def test_a_case_that_fails_as_before_is_no_success_and_no_news(compare: Compare) -> None:
    both = [passed("b", times(5))]
    ran, report = compare([failed("a"), *both], [failed("a"), *both])
    row = next(row for row in report["rows"] if row["name"] == "a")
    assert (ran.code, row["verdict"]) == (0, "expected_failure")


def test_cases_of_one_side_are_listed_with_the_reason_and_enter_no_mean(compare: Compare) -> None:
    base = [passed("a", times(5)), passed("gone", times(5))]
    new = [passed("a", times(5, seed=2)), passed("fresh", times(5))]
    ran, report = compare(base, new)
    verdicts = {row["name"]: (row["verdict"], row["reason"]) for row in report["rows"] if row["name"] != "a"}
    assert verdicts == {
        "gone": ("missing", "only BASE has this case"),
        "fresh": ("new", "only NEW has this case"),
    }
    assert ran.code == 1
    assert report["geometric_means"][0]["cases"] == 1
    assert compare(base, new, "--allow", "missing")[0].code == 1
    assert compare(base, new, "--allow", "missing", "--policy", "lenient")[0].code == 0


def test_a_planned_case_without_an_outcome_is_missing(torchstone: Command, tmp_path: Path) -> None:
    write_run(tmp_path, "base.jsonl", [passed("a", times(5)), passed("b", times(5))])
    write_run(tmp_path, "new.jsonl", [passed("a", times(5))], further_plan=[case_of("b"), case_of("c")])
    ran = torchstone("compare", "base.jsonl", "new.jsonl", "--format", "json")
    missing = {
        row["name"]: row["reason"] for row in json.loads(ran.out)["rows"] if row["verdict"] == "missing"
    }
    assert missing == dict.fromkeys("bc", "planned, but NEW has no outcome of it")
    assert ran.code == 1


def test_what_cannot_be_measured_in_new_is_missing_and_what_could_not_in_base_is_new(
    compare: Compare,
) -> None:
    both = [passed("b", times(5))]
    absent = failed("a", "not_available", "no CUDA here")
    ran, report = compare([passed("a", times(5)), *both], [absent, *both])
    row = next(row for row in report["rows"] if row["name"] == "a")
    assert (ran.code, row["verdict"], row["reason"]) == (1, "missing", "not available in NEW: no CUDA here")
    ran, report = compare([absent, *both], [passed("a", times(5)), *both])
    assert (ran.code, [row["verdict"] for row in report["rows"] if row["name"] == "a"]) == (1, ["new"])
    assert report["pass_rate"]["cases"] == 1
    assert compare([absent, *both], both)[0].code == 0


def test_a_metric_that_new_has_lost_is_missing_and_one_it_has_gained_is_a_caution(compare: Compare) -> None:
    base = [passed("a", times(5), counts("graph_breaks", 0))]
    new = [passed("a", times(5, seed=2), counts("recompiles", 0))]
    ran, report = compare(base, new)
    row = next(row for row in report["rows"] if row["metric"] == "graph_breaks")
    assert (ran.code, row["verdict"], row["new"]) == (1, "missing", None)
    assert any("recompiles (1 case)" in caution for caution in report["cautions"])


def test_numbers_that_contradict_themselves_are_invalid(compare: Compare) -> None:
    zero = Measurement("abs_latency", (0.0, 0.0), MeasurementDetails(trials=(1, 1)))
    ran, report = compare([passed("a", times(5))], [passed("a", zero)])
    row = only_row(report)
    assert (ran.code, row["verdict"]) == (1, "invalid")
    assert "0 is not a possible value" in row["reason"]


def test_a_compile_time_below_zero_is_invalid(compare: Compare) -> None:
    negative = Measurement("compilation_latency", (-0.1, 0.2), MeasurementDetails(trials=(1, 1)))
    ran, report = compare([passed("a", negative)], [passed("a", negative)])
    row = only_row(report)
    assert (ran.code, row["verdict"], row["reason"]) == (1, "invalid", "NEW: -0.1 is negative")


def test_other_environments_are_shown_first_and_hold_back_times_but_not_counts(
    torchstone: Command, tmp_path: Path
) -> None:
    outcomes = [passed("a", times(5), counts("graph_breaks", 1))]
    for name, torch in (("base.jsonl", "2.11.0"), ("new.jsonl", "2.13.0")):
        write_run(tmp_path, name, outcomes, environment={"versions": {"torch": torch}})
    ran = torchstone("compare", "base.jsonl", "new.jsonl")
    assert ran.out.startswith("environment: torch is 2.13.0, was 2.11.0: times and memory are not compared")
    report = json.loads(torchstone("compare", "base.jsonl", "new.jsonl", "--format", "json").out)
    verdicts = {row["metric"]: row["verdict"] for row in report["rows"]}
    assert verdicts == {"abs_latency": "inconclusive", "graph_breaks": "same"}
    assert report["geometric_means"] == []
    across = torchstone("compare", "base.jsonl", "new.jsonl", "--cross-environment", "--format", "json")
    assert {row["verdict"] for row in json.loads(across.out)["rows"]} == {"same"}


def test_another_start_of_workers_is_not_comparable_unless_asked(compare: Compare) -> None:
    def one(start: str) -> list[Outcome]:
        measured = times(5)
        return [
            passed(
                "a",
                Measurement(
                    "abs_latency",
                    measured.samples,
                    structs.replace(measured.details or NO_DETAILS, start=start),
                ),
            )
        ]

    row = only_row(compare(one("fork"), one("spawn"))[1])
    assert row["verdict"] == "inconclusive"
    assert "forked" in row["reason"]
    assert only_row(compare(one("fork"), one("spawn"), "--compare-anyway")[1])["verdict"] == "same"


def test_another_batch_size_is_not_comparable(compare: Compare) -> None:
    base, new = (
        [passed("a", times(5), case=case_of("a", device="cpu", batch_size=size)), passed("b", times(5))]
        for size in (8, 16)
    )
    row = next(row for row in compare(base, new)[1]["rows"] if row["name"] == "a")
    assert row["verdict"] == "inconclusive"
    assert "batch_size is 16, in BASE 8" in row["reason"]


def test_the_same_case_in_several_files_of_a_side_has_more_trials(
    torchstone: Command, tmp_path: Path
) -> None:
    for n in range(3):
        write_run(tmp_path, f"base{n}.jsonl", [passed("a", times(5, 1, seed=n))])
        write_run(tmp_path, f"new{n}.jsonl", [passed("a", times(6, 1, seed=10 + n))])
    more = [word for n in (1, 2) for word in ("--base", f"base{n}.jsonl", "--new", f"new{n}.jsonl")]
    ran = torchstone("compare", "base0.jsonl", "new0.jsonl", *more, "--format", "json")
    row = only_row(json.loads(ran.out))
    assert (row["verdict"], row["base_side"]["trials"], row["new_side"]["trials"]) == ("regression", 3, 3)
    assert "--base base1.jsonl" in row["reproduce"]


def test_a_failure_in_one_of_several_files_is_what_became_of_the_case(
    torchstone: Command, tmp_path: Path
) -> None:
    write_run(tmp_path, "base.jsonl", [passed("a", times(5))])
    write_run(tmp_path, "new.jsonl", [passed("a", times(5))])
    write_run(tmp_path, "new2.jsonl", [failed("a")])
    ran = torchstone("compare", "base.jsonl", "new.jsonl", "--new", "new2.jsonl", "--format", "json")
    assert (ran.code, only_row(json.loads(ran.out))["new"]) == (1, "timeout")


def test_files_of_one_side_that_were_measured_differently_are_not_mixed(
    torchstone: Command, tmp_path: Path
) -> None:
    def one(start: str) -> Outcome:
        return passed(
            "a", Measurement("abs_latency", (5.0, 5.1), MeasurementDetails(trials=(1, 1), start=start))
        )

    write_run(tmp_path, "base.jsonl", [one("fork")])
    write_run(tmp_path, "base2.jsonl", [one("spawn")])
    ran = torchstone("compare", "base.jsonl", "base.jsonl", "--base", "base2.jsonl", "--format", "json")
    row = only_row(json.loads(ran.out))
    assert row["verdict"] == "inconclusive"
    assert "the files of one side differ in start: fork, spawn" in row["reason"]


def test_trials_that_took_turns_are_compared_in_pairs_whatever_the_environment(
    torchstone: Command, tmp_path: Path
) -> None:
    base = times(5, 25, spread=0.2, samples=1)
    new = tuple(sample * 1.06 for sample in base.samples)
    for name, samples, torch in (("base.jsonl", base.samples, "2.11.0"), ("new.jsonl", new, "2.13.0")):
        measured = Measurement(
            "abs_latency", samples, MeasurementDetails(trials=(1,) * 25, pairs="session-1")
        )
        write_run(tmp_path, name, [passed("a", measured)], environment={"versions": {"torch": torch}})
    ran = torchstone("compare", "base.jsonl", "new.jsonl", "--format", "json", "--margin", "2%")
    row = only_row(json.loads(ran.out))
    assert (row["verdict"], row["method"], row["new_side"]["trials"]) == ("regression", "paired", 25)
    assert "25 pairs of trials that took turns" in row["method_text"]


def test_pairs_of_different_sessions_are_no_pairs(compare: Compare) -> None:
    def one(session: object) -> list[Outcome]:
        return [
            passed(
                "a",
                measurement_of(
                    "abs_latency",
                    times(5, 4, samples=1).samples,
                    {"trials": [1] * 4, "pairs": session},
                ),
            )
        ]

    assert only_row(compare(one("x"), one("y"))[1])["method"] == "Welch's t"
    assert only_row(compare(one(41), one(41))[1])["method"] == "Welch's t"


def test_among_many_comparisons_a_slight_one_is_not_certain_by_itself(compare: Compare) -> None:
    slight = (5.0, 5.1, 5.05, 5.02), (5.2, 5.3, 5.25, 5.22)
    base = [passed("slight", Measurement("abs_latency", slight[0], MeasurementDetails(trials=(1,) * 4)))]
    new = [passed("slight", Measurement("abs_latency", slight[1], MeasurementDetails(trials=(1,) * 4)))]
    alone = only_row(compare(base, new, "--margin", "1%")[1])
    assert alone["verdict"] == "regression"
    crowd = [passed(f"other{n}", times(5, seed=n)) for n in range(40)]
    crowd_now = [passed(f"other{n}", times(5, seed=100 + n)) for n in range(40)]
    report = compare([*base, *crowd], [*new, *crowd_now], "--margin", "1%")[1]
    row = next(row for row in report["rows"] if row["name"] == "slight")
    assert row["p_value"] == alone["p_value"]
    assert row["adjusted_p_value"] > 0.01
    assert row["verdict"] == "inconclusive"
    assert "not after adjusting for all comparisons" in row["reason"]
    assert row["more_trials"] > 0


def test_what_blocks_can_be_chosen(compare: Compare) -> None:
    slower = [passed("a", times(5))], [passed("a", times(6, seed=2))]
    assert compare(*slower, "--allow", "regression")[0].code == 0
    same = [passed("a", times(5))], [passed("a", times(5, seed=2))]
    assert compare(*same)[0].code == 0
    assert compare(*same, "--block", "same")[0].code == 1
    thin = [passed("a", times(5, 2))], [passed("a", times(5, 2, seed=2))]
    assert compare(*thin, "--allow", "inconclusive")[0].code == 0
    assert compare(*thin, "--policy", "lenient")[0].code == 0
    assert compare(*thin, "--policy", "lenient", "--block", "inconclusive")[0].code == 1


def test_rows_come_in_the_order_asked_for(compare: Compare) -> None:
    base = [passed(name, times(5)) for name in "cab"]
    new = [passed(name, times(level, seed=2)) for name, level in (("c", 5), ("a", 4), ("b", 7))]
    by_verdict = [row["name"] for row in compare(base, new)[1]["rows"]]
    assert by_verdict == ["b", "a", "c"]
    assert [row["name"] for row in compare(base, new, "--sort", "name")[1]["rows"]] == ["a", "b", "c"]
    assert [row["name"] for row in compare(base, new, "--sort", "change")[1]["rows"]] == ["b", "a", "c"]


@pytest.mark.parametrize("kind", ["performance", "accuracy", "pr-time", "v3", "cachebench", *TOOLS])
def test_foreign_files_can_be_compared_with_themselves(
    kind: str, torchstone: Command, write: WriteFile
) -> None:
    names = [write(name, CANONICAL[kind]) for name in ("base", "new")]
    ran = torchstone("compare", *names, "--format", "json", "--policy", "lenient")
    report = json.loads(ran.out)
    assert ran.code == 0
    assert report["rows"]
    assert {row["verdict"] for row in report["rows"]} <= {"same", "inconclusive", "expected_failure"}


def test_expected_values_can_be_the_base(torchstone: Command, write: WriteFile) -> None:
    write("results.csv", ACCURACY)
    write(
        "expected.csv",
        "name,accuracy,graph_breaks\nAlbertForMaskedLM,pass,0\nsam,pass,4\nyolov3,pass_due_to_skip,1\n",
    )
    report = json.loads(torchstone("compare", "expected.csv", "results.csv", "--format", "json").out)
    verdicts = {(row["name"], row["metric"]): row["verdict"] for row in report["rows"]}
    assert verdicts[("sam", "accuracy")] == verdicts[("sam", "graph_breaks")] == "regression"
    assert verdicts[("AlbertForMaskedLM", "graph_breaks")] == "same"
    assert verdicts[("google/gemma-2-2b", "accuracy")] == "new"


def test_expected_counts_bring_their_own_margins(torchstone: Command, write: WriteFile) -> None:
    write("expected.csv", "loop,instruction_count,1000,0.1\n\n\n\nother,instruction_count,1000,0.01\n")
    write("results.csv", "loop,instruction_count,1080\nother,instruction_count,1080\n")
    report = json.loads(torchstone("compare", "expected.csv", "results.csv", "--format", "json").out)
    assert {row["name"]: row["verdict"] for row in report["rows"]} == {"loop": "same", "other": "regression"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected two files"),
        (["base.jsonl"], "expected two files"),
        (["base.jsonl", "new.jsonl", "third.jsonl"], "3 files given, expected two"),
        (["base.jsonl", "other.jsonl"], "no case can be compared"),
        (["base.jsonl", "new.jsonl", "--metric", "speed"], "neither BASE nor NEW has such a metric"),
        (["base.jsonl", "new.jsonl", "--margin", "speed=1%"], "neither BASE nor NEW has such a metric"),
        (["base.jsonl", "new.jsonl", "--only", "zzz"], "no case matches"),
        (["base.jsonl", "new.jsonl", "--margin", "much"], "expected a share"),
        (["base.jsonl", "new.jsonl", "--margin", "1%", "--margin", "2%"], "already set to 1%"),
        (["base.jsonl", "new.jsonl", "--alpha", "2"], "expected a share"),
        (["base.jsonl", "new.jsonl", "--better", "x=up"], "expected METRIC=lower"),
        (["base.jsonl", "new.jsonl", "--base", "base.jsonl"], "given twice for one side"),
        (["base.jsonl", "new.jsonl", "--block", "new", "--allow", "new"], "block and allow both name"),
        (["base.jsonl", "new.jsonl", "--policy", "upstream"], "can compare only two DDP reports"),
        (["base.jsonl", "new.jsonl", "--output", "new.jsonl"], "is an input file"),
        (["base.jsonl", "absent.jsonl"], "absent.jsonl"),
        (["base.jsonl", "new.jsonl", "--sort", "luck"], "luck"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_message(
    arguments: list[str], said: str, torchstone: Command, tmp_path: Path
) -> None:
    for name, case in (("base.jsonl", "a"), ("new.jsonl", "a"), ("third.jsonl", "a"), ("other.jsonl", "b")):
        write_run(tmp_path, name, [passed(case, times(5))])
    ran = torchstone("compare", *arguments)
    assert ran.code == 2
    if arguments:
        assert said in ran.err


def test_a_misspelt_name_is_answered_with_what_may_be_meant(torchstone: Command, tmp_path: Path) -> None:
    for name in ("base.jsonl", "new.jsonl"):
        write_run(tmp_path, name, [passed("attention", times(5)), passed("mlp", times(5))])
    ran = torchstone("compare", "base.jsonl", "new.jsonl", "--only", "suite::atention[mode=training]")
    assert ran.code == 2
    assert "did you mean attention?" in ran.err


def test_a_run_that_is_compared_with_itself_is_told(torchstone: Command, tmp_path: Path) -> None:
    write_run(tmp_path, "base.jsonl", [passed("a", times(5))])
    (tmp_path / "copy.jsonl").write_text((tmp_path / "base.jsonl").read_text())
    for new in ("base.jsonl", "copy.jsonl"):
        ran = torchstone("compare", "base.jsonl", new)
        assert f"{new} is the same run as base.jsonl: it is compared with itself" in " ".join(ran.out.split())
    write_run(tmp_path, "new.jsonl", [passed("a", times(6))])
    assert "itself" not in torchstone("compare", "base.jsonl", "new.jsonl").out


def test_every_verdict_can_be_let_through_or_made_to_block() -> None:
    from torchstone.cli.commands.judging.compare import OPTIONS  # noqa: PLC0415

    choices = next(option.choices for option in OPTIONS if option.flag == "--block")
    assert {*choices} == {str(verdict) for verdict in VERDICTS} - {"pass", "quarantined"} | {"same"}
