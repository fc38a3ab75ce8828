"""Accepting results of another environment, or measured in another way, into a run file that says where and how its numbers came to be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from comparison_files import counts, failed, passed, write_run
from conftest import Command
from torchstone.codec import decode_run
from torchstone.model import Measurement, Outcome, Run

OLD, NEW = ({"versions": {"torch": version}} for version in ("2.11.0", "2.13.0"))


def latency(name: str, value: float, start: str = "fork") -> Outcome:
    return passed(name, Measurement("abs_latency", (value,), {"start": start}), counts("graph_breaks", 0))


@pytest.fixture
def files(tmp_path: Path, torchstone: Command) -> tuple[str, str]:
    base = write_run(tmp_path, "base.jsonl", [latency("a", 5.0), latency("b", 7.0)], environment=OLD)
    new = write_run(tmp_path, "new.jsonl", [latency("a", 5.1), latency("b", 9.0)], environment=NEW)
    return new, base


def read(path: str) -> Run:
    return decode_run(path, Path(path).read_text()).run


def test_a_baseline_becomes_one_of_the_new_environment_as_a_whole(
    files: tuple[str, str], torchstone: Command
) -> None:
    new, base = files
    assert torchstone("check", new, "--baseline", base).code == 1
    assert torchstone("accept", new, "--baseline", base, "--yes").code == 0
    now = read(base)
    assert now.environment == NEW
    # What moved by less than noise, too: it was measured there, and the old value was not.
    assert [outcome.value("abs_latency") for outcome in now.outcomes] == [5.1, 9.0]
    assert torchstone("check", new, "--baseline", base).code == 0


@pytest.mark.parametrize("options", [["--only", "b"], ["--metric", "abs_latency"]])
def test_times_of_another_environment_do_not_come_among_those_that_stay(
    options: list[str], files: tuple[str, str], torchstone: Command
) -> None:
    new, base = files
    before = Path(base).read_text()
    ran = torchstone("accept", new, "--baseline", base, "--yes", *options)
    assert "measured in another environment (torch is 2.13.0, was 2.11.0)" in " ".join(ran.out.split())
    assert Path(base).read_text() == before


def test_new_rows_with_times_are_held_back_too_and_counts_are_not(
    tmp_path: Path, torchstone: Command
) -> None:
    base = write_run(tmp_path, "base.jsonl", [latency("a", 5.0), latency("b", 7.0)], environment=OLD)
    outcomes = [passed("a", counts("graph_breaks", 2)), latency("c", 3.0)]
    new = write_run(tmp_path, "new.jsonl", outcomes, environment=NEW)
    ran = torchstone("accept", new, "--baseline", base, "--yes", "--add-new")
    now = read(base)
    assert "another environment" in " ".join(ran.out.split())
    assert now.environment == OLD
    assert [(outcome.case.benchmark, outcome.value("graph_breaks")) for outcome in now.outcomes] == [
        ("a", 2),
        ("b", 0),
    ]


def test_a_number_that_was_measured_in_another_way_says_so_from_then_on(
    tmp_path: Path, torchstone: Command
) -> None:
    base = write_run(tmp_path, "base.jsonl", [latency("a", 5.0)])
    new = write_run(tmp_path, "new.jsonl", [latency("a", 5.01, "spawn")])
    torchstone("accept", new, "--baseline", base, "--yes")
    (measured, _) = read(base).outcomes[0].measurements
    assert (measured.value, (measured.extra or {})["start"]) == (5.01, "spawn")
    assert torchstone("check", new, "--baseline", base).code == 0


@pytest.mark.parametrize("how", ["failed", "without the latency"])
def test_a_baseline_stays_where_it_was_if_one_row_cannot_come_along(
    how: str, tmp_path: Path, torchstone: Command
) -> None:
    base = write_run(tmp_path, "base.jsonl", [latency("a", 5.0), latency("b", 7.0)], environment=OLD)
    b = failed("b") if how == "failed" else passed("b", counts("graph_breaks", 0))
    new = write_run(tmp_path, "new.jsonl", [latency("a", 6.5), b], environment=NEW)
    before = Path(base).read_text()
    torchstone("accept", new, "--baseline", base, "--yes")
    assert Path(base).read_text() == before


def test_numbers_that_are_never_judged_come_along_and_margins_stay(
    tmp_path: Path, torchstone: Command
) -> None:
    def run(name: str, environment: Mapping[str, object], value: float, **extra: float) -> str:
        both = Measurement("abs_latency", (value,), dict(extra)), Measurement("eager_latency", (value,))
        return write_run(tmp_path, name, [passed("a", *both)], environment=environment)

    base, new = run("base.jsonl", OLD, 5.0, margin=0.07), run("new.jsonl", NEW, 6.0)
    assert torchstone("accept", new, "--baseline", base, "--yes").code == 0
    (outcome,) = read(base).outcomes
    assert [each.value for each in outcome.measurements] == [6.0, 6.0]
    assert outcome.measurements[0].margin == 0.07
