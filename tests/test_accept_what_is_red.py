"""Whatever ``check`` marks red with an accept command is green once exactly that command was run; else it says what to do."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from conftest import Command, Ran, WriteFile
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.core.run_file import encode_run
from torchstone.core.vocabulary import STATUSES

ACTUAL = [status.replace("_N", "_4") for status in STATUSES]
EXPECTED = [*ACTUAL, ""]
SORTS = [
    *("pass", "pass_due_to_skip", "fail_accuracy", "fail_to_run", "eager_two_runs_differ"),
    *("timeout", "not_available", "failed"),
]
"""One status of each sort: as expected of a good case, wrong at the end, failed before it, and so on."""
COUNTS = ("calls_captured", "unique_graphs", "fallbacks_to_eager", "graph_breaks")
VALUES = {"worse": (90, 3, 4, 20), "better": (120, 3, 1, 16), "nothing compiled": (0, 0, 0, 0)}
POLICIES = {
    "strict": (),
    "block improvement": ("--block", "improvement"),
    "upstream": ("--policy", "upstream"),
    "upstream counts": ("--policy", "upstream", *(word for name in COUNTS for word in ("--metric", name))),
    "one count": ("--metric", "graph_breaks"),
}


def report_of(ran: Ran) -> dict[str, Any]:
    assert ran.code in {0, 1}, ran.err
    report: dict[str, Any] = json.loads(ran.out)
    return report


def expect_that_accepting_is_enough(torchstone: Command, *check: str) -> int:
    """Check, run every accept command that is offered as it stands, and check again; gives how many there were."""
    before = [
        row for row in report_of(torchstone("check", *check, "--format", "json"))["rows"] if row["blocks"]
    ]
    for row in before:
        assert bool(row["accept"]) != bool(row["instead"]), row
        if row["accept"]:
            program, *words = shlex.split(row["accept"])
            ran = torchstone(*words, "--yes")
            assert (program, ran.code) == ("torchstone", 0), row
            assert "wrote " in ran.out, (row, ran.out)
    after = {
        (row["case"], row["metric"])
        for row in report_of(torchstone("check", *check, "--format", "json"))["rows"]
        if row["blocks"]
    }
    for row in before:
        assert ((row["case"], row["metric"]) in after) == (row["accept"] is None), row
    assert len(after) == sum(row["accept"] is None for row in before), (
        "accepting one row made another one red"
    )
    return sum(row["accept"] is not None for row in before)


def try_all_pairs(
    torchstone: Command, write: WriteFile, policy: str, values: str, expected: list[str], actual: list[str]
) -> None:
    header = "dev,name,batch_size,accuracy," + ",".join(COUNTS) + "\n"
    numbers = ",".join(map(str, VALUES[values]))
    write("r.csv", header + "".join(f"cuda,m{n},8,{status},{numbers}\n" for n, status in enumerate(actual)))
    offered = 0
    for status in expected:
        if not status and policy == "upstream":
            continue  # the original's gate is about accuracy, and there would be none
        rows = "".join(f"\n\n\nm{n},{status},100,3,2,18\n" for n in range(len(actual)))
        write("e.csv", "name,accuracy," + ",".join(COUNTS) + "\n" + rows)
        given = ("r.csv", "--baseline", "e.csv", *POLICIES[policy])
        offered += expect_that_accepting_is_enough(torchstone, *given)
    lets_all_pass = (policy, values) == ("upstream counts", "nothing compiled")
    assert bool(offered) != lets_all_pass


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("policy", POLICIES)
def test_of_every_sort_of_ending(torchstone: Command, write: WriteFile, policy: str, values: str) -> None:
    try_all_pairs(torchstone, write, policy, values, [*SORTS, ""], SORTS)


@pytest.mark.slow
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("policy", POLICIES)
def test_of_every_pair_of_statuses(torchstone: Command, write: WriteFile, policy: str, values: str) -> None:
    try_all_pairs(torchstone, write, policy, values, EXPECTED, ACTUAL)


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
@pytest.mark.parametrize("probe", ["accuracy", "performance", "instructions"])
def test_of_runs_with_every_probe(torchstone: Command, write: WriteFile, probe: str, kind: str) -> None:
    """A baseline that is a run, or what ``accept`` makes of that run as a table."""
    metric = {"accuracy": "graph_breaks", "performance": "speedup", "instructions": "instruction_count"}[
        probe
    ]
    pairs = [(one, other) for one in SORTS for other in SORTS]
    cases = [Case(f"m{n}", probe, variant=Variant(device="cpu")) for n in range(len(pairs))]

    def file(name: str, side: int, value: float) -> str:
        number = (Measurement(metric, (value,)),)
        outcomes = tuple(Outcome(case, pair[side], number) for case, pair in zip(cases, pairs, strict=True))
        return write(name, encode_run(Run(name, tuple(cases), outcomes)))

    worse = {"graph_breaks": 9, "speedup": 1, "instruction_count": 90000}[metric]
    file("base.jsonl", 0, 3 if worse < 100 else 60000)
    file("new.jsonl", 1, worse)
    if kind == "csv":
        assert torchstone("accept", "base.jsonl", "--baseline", "base.csv", "--add-new", "--yes").code == 0
    expect_that_accepting_is_enough(torchstone, "new.jsonl", "--baseline", f"base.{kind}")


@pytest.mark.parametrize("values", VALUES)
def test_of_cases_that_are_new(torchstone: Command, write: WriteFile, values: str) -> None:
    header = "dev,name,batch_size,accuracy," + ",".join(COUNTS) + "\n"
    numbers = ",".join(map(str, VALUES[values]))
    write("r.csv", header + "".join(f"cuda,m{n},8,{status},{numbers}\n" for n, status in enumerate(ACTUAL)))
    write("e.csv", "name,accuracy,graph_breaks\nm0,pass,90\n")
    assert expect_that_accepting_is_enough(torchstone, "r.csv", "--baseline", "e.csv") > 20


def test_the_numbers_of_a_case_that_is_expected_to_fail_are_judged_and_adopted(
    torchstone: Command, write: WriteFile
) -> None:
    """A real row, and the command as ``check`` prints it."""
    path = Path(write("e.csv", "name,accuracy,graph_breaks\n\n\n\nvision_maskrcnn,fail_to_run,18\n"))
    header = "dev,name,batch_size,accuracy," + ",".join(COUNTS) + "\n"
    write("r.csv", f"{header}cuda,vision_maskrcnn,4,fail_to_run,310,14,1,20\n")
    assert expect_that_accepting_is_enough(torchstone, "r.csv", "--baseline", "e.csv") == 1
    assert path.read_text() == "name,accuracy,graph_breaks\n\n\n\nvision_maskrcnn,fail_to_run,20\n"


def test_a_further_count_of_a_known_benchmark_gets_a_row_of_its_own(
    torchstone: Command, write: WriteFile
) -> None:
    path = Path(write("e.csv", "add_loop,compile_time_instruction_count,100,0.1\n"))
    counts = ("compile_time_instruction_count,100", "instruction_count,90")
    write("r.csv", "".join(f"add_loop,{count}\n" for count in counts))
    assert expect_that_accepting_is_enough(torchstone, "r.csv", "--baseline", "e.csv") == 1
    assert path.read_text().startswith("add_loop,compile_time_instruction_count,100,0.1\n")
    assert "add_loop,instruction_count,90,0.1" in path.read_text()


def test_nothing_compiled_is_nothing_counted(torchstone: Command, write: WriteFile) -> None:
    """A real row: eager did not agree with itself, so that nothing was compiled; that is not 7 graph breaks fewer."""
    text = "name,accuracy,graph_breaks,calls_captured\nmobilenetv2_100,eager_two_runs_differ,7,300\n"
    path = Path(write("e.csv", text))
    header = "dev,name,batch_size,accuracy," + ",".join(COUNTS) + "\n"
    write("r.csv", f"{header}cuda,mobilenetv2_100,8,eager_two_runs_differ,0,0,0,0\n")
    report = report_of(torchstone("check", "r.csv", "--baseline", "e.csv", "--format", "json"))
    assert [(row["metric"], row["verdict"]) for row in report["rows"]] == [("accuracy", "expected_failure")]
    assert "nothing to change" in torchstone("accept", "r.csv", "--baseline", "e.csv", "--yes").out
    assert path.read_text() == text


def test_a_number_without_its_status_is_refused_with_the_reason(
    torchstone: Command, write: WriteFile
) -> None:
    write("e.csv", "name,accuracy,graph_breaks\na,pass,18\n")
    header = "dev,name,batch_size,accuracy," + ",".join(COUNTS) + "\n"
    write("r.csv", f"{header}cuda,a,4,fail_to_run,310,14,1,20\n")
    ran = torchstone("accept", "r.csv", "--baseline", "e.csv", "--metric", "graph_breaks", "--yes")
    assert "failed with fail_to_run where the baseline expects pass; accept its accuracy as well" in ran.out


@pytest.mark.parametrize("style", ["text", "markdown", "github", "junit", "json"])
def test_every_report_says_what_to_do_where_nothing_can_be_accepted(
    torchstone: Command, write: WriteFile, style: str
) -> None:
    write("e.csv", "name,compression_ratio\na,1.1\n")
    write("r.csv", "dev,name,batch_size,speedup,abs_latency,compression_ratio\ncuda,a,0,0.0,0.0\n")
    ran = torchstone("check", "r.csv", "--baseline", "e.csv", "--format", style)
    assert ran.code == 1
    assert "accept r.csv" not in ran.out
    assert "fix the case, or quarantine it" in " ".join(ran.out.split())


def test_the_page_says_so_too(torchstone: Command, write: WriteFile) -> None:
    write("e.csv", "name,compression_ratio\na,1.1\n")
    write("r.csv", "dev,name,batch_size,speedup,abs_latency,compression_ratio\ncuda,a,0,0.0,0.0\n")
    assert torchstone("report", "r.csv", "--baseline", "e.csv", "-o", "page.html").code == 0
    assert "Next step: fix the case, or quarantine it" in Path("page.html").read_text()
