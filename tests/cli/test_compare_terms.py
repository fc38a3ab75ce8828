"""``torchstone compare``: what is compared, how much of a change matters and which way is better, as options and rules have it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from comparison_files import case_of, counts, only_row, passed, times, write_run
from conftest import Command, Compare, WriteFile
from stated_facts import measurement_of
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Measurement, Outcome


def trials_of(metric: str, *values: float, **extra: str) -> list[Outcome]:
    """A case with one number of each of some trials."""
    return [passed("a", measurement_of(metric, values, {"trials": [1] * len(values), **extra}))]


def test_a_certain_change_of_an_unknown_metric_needs_a_direction(compare: Compare) -> None:
    base, new = (
        [passed("a", Measurement("throughput", values, MeasurementDetails(trials=(1,) * 3)))]
        for values in ((100.0, 101.0, 100.5), (150.0, 151.0, 150.5))
    )
    row = only_row(compare(base, new)[1])
    assert row["verdict"] == "inconclusive"
    assert "--better throughput=lower, or higher" in row["reason"]
    assert only_row(compare(base, new, "--better", "throughput=higher")[1])["verdict"] == "improvement"
    assert only_row(compare(base, new, "--better", "through*=lower")[1])["verdict"] == "regression"


@pytest.mark.parametrize(
    ("options", "margin"),
    [
        ([], 0.15),
        (["--margin", "3%"], 0.03),
        (["--margin", "3%", "--margin", "abs_*=0.07"], 0.07),
        (["--config", "mine.toml"], 0.08),
        (["--config", "mine.toml", "--margin", "0"], 0.0),
    ],
)
def test_the_margin_is_the_one_asked_for_or_the_one_of_the_rules(
    options: list[str], margin: float, compare: Compare, write: WriteFile
) -> None:
    write("mine.toml", '[[rule]]\nmetric = "abs_latency"\nkind = "ratio_ceiling"\nratio = 1.08\n')
    both = [passed("a", times(5), counts("graph_breaks", 1))]
    rows = {row["metric"]: row for row in compare(both, both, *options)[1]["rows"]}
    assert rows["abs_latency"]["margin"] == pytest.approx(margin)
    assert rows["graph_breaks"]["margin"] == 0


def test_the_tolerance_of_a_rule_for_a_count_is_kept(compare: Compare, write: WriteFile) -> None:
    rule = '[[rule]]\nmetric = "graph_breaks"\nkind = "count"\nbetter = "lower"\ntolerance = 2\n'
    write("torchstone.toml", rule)
    base = [passed("a", counts("graph_breaks", 5))]
    assert only_row(compare(base, [passed("a", counts("graph_breaks", 7))])[1])["verdict"] == "same"
    assert only_row(compare(base, [passed("a", counts("graph_breaks", 8))])[1])["verdict"] == "regression"


def test_only_and_metric_choose_what_is_compared(compare: Compare) -> None:
    base = [passed(name, times(5), counts("graph_breaks", 0)) for name in "ab"]
    _, report = compare(base, base, "--only", "b", "--metric", "graph*")
    assert [(row["name"], row["metric"]) for row in report["rows"]] == [("b", "graph_breaks")]


def test_the_command_that_a_missing_row_names_says_the_same_again(
    torchstone: Command, tmp_path: Path
) -> None:
    write_run(tmp_path, "base.jsonl", [passed("a", times(5)), passed("gone", times(5))])
    write_run(tmp_path, "new.jsonl", [passed("a", times(5))])
    ran = torchstone("compare", "base.jsonl", "new.jsonl", "--only", case_of("gone").id)
    assert ran.code == 1
    assert "only BASE has this case" in ran.out


def test_a_pattern_that_means_a_case_of_one_side_means_the_one_it_is_compared_with(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write_run(tmp_path, "base.jsonl", [passed("a", counts("graph_breaks", 0)), passed("b", times(5))])
    write("new.csv", "dev,name,batch_size,speedup,graph_breaks\ncpu,a,8,1.5,3\ncpu,b,8,1.5,0\n")
    report = json.loads(torchstone("compare", "base.jsonl", "new.csv", "--format", "json").out)
    (red,) = [row for row in report["rows"] if row["verdict"] == "regression"]
    again = torchstone(*shlex.split(red["reproduce"])[1:], "--format", "json")
    assert [(row["name"], row["verdict"]) for row in json.loads(again.out)["rows"]] == [("a", "regression")]
    assert again.code == 1
    of_base = torchstone("compare", "base.jsonl", "new.csv", "--only", case_of("a").id, "--format", "json")
    assert json.loads(of_base.out)["rows"] == json.loads(again.out)["rows"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "fresh"], "no case can be compared: the sides have none in common"),
        (
            ["--metric", "speedup"],
            "in 2 common cases no compared metric is on both sides; only NEW has speedup",
        ),
        (["--metric", "seconds"], "neither BASE nor NEW has such a metric"),
    ],
)
def test_where_nothing_can_be_compared_that_is_no_success(
    options: list[str], said: str, compare: Compare
) -> None:
    new = [passed("a", times(5), Measurement("speedup", (1.5, 1.6))), passed("fresh", times(5))]
    ran, _ = compare([passed("a", times(5)), passed("b", times(5))], [*new, passed("b", times(5))], *options)
    assert ran.code == 2
    assert said in ran.err


def test_statuses_that_are_asked_for_have_rows_even_where_nothing_changed(compare: Compare) -> None:
    both = [passed("a", times(5))]
    row = only_row(compare(both, both, "--metric", "accuracy")[1])
    assert (row["metric"], row["verdict"]) == ("accuracy", "same")


def test_a_metric_of_others_is_compared_whatever_its_name_ends_with(compare: Compare) -> None:
    row = only_row(compare(trials_of("memory_saved", 5, 5.1, 5.2), trials_of("memory_saved", 5.1, 5, 5.2))[1])
    assert row["metric"] == "memory_saved"


def test_the_rule_of_a_metric_says_which_way_is_better(compare: Compare, write: WriteFile) -> None:
    write(
        "torchstone.toml",
        '[[rule]]\nmetric = "throughput"\nkind = "ratio_floor"\nratio = 0.95\n'
        '[[rule]]\nmetric = "unique_graphs"\nkind = "count"\nbetter = "lower"\n',
    )
    base, new = trials_of("throughput", 100, 101, 102), trials_of("throughput", 70, 71, 72)
    assert only_row(compare(base, new)[1])["verdict"] == "regression"
    assert only_row(compare(new, base)[1])["verdict"] == "improvement"
    fewer = only_row(compare(trials_of("unique_graphs", 3), trials_of("unique_graphs", 2))[1])
    assert (fewer["verdict"], fewer["better"]) == ("improvement", "lower")


def test_a_floor_lets_through_what_the_gate_lets_through(compare: Compare, write: WriteFile) -> None:
    write("torchstone.toml", '[[rule]]\nmetric = "speedup"\nkind = "ratio_floor"\nratio = 0.8\n')
    base = trials_of("speedup", *(2 + n / 1e4 for n in range(8)))
    at_82, at_78 = ([share * (2 + n / 1e4) for n in range(8)] for share in (0.82, 0.78))
    assert only_row(compare(base, trials_of("speedup", *at_82))[1])["verdict"] == "same"
    assert only_row(compare(base, trials_of("speedup", *at_78))[1])["verdict"] == "regression"


def test_a_rule_may_allow_more_than_twice_the_time_of_pairs_too(compare: Compare, write: WriteFile) -> None:
    write("torchstone.toml", '[[rule]]\nmetric = "abs_latency"\nkind = "ratio_ceiling"\nratio = 2.5\n')
    base, new = ([level + n / 1e3 for n in range(14)] for level in (5.0, 10.0))
    row = only_row(
        compare(*(trials_of("abs_latency", *values, pairs="session") for values in (base, new)))[1]
    )
    assert (row["verdict"], row["method"]) == ("same", "paired")
