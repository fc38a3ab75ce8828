"""``torchstone check`` warns of values near the edge of what is allowed, and of small moves that add up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import Command, WriteFile
from torchstone.core.records import Case, Measurement, Outcome, Run
from torchstone.core.run_file import encode_run
from torchstone.core.run_settings import environment_from

COUNT = "instruction_count"
HERE: dict[str, Any] = {"versions": {"torch": "2.13.0"}}
OTHER_TORCH: dict[str, Any] = {"versions": {"torch": "2.11.0"}}


def counts(**values: int) -> str:
    return "".join(f"{name},{COUNT},{value}\n" for name, value in values.items())


def words(text: str) -> str:
    """What was printed, without the line ends that wrapping put in."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("value", "share"), [(1081, "81%"), (919, "81%"), (1100, "100%"), (1079, ""), (921, ""), (1000, "")]
)
def test_a_value_in_the_outer_fifth_of_its_margin_is_near_the_edge(
    value: int, share: str, torchstone: Command, write: WriteFile
) -> None:
    write("r.csv", counts(a=value))
    write("e.csv", f"a,{COUNT},1000,0.1\n")
    ran = torchstone("check", "r.csv", "--baseline", "e.csv")
    assert ran.code == 0
    assert ("near the limit" in ran.out) == bool(share)
    if share:
        limit = "1,100" if value > 1000 else "900"
        assert f"{share} of the allowed change; the limit is {limit}" in words(ran.out)
        assert f"{COUNT} of a is {value:,}, expected 1,000" in words(ran.out)


def test_a_rule_with_one_side_has_one_edge(torchstone: Command, write: WriteFile) -> None:
    head = "dev,name,batch_size,speedup,abs_latency\n"
    write("e.csv", head + "cpu,a,1,1.0,100\n")
    write("r.csv", head + "cpu,a,1,0.956,88\n")
    ran = torchstone("check", "r.csv", "--baseline", "e.csv")
    assert ran.code == 0
    assert "speedup of a (device cpu, batch_size 1) is 0.956x" in words(ran.out)
    assert "88% of the allowed change; the limit is 0.95x" in words(ran.out)
    assert "abs_latency" not in ran.out


def test_of_many_values_near_the_edge_the_nearest_are_named(torchstone: Command, write: WriteFile) -> None:
    write("r.csv", counts(**{f"c{number}": 1085 + number for number in range(8)}))
    write("e.csv", "".join(f"c{number},{COUNT},1000,0.1\n" for number in range(8)))
    ran = torchstone("check", "r.csv", "--baseline", "e.csv", "--format", "json")
    assert ran.code == 0
    cautions = json.loads(ran.out)["cautions"]
    assert [caution.split(" of ")[1].split()[0] for caution in cautions[:5]] == [
        "c7",
        "c6",
        "c5",
        "c4",
        "c3",
    ]
    assert cautions[5] == "3 more rows that passed near the limit"


def test_what_is_red_and_what_the_original_would_not_say_are_no_warnings(
    torchstone: Command, write: WriteFile
) -> None:
    write("r.csv", counts(a=1101))
    write("e.csv", f"a,{COUNT},1000,0.1\n")
    assert "near the limit" not in torchstone("check", "r.csv", "--baseline", "e.csv").out
    write("r.csv", counts(a=1099))
    ran = torchstone("check", "r.csv", "--baseline", "e.csv", "--policy", "upstream")
    assert "near the limit" not in ran.out


def test_a_ceiling_and_a_count_have_no_edge(torchstone: Command, write: WriteFile) -> None:
    write("r.csv", "dev,name,batch_size,accuracy,graph_breaks\ncpu,a,1,pass,3\n")
    write("e.csv", "name,accuracy,graph_breaks\na,pass,3\n")
    ran = torchstone("check", "r.csv", "--baseline", "e.csv", "--rule", "graph_breaks=ceiling:3")
    assert "near the limit" not in ran.out
    assert "near the limit" not in torchstone("check", "r.csv", "--baseline", "e.csv").out
    write("r.csv", "dev,name,batch_size,accuracy,graph_breaks\ncpu,a,1,pass,5\n")
    ran = torchstone("check", "r.csv", "--baseline", "e.csv", "--rule", "graph_breaks=count:lower:2")
    assert ran.code == 0
    assert "near the limit" not in ran.out  # somebody has allowed just that


def latency_run(
    day: int, latency: float, environment: dict[str, Any] = HERE, metric: str = "abs_latency"
) -> str:
    case = Case("Bert", "performance", "suite")
    outcome = Outcome(case, "pass", (Measurement(metric, (latency,)),))
    return encode_run(
        Run(f"202611{day:02d}T030000-abcdef", (case,), (outcome,), environment=environment_from(environment))
    )


def look_back(torchstone: Command, *options: str) -> Any:  # noqa: ANN401  (what the fixture gives)
    return torchstone("check", "new.jsonl", "--baseline", "base.jsonl", "--history", "runs", *options)


@pytest.fixture
def drifting(write: WriteFile) -> None:
    """Ten past runs, each 2 % slower than the one before; the baseline was refreshed on the way, so that the newest passes."""
    for day in range(1, 11):
        # the order is by time, and not by name
        write(f"runs/{chr(ord('z') - day)}.jsonl", latency_run(day, 10 * 1.02**day))
    write("base.jsonl", latency_run(8, 10 * 1.02**8))
    write("new.jsonl", latency_run(11, 10 * 1.02**11))


@pytest.mark.usefixtures("drifting")
def test_small_moves_that_add_up_to_more_than_the_margin_are_told_with_since_when(
    torchstone: Command,
) -> None:
    ran = look_back(torchstone)
    assert ran.code == 0
    told = words(ran.out)
    assert "caution: drift: abs_latency of Bert has moved by +17.2%" in told
    assert "since runs/y.jsonl (2026-11-01), for the worse, in small steps over 10 runs" in told
    assert "its margin is 15%" in told
    assert "torchstone compare runs/y.jsonl new.jsonl" in told


@pytest.mark.usefixtures("drifting")
def test_without_a_history_nothing_is_said_of_drift(torchstone: Command) -> None:
    assert "drift" not in torchstone("check", "new.jsonl", "--baseline", "base.jsonl").out


@pytest.mark.usefixtures("drifting")
@pytest.mark.parametrize("style", ["json", "markdown", "junit", "github"])
def test_the_rows_that_a_report_shows_are_the_same_with_a_history(style: str, torchstone: Command) -> None:
    plain = torchstone("check", "new.jsonl", "--baseline", "base.jsonl", "--format", style)
    ran = look_back(torchstone, "--format", style)
    assert ran.code == plain.code == 0
    if style == "json":
        before, after = json.loads(plain.out), json.loads(ran.out)
        assert len(after.pop("cautions")) == len(before.pop("cautions")) + 1
        assert after == before


def test_a_drift_for_the_better_is_told_too(torchstone: Command, write: WriteFile) -> None:
    for day in range(1, 11):
        write(f"runs/{day}.jsonl", latency_run(day, 1 * 1.01**day, metric="speedup"))
    write("base.jsonl", latency_run(8, 1.01**8, metric="speedup"))
    write("new.jsonl", latency_run(11, 1.01**11, metric="speedup"))
    assert "for the better" in words(look_back(torchstone).out)


def test_a_steady_history_and_one_large_step_are_no_drift(torchstone: Command, write: WriteFile) -> None:
    for day in range(1, 21):
        write(f"runs/{day}.jsonl", latency_run(day, (10 if day < 11 else 15) + 0.01 * (day % 3)))
    write("base.jsonl", latency_run(8, 15.0))
    write("new.jsonl", latency_run(21, 15.0))
    ran = look_back(torchstone)
    assert ran.code == 0
    assert "drift" not in ran.out


def test_times_of_another_environment_are_no_history_unless_asked_for(
    torchstone: Command, write: WriteFile
) -> None:
    for day in range(1, 11):
        write(f"runs/{day}.jsonl", latency_run(day, 10 * 1.02**day, OTHER_TORCH))
    write("base.jsonl", latency_run(8, 10 * 1.02**8))
    write("new.jsonl", latency_run(11, 10 * 1.02**11))
    told = words(look_back(torchstone).out)
    assert "drift" not in told
    assert "(torch is 2.13.0, was 2.11.0), so times and memory are not used: runs/1.jsonl" in told
    told = words(look_back(torchstone, "--cross-environment").out)
    assert "drift" in told
    assert "left out" not in told


def test_counts_may_come_from_any_environment(torchstone: Command, write: WriteFile) -> None:
    for day in range(1, 11):
        write(f"runs/{day}.csv", counts(a=10_000 + 50 * day))
    write("e.csv", f"a,{COUNT},10550,0.02\n")
    write("r.csv", counts(a=10_550))
    ran = torchstone("check", "r.csv", "--baseline", "e.csv", "--history", "runs")
    assert f"drift: {COUNT} of a has moved by +4.0% since runs/1.csv, for the worse" in words(ran.out)


def test_a_history_of_other_cases_is_told(torchstone: Command, write: WriteFile) -> None:
    write("runs/1.csv", counts(b=1))
    write("e.csv", f"a,{COUNT},1000,0.02\n")
    write("r.csv", counts(a=1000))
    ran = torchstone("check", "r.csv", "--baseline", "e.csv", "--history", "runs")
    assert ran.code == 0
    assert "--history has none of the judged cases" in words(ran.out)


@pytest.mark.parametrize(
    ("history", "said"),
    [
        ("nowhere", "nowhere"),
        ("r.csv", "no past runs found"),
        ("e.csv", "no past runs found"),
        ("bad.csv", "unrecognised file format"),
        ("other.csv", "holds expected values, not results"),
    ],
)
def test_a_history_that_is_none_is_refused(
    history: str, said: str, torchstone: Command, write: WriteFile
) -> None:
    write("e.csv", f"a,{COUNT},1000,0.02\n")
    write("other.csv", f"a,{COUNT},1000,0.02\n")
    write("r.csv", counts(a=1000))
    write("bad.csv", "one,two\n1,2\n")
    ran = torchstone("check", "r.csv", "--baseline", "e.csv", "--history", history)
    assert ran.code == 2
    assert said in ran.err
