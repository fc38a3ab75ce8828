"""Numbers of different environments, or measured in different ways, are not compared unless somebody says so."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Command, Ran, WriteFile
from stated_facts import measurement_of
from torchstone.core.records import Case, Measurement, Outcome, Run
from torchstone.core.run_file import encode_run
from torchstone.core.vocabulary import COUNTED_UNITS, METRICS
from torchstone.gate.comparable import depends_on_environment

HERE: dict[str, Any] = {
    "machine": {"host": "a", "kernel": "6.1", "cpu": {"model": "EPYC"}, "cores": {"allowed": 8}},
    "accelerators": [],
    "software": {"python": {"version": "3.12.1"}},
    "versions": {"torch": "2.13.0"},
    "variables": {},
    "threads": 8,
}
SAME_BUT_FOR_THE_HOST = HERE | {"machine": HERE["machine"] | {"host": "b", "kernel": "6.9"}}
OTHER_TORCH = HERE | {"versions": {"torch": "2.11.0"}}

Pair = Callable[..., tuple[str, ...]]


@pytest.fixture
def pair(write: WriteFile) -> Pair:
    """Writes a result and a baseline as run files, and gives the arguments that judge the one by the other."""

    def call(
        environment: dict[str, Any],
        baseline_environment: dict[str, Any],
        *measured: tuple[Measurement, Measurement],
        status: str = "pass",
    ) -> tuple[str, ...]:
        case = Case("Bert", "performance")
        for name, stated, which in (
            ("run.jsonl", environment, 0),
            ("base.jsonl", baseline_environment, 1),
        ):
            outcome = Outcome(case, "pass" if which else status, tuple(both[which] for both in measured))
            head, *lines = encode_run(Run("nightly", (case,), (outcome,))).splitlines(keepends=True)
            write(name, json.dumps(json.loads(head) | {"environment": stated}) + "\n" + "".join(lines))
        return "run.jsonl", "--baseline", "base.jsonl"

    return call


def metric(
    name: str, value: float, expected: float, extra: object = None, other: object = None
) -> tuple[Measurement, Measurement]:
    facts = [dict(each) if isinstance(each, dict) else None for each in (extra, other)]
    return measurement_of(name, (value,), facts[0]), measurement_of(name, (expected,), facts[1])


def rows_of(ran: Ran) -> dict[str, tuple[str, str]]:
    return {row["metric"]: (row["verdict"], row.get("detail", "")) for row in json.loads(ran.out)["rows"]}


def judge(torchstone: Command, *arguments: str) -> dict[str, tuple[str, str]]:
    return rows_of(torchstone("check", *arguments, "--format", "json"))


SPEEDUP = metric("speedup", 1.5, 1.5)
BREAKS = metric("graph_breaks", 0, 0)
MORE_BREAKS = metric("graph_breaks", 3, 0)


def test_times_of_another_torch_are_not_compared_and_the_reason_names_it(
    torchstone: Command, pair: Pair
) -> None:
    ran = torchstone("check", *pair(HERE, OTHER_TORCH, SPEEDUP), "--format", "json")
    assert ran.code == 1
    (verdict, detail) = rows_of(ran)["speedup"]
    assert verdict == "inconclusive"
    assert detail.endswith("not comparable: torch is 2.13.0, was 2.11.0")


def test_counts_and_statuses_are_judged_all_the_same(torchstone: Command, pair: Pair) -> None:
    judged = judge(torchstone, *pair(HERE, OTHER_TORCH, SPEEDUP, MORE_BREAKS))
    assert judged["graph_breaks"][0] == "regression"
    failed = judge(torchstone, *pair(HERE, OTHER_TORCH, SPEEDUP, status="fail_to_run"))
    assert [verdict for verdict, _ in failed.values()] == ["regression"]


def test_a_caution_says_once_what_differs_and_which_option_compares_anyway(
    torchstone: Command, pair: Pair
) -> None:
    ran = torchstone("check", *pair(HERE, OTHER_TORCH, SPEEDUP, metric("abs_latency", 2, 2)))
    cautions = " ".join(ran.out.partition("caution: ")[2].split())
    assert (
        "run.jsonl and base.jsonl come from different environments (torch is 2.13.0, was 2.11.0)" in cautions
    )
    assert cautions.count("--cross-environment") == 1


def test_cross_environment_compares_and_still_says_so(torchstone: Command, pair: Pair) -> None:
    files = pair(HERE, OTHER_TORCH, SPEEDUP, BREAKS)
    ran = torchstone("check", *files, "--cross-environment", "--format", "json")
    assert ran.code == 0
    assert {verdict for verdict, _ in rows_of(ran).values()} == {"pass"}
    (caution,) = json.loads(ran.out)["cautions"]
    assert caution.endswith("compared anyway (--cross-environment)")


def test_no_caution_where_only_counts_were_judged(torchstone: Command, pair: Pair) -> None:
    ran = torchstone("check", *pair(HERE, OTHER_TORCH, BREAKS), "--format", "json")
    assert (ran.code, json.loads(ran.out)["cautions"]) == (0, [])


def test_another_host_with_another_kernel_is_the_same_environment(torchstone: Command, pair: Pair) -> None:
    assert torchstone("check", *pair(HERE, SAME_BUT_FOR_THE_HOST, SPEEDUP)).code == 0


@pytest.mark.parametrize(("environment", "before"), [(HERE, {}), ({}, HERE), ({}, {})])
def test_an_environment_that_only_one_side_states_changes_nothing(
    environment: dict[str, Any], before: dict[str, Any], torchstone: Command, pair: Pair
) -> None:
    assert torchstone("check", *pair(environment, before, SPEEDUP)).code == 0


def test_a_baseline_of_another_kind_changes_nothing(
    torchstone: Command, pair: Pair, write: WriteFile
) -> None:
    pair(HERE, OTHER_TORCH, SPEEDUP)
    assert (
        torchstone("check", "run.jsonl", "--baseline", write("e.csv", "name,speedup\nBert,1.5\n")).code == 0
    )


def test_a_rule_that_needs_no_baseline_is_judged_in_any_environment(torchstone: Command, pair: Pair) -> None:
    files = pair(HERE, OTHER_TORCH, SPEEDUP)
    assert judge(torchstone, *files, "--rule", "speedup=floor:1.2")["speedup"][0] == "pass"


def test_the_original_knows_no_environments(torchstone: Command, pair: Pair) -> None:
    ways = metric("compilation_latency", 1, 1, {"start": "fork"}, {"start": "spawn"})
    assert torchstone("check", *pair(HERE, OTHER_TORCH, SPEEDUP, ways), "--policy", "upstream").code == 0


def test_many_differences_are_not_all_told(torchstone: Command, pair: Pair) -> None:
    noisy = HERE | {"variables": {f"OMP_{n}": "1" for n in range(10)}}
    _, detail = judge(torchstone, *pair(HERE, noisy, SPEEDUP))["speedup"]
    assert detail.endswith("OMP_3 is not set, was (hidden); and 6 more")


@pytest.mark.parametrize(
    ("extra", "other", "reason"),
    [
        ({"start": "fork"}, {"start": "spawn"}, "measured in forked workers, the baseline in spawned ones"),
        ({"cache": "warm"}, {"cache": "cold"}, "measured with a warm cache, the baseline with a cold one"),
        ({"cache": "hot"}, {"cache": "cold"}, "measured with cache hot, the baseline with a cold one"),
        (
            {"benchmark_version": "7"},
            {"benchmark_version": "0123456789abcdef"},
            "measured by version 7 of the benchmark's code, the baseline by version 012345...def",
        ),
    ],
)
def test_what_was_measured_in_another_way_is_not_compared(
    extra: object, other: object, reason: str, torchstone: Command, pair: Pair
) -> None:
    files = pair(HERE, HERE, SPEEDUP, metric("compilation_latency", 2, 2, extra, other))
    judged = judge(torchstone, *files)
    assert judged["speedup"][0] == "pass"
    verdict, detail = judged["compilation_latency"]
    assert (verdict, detail.partition("not comparable: ")[2]) == ("inconclusive", reason)
    assert torchstone("check", *files, "--compare-anyway").code == 0


@pytest.mark.parametrize(
    ("extra", "other"),
    [
        ({"start": "fork"}, {"start": "fork"}),
        ({"start": "fork"}, {"cache": "cold"}),
        ({"start": "fork"}, None),
    ],
)
def test_a_way_that_is_the_same_or_that_one_side_does_not_state_is_no_obstacle(
    extra: object, other: object, torchstone: Command, pair: Pair
) -> None:
    assert torchstone("check", *pair({}, {}, metric("compilation_latency", 2, 2, extra, other))).code == 0


def test_the_suggested_command_repeats_the_option(torchstone: Command, pair: Pair) -> None:
    files = pair(HERE, OTHER_TORCH, metric("speedup", 1.0, 1.5))
    ran = torchstone("check", *files, "--cross-environment", "--format", "json")
    (row,) = json.loads(ran.out)["rows"]
    assert "--cross-environment" in shlex.split(row["reproduce"])


@pytest.mark.parametrize(
    "environment",
    [
        {"versions": {"torch": {"version": "2\n3"}}, "variables": {"OMP_X": None}},
        {"machine": {"cores": {"allowed": "many", "quota": None}}, "accelerators": [{}]},
    ],
)
def test_facts_of_any_shape_can_be_judged(
    environment: dict[str, Any], torchstone: Command, pair: Pair
) -> None:
    for one, other in ((environment, HERE), (HERE, environment)):
        assert torchstone("check", *pair(one, other, SPEEDUP)).code in {0, 1}


@pytest.mark.parametrize(
    ("environment", "field"),
    [
        ({"machine": 3}, "machine"),
        ({"versions": ["torch"]}, "versions"),
        ({"variables": "x"}, "variables"),
        ({"accelerators": [1, {}]}, "accelerators[0]"),
        ({"software": None}, "software"),
    ],
)
def test_an_environment_of_another_shape_is_refused_with_its_place(
    environment: dict[str, Any], field: str, torchstone: Command, pair: Pair
) -> None:
    for one, other in ((environment, HERE), (HERE, environment)):
        ran = torchstone("check", *pair(one, other, SPEEDUP))
        assert ran.code == 2
        assert f".jsonl:1: column environment.{field}: expected" in ran.err


def test_every_unit_is_known_to_be_a_count_or_to_depend_on_the_machine() -> None:
    measured = {"ms", "us", "s", "1/s", "GB", "x", "%", "files", "bytes", "number"}
    for known in METRICS.values():
        assert known.unit in COUNTED_UNITS | measured, f"decide whether {known.unit} depends on the machine"
        assert depends_on_environment(known.name) == (known.unit in measured)
    assert depends_on_environment("a_metric_of_my_own")


def test_what_accept_would_hold_back_is_not_offered(torchstone: Command, pair: Pair) -> None:
    """A time of another environment cannot become one row among others that stay."""
    files = pair(HERE, OTHER_TORCH, metric("abs_latency", 3.0, 2.0), metric("graph_breaks", 3, 2))
    ran = torchstone("check", *files, "--cross-environment", "--format", "json")
    rows = {row["metric"]: row for row in json.loads(ran.out)["rows"] if row["blocks"]}
    assert rows["abs_latency"]["accept"] is None
    assert "measured in another environment" in rows["abs_latency"]["instead"]
    assert torchstone(*shlex.split(rows["graph_breaks"]["accept"])[1:], "--yes").code == 0
    again = json.loads(torchstone("check", *files, "--cross-environment", "--format", "json").out)
    assert [row["metric"] for row in again["rows"] if row["blocks"]] == ["abs_latency"]
