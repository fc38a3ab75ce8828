"""``torchstone accept --learn-margins``: rows get the margins that past runs ask for."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from conftest import Command, WriteFile
from stated_facts import measurement_of
from torchstone.core.records import Case, Measurement, Number, Outcome, Run, Variant
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.run_settings import environment_from

HERE: dict[str, Any] = {"machine": {"cpu": {"model": "EPYC"}}, "versions": {"torch": "2.13.0"}}
OTHER_TORCH = HERE | {"versions": {"torch": "2.11.0"}}
COUNT = "instruction_count"


def performance_run(
    day: int,
    latency: float,
    environment: dict[str, Any] = HERE,
    status: str = "pass",
    metric: str = "abs_latency",
    extra: dict[str, Any] | None = None,
) -> str:
    case = Case("Bert", "performance", "suite", Variant(device="cpu", batch_size=4))
    outcome = Outcome(case, status, (measurement_of(metric, (latency,), extra),) if status == "pass" else ())
    return encode_run(
        Run(f"202611{day:02d}T030000-abcdef", (case,), (outcome,), environment=environment_from(environment))
    )


@pytest.fixture
def latencies(write: WriteFile) -> list[float]:
    """Twelve past runs in the folder ``runs``, with a standard deviation of 1 %."""
    chance = random.Random(4)  # noqa: S311  (chance, not secrecy)
    found = [10 * (1 + chance.gauss(0, 0.01)) for _ in range(12)]
    for day, latency in enumerate(found, 1):
        write(f"runs/{day}.jsonl", performance_run(day, latency))
    return found


def counts_run(day: int, **counts: float) -> str:
    """Latencies of one model in several dtypes, as a run file."""
    outcomes = [
        Outcome(
            Case("Bert", "performance", "suite", Variant(device="cpu", dtype=dtype)),
            "pass",
            (Measurement("abs_latency", (latency,)),),
        )
        for dtype, latency in counts.items()
    ]
    cases = tuple(outcome.case for outcome in outcomes)
    return encode_run(
        Run(f"202611{day:02d}T030000-abcdef", cases, tuple(outcomes), environment=environment_from(HERE))
    )


def row_in(path: Path) -> Measurement:
    return decode_run(str(path), path.read_text()).run.outcomes[0].measurements[0]


def accept(torchstone: Command, *options: str) -> Any:  # noqa: ANN401  (what the fixture gives)
    return torchstone("accept", "new.jsonl", "--baseline", "base.jsonl", *options, "--yes")


@pytest.mark.usefixtures("latencies")
def test_a_row_gets_the_margin_that_its_past_values_ask_for(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 10.05))
    ran = accept(torchstone, "--learn-margins", "runs")
    assert ran.code == 0
    assert "12 past values" in ran.out
    row = row_in(tmp_path / "base.jsonl")
    assert row.value == 10.0  # it moved by less than a third of the margin
    assert row.margin is not None
    assert 0.02 < row.margin < 0.06
    assert f"15% -> {100 * row.margin:.2g}%" in ran.out


@pytest.mark.usefixtures("latencies")
def test_the_gate_judges_by_the_learned_margin_unless_a_rule_is_asked_for(
    torchstone: Command, write: WriteFile
) -> None:
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 10.05))
    accept(torchstone, "--learn-margins", "runs")
    write("slow.jsonl", performance_run(14, 11.0))
    arguments = ("check", "slow.jsonl", "--baseline", "base.jsonl")
    ran = torchstone(*arguments)
    assert ran.code == 1
    assert "at most 1.0" in ran.out
    assert torchstone(*arguments, "--rule", "abs_latency=ratio_ceiling:1.15").code == 0
    write("fast.jsonl", performance_run(14, 8.0))
    assert "improved 1" in torchstone("check", "fast.jsonl", "--baseline", "base.jsonl").out


@pytest.mark.usefixtures("latencies")
def test_more_false_alarms_make_narrower_margins(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("new.jsonl", performance_run(13, 10.05))
    margins = []
    for rate in ("0.1%", "1%", "10%"):
        write("base.jsonl", performance_run(12, 10.0))
        accept(torchstone, "--learn-margins", "runs", "--false-alarms", rate)
        margins.append(row_in(tmp_path / "base.jsonl").margin or 0)
    assert margins == sorted(margins, reverse=True)
    assert len(set(margins)) == 3


def test_a_shift_in_the_middle_of_the_past_counts_for_nothing_but_the_level(
    torchstone: Command, write: WriteFile, tmp_path: Path, latencies: list[float]
) -> None:
    for day, latency in enumerate(latencies, 1):
        write(f"runs/{day}.jsonl", performance_run(day, latency * (1.4 if day > 6 else 1)))
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 14.0))
    ran = accept(torchstone, "--learn-margins", "runs")
    assert "12 past values, 1 level shift" in ran.out
    row = row_in(tmp_path / "base.jsonl")
    assert row.value == pytest.approx(14, rel=0.02)
    assert row.margin is not None
    assert row.margin < 0.06


@pytest.mark.usefixtures("latencies")
def test_a_new_value_beyond_the_past_is_a_level_of_its_own(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 20.0))
    assert "1 level shift" in accept(torchstone, "--learn-margins", "runs").out
    row = row_in(tmp_path / "base.jsonl")
    assert row.value == 20.0
    assert row.margin is not None
    assert row.margin < 0.08


def test_runs_of_another_environment_are_left_out_and_named(
    torchstone: Command, write: WriteFile, tmp_path: Path, latencies: list[float]
) -> None:
    for day in range(1, 5):
        write(f"runs/{day}.jsonl", performance_run(day, 3 * latencies[day], OTHER_TORCH))
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 10.0))
    ran = accept(torchstone, "--learn-margins", "runs")
    assert "8 past values" in ran.out
    assert "from another environment (torch is 2.13.0, was 2.11.0), so not used: runs/1.jsonl" in (
        ran.out.replace("runs/1.jsonl, runs/2.jsonl", "runs/1.jsonl")
    )
    assert "and 1 more" in ran.out
    assert row_in(tmp_path / "base.jsonl").value == 10.0
    for day in range(5, 9):
        write(f"runs/{day}.jsonl", performance_run(day, 10.0, OTHER_TORCH))
    ran = accept(torchstone, "--learn-margins", "runs")
    assert ran.code == 2
    assert "4 past runs to learn from (and 8 more from another environment); at least 5 are needed" in ran.err


def test_failed_runs_and_other_ways_to_measure_are_no_values(
    torchstone: Command, write: WriteFile, latencies: list[float]
) -> None:
    for day in range(1, 4):
        write(f"runs/{day}.jsonl", performance_run(day, 0, status="timeout"))
    for day in range(4, 7):
        write(f"runs/{day}.jsonl", performance_run(day, latencies[day], extra={"start": "spawn"}))
    write("runs/7.jsonl", performance_run(7, 0.0))
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 10.0, extra={"start": "fork"}))
    assert "5 past values" in accept(torchstone, "--learn-margins", "runs").out


def test_a_row_with_too_few_past_values_is_held_back_with_the_number_that_it_needs(
    torchstone: Command, write: WriteFile, tmp_path: Path, latencies: list[float]
) -> None:
    for day in range(1, 9):
        write(f"runs/{day}.jsonl", performance_run(day, 0, status="timeout"))
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 20.0))
    ran = accept(torchstone, "--learn-margins", "runs")
    assert ran.code == 0
    assert "4 past values: learning a margin needs 5 or more" in ran.out
    assert "nothing was written" in ran.out
    assert row_in(tmp_path / "base.jsonl").value == 10.0
    assert len(latencies) == 12


def test_values_that_are_not_above_0_are_held_back(torchstone: Command, write: WriteFile) -> None:
    metric = "compilation_latency"
    for day in range(1, 8):
        write(f"runs/{day}.jsonl", performance_run(day, day - 2, metric=metric))
    write("base.jsonl", performance_run(12, 1.0, metric=metric))
    write("new.jsonl", performance_run(13, 1.0, metric=metric))
    ran = accept(torchstone, "--learn-margins", "runs")
    assert ran.code == 0
    assert "a value is not positive, so a relative margin makes no sense" in ran.out


def counts(**values: Number) -> str:
    return "".join(f"{name},{COUNT},{value}\n" for name, value in values.items())


def test_counts_in_a_table_get_margins_in_their_column(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    for number in range(1, 8):
        write(f"past/{number}.csv", counts(adding=1_000_000 + 3000 * (number % 3), sorting=500_000))
    write("new.csv", counts(adding=1_001_000, sorting=500_000))
    write("e.csv", f"# expected\nadding,{COUNT},1001000,0.1\n\n\n\n")
    ran = torchstone(
        "accept", "new.csv", "--baseline", "e.csv", "--learn-margins", "past", "--add-new", "--yes"
    )
    assert ran.code == 0
    lines = [line.split(",") for line in (tmp_path / "e.csv").read_text().splitlines() if line]
    assert lines[0] == ["# expected"]
    assert 0.008 < float(lines[1][3]) < 0.03
    assert lines[2] == ["sorting", COUNT, "500000", "0.001"]


def test_a_new_row_with_too_few_past_values_is_not_added(torchstone: Command, write: WriteFile) -> None:
    for number in range(1, 8):
        write(f"past/{number}.csv", counts(adding=1_000_000 + number))
    write("new.csv", counts(adding=1_000_000, sorting=500_000))
    write("e.csv", f"adding,{COUNT},1000000,0.1\n")
    ran = torchstone(
        "accept", "new.csv", "--baseline", "e.csv", "--learn-margins", "past", "--add-new", "--yes"
    )
    assert "new, but 0 past values: learning a margin needs 5 or more" in ran.out


@pytest.mark.usefixtures("latencies")
def test_what_else_lies_in_the_folder_is_left_out_and_the_new_file_is_no_past(
    torchstone: Command, write: WriteFile
) -> None:
    write("runs/report.json", json.dumps({"verdict": "pass"}))
    write("runs/expected.csv", "name,accuracy\nBert,pass\n")
    write("runs/notes.txt", "nothing")
    write("runs/.hidden.jsonl", "nothing")
    write("runs/base.jsonl", performance_run(12, 10.0))
    write("runs/new.jsonl", performance_run(13, 10.05))
    ran = torchstone(
        "accept", "runs/new.jsonl", "--baseline", "runs/base.jsonl", "--learn-margins", "runs", "--dry-run"
    )
    assert ran.code == 0
    assert "12 past values" in ran.out
    assert "runs/report.json is not a result file, and is ignored" in ran.out
    assert "runs/expected.csv contains expected values, not results, and is ignored" in ran.out
    assert "notes.txt" not in ran.out
    assert "hidden" not in ran.out


@pytest.mark.usefixtures("latencies")
def test_a_pattern_in_quotation_marks_and_repeated_files_work_too(
    torchstone: Command, write: WriteFile
) -> None:
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 10.05))
    assert "12 past values" in accept(torchstone, "--learn-margins", "runs/*.jsonl").out
    write("base.jsonl", performance_run(12, 10.0))
    named = [word for day in (1, 2, 3, 4, 5, 5) for word in ("--learn-margins", f"runs/{day}.jsonl")]
    assert "5 past values" in accept(torchstone, *named).out


@pytest.mark.usefixtures("latencies")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--learn-margins", "runs/1.jsonl"], "1 past run to learn from; at least 5 are needed"),
        (["--learn-margins", "nowhere/*"], "--learn-margins nowhere/*: no file matches"),
        (["--learn-margins", "nowhere.jsonl"], "nowhere.jsonl"),
        (["--learn-margins", "new.jsonl"], "no past runs found"),
        (["--learn-margins", "empty.csv"], "the file is empty"),
        (["--false-alarms", "1%"], "--false-alarms requires --learn-margins"),
        (["--learn-margins", "runs", "--false-alarms", "often"], "expected a share such as 1% or 0.01"),
        (["--learn-margins", "runs", "--false-alarms", "60%"], "expected a share of at most 0.5"),
        (["--learn-margins", "runs", "--repeat", "5"], "--repeat cannot be used with --learn-margins"),
    ],
)
def test_what_makes_no_sense_is_refused(
    options: list[str], said: str, torchstone: Command, write: WriteFile
) -> None:
    write("empty.csv", "")
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 10.05))
    ran = accept(torchstone, *options)
    assert ran.code == 2
    assert said in ran.err


@pytest.mark.usefixtures("latencies")
def test_a_baseline_without_a_place_for_margins_is_refused(torchstone: Command, write: WriteFile) -> None:
    write("new.jsonl", performance_run(13, 10.05))
    write("base.csv", "name,abs_latency\nBert,10.0\n")
    ran = torchstone("accept", "new.jsonl", "--baseline", "base.csv", "--learn-margins", "runs", "--yes")
    assert ran.code == 2
    assert "cannot hold the margins that --learn-margins finds" in ran.err
    assert "pr-time-expected or run" in ran.err


@pytest.mark.usefixtures("latencies")
def test_a_rule_with_a_limit_of_its_own_is_said_to_come_first(torchstone: Command, write: WriteFile) -> None:
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 10.05))
    ran = accept(torchstone, "--learn-margins", "runs", "--rule", "abs_latency=ratio_ceiling:1.2")
    assert "a rule sets its own margin, which takes precedence" in ran.out


@pytest.mark.usefixtures("latencies")
def test_a_copy_of_a_run_counts_once(torchstone: Command, write: WriteFile, tmp_path: Path) -> None:
    write("base.jsonl", performance_run(12, 10.0))
    write("new.jsonl", performance_run(13, 10.05))
    write("runs/copied/3.jsonl", (tmp_path / "runs/3.jsonl").read_text())
    write("runs/new-copy.jsonl", performance_run(13, 10.05))
    ran = accept(torchstone, "--learn-margins", "runs", "--learn-margins", "runs/copied")
    assert ran.code == 0
    assert "12 past values" in ran.out
    told = " ".join((ran.out + ran.err).split())
    assert "runs/copied/3.jsonl is a copy of runs/3.jsonl, and is counted once" in told
    assert "runs/new-copy.jsonl is a copy of new.jsonl" in told


def test_a_row_that_stands_for_any_dtype_learns_from_the_one_that_was_measured(
    torchstone: Command, write: WriteFile, tmp_path: Path
) -> None:
    for day in range(1, 9):
        write(f"runs/{day}.jsonl", counts_run(day, float32=10 + 0.01 * (day % 3), bfloat16=5 + day % 2))
    case = Case("Bert", "performance")
    stated = Outcome(case, "pass", (Measurement("abs_latency", (10.0,)),))
    write(
        "base.jsonl",
        encode_run(Run("20261112T030000-abcdef", (case,), (stated,), environment=environment_from(HERE))),
    )
    write("new.jsonl", counts_run(13, float32=10.01))
    ran = accept(torchstone, "--learn-margins", "runs")
    assert ran.code == 0, ran.err
    margin = row_in(tmp_path / "base.jsonl").margin
    assert margin is not None
    assert margin < 0.02
