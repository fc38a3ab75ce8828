from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec import structs

from conftest import Command, WriteFile
from record_strategies import pr_time_runs
from sample_files import PR_TIME, PR_TIME_EXPECTED, read_as, rewrite
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Outcome, Run, Variant
from torchstone.formats import FORMATS
from torchstone.formats.table import defuse
from torchstone.formats.torch.pr_time_csv import write_records, write_rows


def refused(kind: str, text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_as(kind, text, "bad.csv")
    assert caught.value.path == "bad.csv"
    return caught.value


def test_the_rows_of_one_benchmark_are_one_case_wherever_they_stand() -> None:
    reading = read_as("pr-time", "a,instruction_count,1\nb,instruction_count,2\n\na,own,3\n")
    assert reading.run.outcomes == (
        Outcome(
            Case("a", "instructions"),
            "pass",
            (Measurement("instruction_count", (1,)), Measurement("own", (3,))),
        ),
        Outcome(Case("b", "instructions"), "pass", (Measurement("instruction_count", (2,)),)),
    )
    assert list(reading.lines) == [1, 2]


@pytest.mark.parametrize(
    ("kind", "header", "text"),
    [
        ("pr-time", "name,metric,value\n", PR_TIME),
        ("pr-time", " name , metric , value \n", PR_TIME),
        ("pr-time-expected", "name,metric,expected,margin\n", PR_TIME_EXPECTED),
    ],
)
def test_a_header_is_understood_and_shards_may_be_joined(kind: str, header: str, text: str) -> None:
    plain = read_as(kind, text)
    headed = read_as(kind, header + text)
    assert headed.run == plain.run
    assert list(headed.lines) == [line + 1 for line in plain.lines]
    assert read_as(kind, f"{text}{header}z,instruction_count,1{',0.1' if 'expected' in kind else ''}\n")


def test_large_counts_stay_exact() -> None:
    (outcome,) = read_as("pr-time", "a,instruction_count,9007199254740993\n").run.outcomes
    assert outcome.value("instruction_count") == 9007199254740993


def test_a_margin_belongs_to_its_row() -> None:
    reading = read_as("pr-time-expected", PR_TIME_EXPECTED)
    assert [outcome.measurements[0].margin for outcome in reading.run.outcomes] == [0.1, 0.015, 0.2]
    assert list(reading.lines) == [1, 5, 9]


@pytest.mark.parametrize(("kind", "text"), [("pr-time", PR_TIME), ("pr-time-expected", PR_TIME_EXPECTED)])
def test_a_file_as_upstream_writes_it_comes_back_byte_for_byte(kind: str, text: str) -> None:
    assert rewrite(kind, text) == text


def test_an_expected_value_without_a_margin_is_written_with_the_customary_one() -> None:
    run = read_as("pr-time", "a,instruction_count,5\n").run
    assert FORMATS["pr-time-expected"].write(run) == "a,instruction_count,5,0.015\n"


@pytest.mark.parametrize(
    ("kind", "text", "line", "column"),
    [
        ("pr-time", "a,m\n", 1, "value"),
        ("pr-time", "a,m,1,0.1\n", 1, 4),
        ("pr-time", "a,m,fast\n", 1, "value"),
        ("pr-time", "a,m,-1\n", 1, "value"),
        ("pr-time", "a,m,\n", 1, "value"),
        ("pr-time", ",m,1\n", 1, "name"),
        ("pr-time", "a,,1\n", 1, "metric"),
        ("pr-time", 'a,"m\nn",1\n', 1, "metric"),
        ("pr-time", "name,metric,value\n", 1, None),
        ("pr-time", "# only this\n", 1, None),
        ("pr-time-expected", "a,m,1\n", 1, "margin"),
        ("pr-time-expected", "\na,m,0,0.1\n", 2, "expected"),
        ("pr-time-expected", "a,m,1,1\n", 1, "margin"),
        ("pr-time-expected", "a,m,1,-0.1\n", 1, "margin"),
        ("pr-time-expected", "a,m,1,nan\n", 1, "margin"),
        ("pr-time-expected", "a,m,1,\n", 1, "margin"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(
    kind: str, text: str, line: int, column: str | int | None
) -> None:
    error = refused(kind, text)
    assert (error.line, error.column) == (line, column)


def test_the_same_metric_twice_names_both_lines() -> None:
    error = refused("pr-time", "a,m,1\nb,m,1\n\n a,m,2\n")
    assert error.line == 4
    assert "already in line 1" in error.message


def test_a_long_name_does_not_make_a_long_message() -> None:
    row = f"{'x' * 50_000},{'y' * 50_000},1\n"
    assert len(str(refused("pr-time", row + row))) < 1000


@settings(deadline=None)
@given(pr_time_runs(margins=False))
def test_counts_that_are_written_read_the_same(run: Run) -> None:
    assert read_as("pr-time", defuse(FORMATS["pr-time"].write(run))).run == run


@settings(deadline=None)
@given(pr_time_runs(margins=True))
def test_expected_counts_that_are_written_read_the_same(run: Run) -> None:
    assert read_as("pr-time-expected", defuse(FORMATS["pr-time-expected"].write(run))).run == run


def counted(*measurements: Measurement, **axes: Any) -> Outcome:  # noqa: ANN401  (of any type that an axis has)
    details = OutcomeDetails(category="loops", description='a "loop"')
    case = Case("loop/eager", "instructions", "mine", Variant("cpu", "eager", "training", **axes))
    return Outcome(case, "pass", measurements, details=details)


def test_records_are_those_of_the_original() -> None:
    outcome = counted(
        Measurement(
            "compile_time_instruction_count",
            (30, 9007199254740993, 20),
            MeasurementDetails(counter="hardware"),
        ),
        Measurement("compile_time_instruction_count_tree", (50, 60), MeasurementDetails(counter="hardware")),
        dynamic=True,
    )
    assert json.loads(write_records(outcome)) == [
        {
            "benchmark": {
                "name": "pr_time_benchmarks",
                "mode": "training",
                "extra_info": {"is_dynamic": True, "device": "cpu", "description": 'a "loop"'},
            },
            "model": {"name": "loop/eager", "type": "loops", "backend": "eager"},
            "metric": {"name": "compile_time_instruction_count", "benchmark_values": [20]},
        }
    ]
    assert write_rows(outcome) == "loop/eager,compile_time_instruction_count,20\n"


def test_records_name_a_counter_that_the_original_does_not_have() -> None:
    outcome = counted(Measurement("python_calls", (4.0, 3.0), MeasurementDetails(counter="python")))
    (record,) = json.loads(write_records(outcome))
    assert record["benchmark"]["extra_info"]["counter"] == "python"
    assert record["benchmark"]["extra_info"]["is_dynamic"] is None
    assert '"benchmark_values": [3]' in write_records(outcome)
    assert write_rows(outcome) == "loop/eager,python_calls,3\n"


def test_times_keep_their_digits_and_a_tree_alone_is_kept() -> None:
    outcome = counted(Measurement("cpu_seconds", (1.25, 1.1234567891)), Measurement("own_tree", (2,)))
    assert write_rows(outcome) == "loop/eager,cpu_seconds,1.1234567891\nloop/eager,own_tree,2\n"


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_records_are_read_as_records_of_the_database(dynamic: bool | None) -> None:
    outcome = counted(Measurement("instruction_count", (9007199254740993,)), dynamic=dynamic)
    (read,) = read_as("v3", write_records(outcome), "loop.json").run.outcomes
    assert read.case == structs.replace(outcome.case, suite="")
    assert read.value("instruction_count") == 9007199254740993
    text = FORMATS["v3"].write(Run("x", (read.case,), (read,)))
    assert json.loads(text) == json.loads(write_records(outcome))[0]


def test_records_without_anything_said_of_the_benchmark_can_be_written() -> None:
    bare = Outcome(Case("a", "instructions"), "pass", (Measurement("instruction_count", (1,)),))
    (record,) = json.loads(write_records(bare))
    assert record["model"] == {"name": "a", "type": "", "backend": ""}


class TestLines:
    """Each metric of a benchmark has a row, and is found there."""

    RESULTS = "add,compile_time_instruction_count,130\nadd,memory,5\nmul,compile_time_instruction_count,100\nadd,graphs,7\n"
    EXPECTED = "add,compile_time_instruction_count,100,0.015\n\n\n\nmul,compile_time_instruction_count,100,0.015\n\n\n\nadd,memory,9,0.015\n"

    def places(self, document: str, *names: str) -> dict[tuple[str, str], tuple[str | None, ...]]:
        rows = json.loads(document)["rows"]
        return {(row["name"], row["metric"]): tuple(row.get(name) for name in names) for row in rows}

    def test_in_a_check(self, torchstone: Command, write: WriteFile) -> None:
        check = ("check", write("r.csv", self.RESULTS), "--baseline", write("e.csv", self.EXPECTED))
        for only in ((), ("--only", "add")):  # which leaves rows out
            found = self.places(torchstone(*check, *only, "--format", "json").out, "place", "expected_place")
            assert found["add", "compile_time_instruction_count"] == ("r.csv:1", "e.csv:1")
            assert found["add", "memory"] == ("r.csv:2", "e.csv:9")
            assert found["add", "graphs"] == ("r.csv:4", "e.csv:1")  # the benchmark, which has no such row
        told = torchstone(*check, "--format", "github").out
        assert "::notice title=improvement%3A add,file=e.csv,line=9::memory: 5, expected 9" in told

    def test_in_a_comparison(self, torchstone: Command, write: WriteFile) -> None:
        later = "\n".join(reversed(self.RESULTS.replace("memory,5", "memory,6").splitlines())) + "\n"
        compare = ("compare", write("base.csv", self.RESULTS), write("new.csv", later), "--format", "json")
        found = self.places(torchstone(*compare).out, "base_place", "new_place")
        assert found["add", "compile_time_instruction_count"] == ("base.csv:1", "new.csv:4")
        assert found["add", "memory"] == ("base.csv:2", "new.csv:3")
        assert found["add", "graphs"] == ("base.csv:4", "new.csv:1")
