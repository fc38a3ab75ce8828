"""Accepting results of another environment, or measured in another way, into a run file that says where and how its numbers came to be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from comparison_files import counts, failed, passed, write_run
from conftest import Command
from stated_facts import measurement_of
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Measurement, Outcome, Run
from torchstone.core.run_file import decode_run

OLD, NEW = ({"versions": {"torch": version}} for version in ("2.11.0", "2.13.0"))


def latency(name: str, value: float, start: str = "fork") -> Outcome:
    return passed(
        name, Measurement("abs_latency", (value,), MeasurementDetails(start=start)), counts("graph_breaks", 0)
    )


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
    assert now.environment.to_mapping() == NEW
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
    assert now.environment.to_mapping() == OLD
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
    assert (measured.value, measured.facts()["start"]) == (5.01, "spawn")
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
        both = measurement_of("abs_latency", (value,), extra), Measurement("eager_latency", (value,))
        return write_run(tmp_path, name, [passed("a", *both)], environment=environment)

    base, new = run("base.jsonl", OLD, 5.0, margin=0.07), run("new.jsonl", NEW, 6.0)
    assert torchstone("accept", new, "--baseline", base, "--yes").code == 0
    (outcome,) = read(base).outcomes
    assert [each.value for each in outcome.measurements] == [6.0, 6.0]
    assert outcome.measurements[0].margin == 0.07


def timed(name: str, value: float, **extra: str) -> Outcome:
    return passed(name, measurement_of("abs_latency", (value,), extra))


def test_of_several_files_from_elsewhere_a_row_gets_what_most_of_them_say(
    tmp_path: Path, torchstone: Command
) -> None:
    def accuracy(status: str, breaks: int) -> Outcome:
        return Outcome(Case("a", "accuracy"), status, (counts("graph_breaks", breaks),))

    base = write_run(tmp_path, "base.jsonl", [accuracy("pass", 0), timed("b", 5.0)], environment=OLD)
    ends = [("pass", 0), ("pass", 0), ("fail_accuracy", 3)]
    files = [
        write_run(tmp_path, f"{n}.jsonl", [accuracy(*end), timed("b", value)], environment=NEW)
        for n, (end, value) in enumerate(zip(ends, (4.0, 5.0, 6.0), strict=True))
    ]
    ran = torchstone("accept", *files, "--baseline", base, "--yes", "--include-unstable")
    assert ran.code == 0
    now = read(base)
    assert now.environment.to_mapping() == NEW
    assert [outcome.status for outcome in now.outcomes] == ["pass", "pass"]
    assert (now.outcomes[0].value("graph_breaks"), now.outcomes[1].value("abs_latency")) == (0, 5.0)
    assert torchstone("check", files[2], "--baseline", base).code == 1


def test_a_file_that_does_not_say_where_it_was_measured_takes_no_environment_away(
    tmp_path: Path, torchstone: Command
) -> None:
    base = write_run(tmp_path, "base.jsonl", [timed("a", 5.0), timed("b", 5.0)], environment=OLD)
    one = write_run(tmp_path, "one.jsonl", [timed("a", 7.0)], environment=NEW)
    other = write_run(tmp_path, "other.jsonl", [timed("b", 7.0)])
    ran = torchstone("accept", one, other, "--baseline", base, "--yes")
    assert "hold" in ran.out
    assert read(base).environment.to_mapping() == OLD


def test_the_same_numbers_in_another_environment_are_a_change_too(
    tmp_path: Path, torchstone: Command
) -> None:
    base = write_run(tmp_path, "base.jsonl", [timed("a", 5.0)], environment=OLD)
    new = write_run(tmp_path, "new.jsonl", [timed("a", 5.0)], environment=NEW)
    assert torchstone("check", new, "--baseline", base).code == 1
    ran = torchstone("accept", new, "--baseline", base, "--yes")
    assert "torch is 2.13.0, was 2.11.0" in " ".join(ran.out.split())
    assert torchstone("check", new, "--baseline", base).code == 0


def test_numbers_measured_in_two_ways_make_no_median(tmp_path: Path, torchstone: Command) -> None:
    base = write_run(tmp_path, "base.jsonl", [timed("a", 10.0, start="fork")])
    ways = [("fork", 10.0), ("spawn", 20.0)]
    files = [write_run(tmp_path, f"{start}.jsonl", [timed("a", value, start=start)]) for start, value in ways]
    before = Path(base).read_text()
    ran = torchstone("accept", *files, "--baseline", base, "--yes")
    assert "the files differ in start: fork, spawn" in " ".join(ran.out.split())
    assert Path(base).read_text() == before


def test_the_same_number_measured_in_another_way_is_said_to_be(tmp_path: Path, torchstone: Command) -> None:
    base = write_run(tmp_path, "base.jsonl", [timed("a", 10.0, start="fork")])
    new = write_run(tmp_path, "new.jsonl", [timed("a", 10.0, start="spawn")])
    assert torchstone("check", new, "--baseline", base).code == 1
    assert torchstone("accept", new, "--baseline", base, "--yes").code == 0
    assert torchstone("check", new, "--baseline", base).code == 0


def test_a_case_that_crashed_in_most_files_is_held_back(tmp_path: Path, torchstone: Command) -> None:
    base = write_run(tmp_path, "base.jsonl", [timed("a", 10.0)])
    ends = [timed("a", 13.0), failed("a", "worker_died"), failed("a", "worker_died")]
    files = [write_run(tmp_path, f"{n}.jsonl", [end]) for n, end in enumerate(ends)]
    for options in ([], ["--include-unstable"]):
        ran = torchstone("accept", *files, "--baseline", base, "--yes", *options)
        assert "the files disagree: worker_died x2, pass x1" in " ".join(ran.out.split())
    assert read(base).outcomes[0].value("abs_latency") == 10.0


def test_shares_that_scatter_are_adopted_by_their_median_and_not_by_vote(
    tmp_path: Path, torchstone: Command
) -> None:
    def scaling(value: float) -> Outcome:
        return Outcome(Case("a", "scaling"), "pass", (Measurement("scaling_efficiency", (value,)),))

    base = write_run(tmp_path, "base.jsonl", [scaling(90.0)])
    files = [write_run(tmp_path, f"{n}.jsonl", [scaling(v)]) for n, v in enumerate((80.9, 81.1, 81.3))]
    assert torchstone("accept", *files, "--baseline", base, "--yes").code == 0
    assert read(base).outcomes[0].value("scaling_efficiency") == 81.1
    near = write_run(tmp_path, "near.jsonl", [scaling(81.2)])
    assert "nothing to change" in torchstone("accept", near, "--baseline", base, "--yes").out
