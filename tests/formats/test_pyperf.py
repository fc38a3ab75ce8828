from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_files import CANONICAL, DATA, assert_sound, read_as
from torchstone.core.environments import differences
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Revision

SUITE = (DATA / "pyperf-suite.json").read_text()
MEMORY = (DATA / "pyperf-memory.json").read_text()


def text_of(*benchmarks: dict[str, Any], **fields: object) -> str:
    return json.dumps({"version": "1.0", "benchmarks": list(benchmarks)} | fields, indent=1)


def benchmark(name: str = "sort", *runs: dict[str, Any], **metadata: object) -> dict[str, Any]:
    return {"metadata": {"name": name} | metadata, "runs": list(runs) or [{"values": [1.0, 2.0]}]}


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_as("pyperf", text)
    assert caught.value.path == "file"
    return caught.value


def test_each_process_is_a_trial_without_its_warmups() -> None:
    reading = read_as("pyperf", CANONICAL["pyperf"])
    assert_sound(reading)
    (outcome,) = reading.run.outcomes
    assert outcome.case == Case("timeit", "performance", "pyperf")
    (measurement,) = outcome.measurements
    assert measurement.metric == "seconds"
    assert measurement.trials == (
        (8.11249265098013e-07, 7.912503861007281e-07),
        (8.162496669683605e-07, 7.648750397493131e-07),
    )
    assert reading.cautions == ()


def test_a_suite_has_a_case_for_each_benchmark_and_knows_their_lines() -> None:
    reading = read_as("pyperf", SUITE)
    assert [outcome.case.benchmark for outcome in reading.run.outcomes] == ["sort", "join"]
    assert [len(outcome.measurements[0].trials) for outcome in reading.run.outcomes] == [2, 2]
    lines = SUITE.splitlines()
    assert [lines[line - 1].strip() for line in reading.lines] == ["{", "{"]
    assert reading.lines[0] < reading.lines[1]


def test_memory_is_another_metric_than_time() -> None:
    (outcome,) = read_as("pyperf", MEMORY).run.outcomes
    (measurement,) = outcome.measurements
    assert measurement.metric == "bytes"
    assert len(measurement.trials) == 2
    assert min(measurement.samples) > 1e7


def test_a_number_without_a_unit_is_tracked_and_may_be_negative() -> None:
    text = text_of(benchmark("a", {"values": [-3]}, unit="integer"))
    (measurement,) = read_as("pyperf", text).run.outcomes[0].measurements
    assert (measurement.metric, measurement.samples) == ("tracked_value", (-3,))


def test_the_environment_has_the_form_of_a_run() -> None:
    assert read_as("pyperf", CANONICAL["pyperf"]).run.environment.to_mapping() == {
        "machine": {
            "host": "host",
            "os": "Linux-6.1.0-x86_64-with-glibc2.36",
            "cpu": {"model": "AMD EPYC"},
            "cores": {"logical": 2},
        },
        "software": {"python": {"version": "3.11.7", "implementation": "cpython"}},
    }


def test_files_of_two_machines_are_told_apart() -> None:
    one = read_as("pyperf", CANONICAL["pyperf"]).run.environment
    other = read_as("pyperf", CANONICAL["pyperf"].replace("AMD EPYC", "M4").replace("3.11.7", "3.12.1"))
    assert differences(other.run.environment, one) == ["cpu is M4, was AMD EPYC", "python is 3.12, was 3.11"]


def test_the_commit_that_pyperformance_notes_is_the_revision() -> None:
    text = text_of(benchmark(), metadata={"commit_id": "abc123", "commit_branch": "main"})
    assert read_as("pyperf", text).run.revision == Revision("abc123", "main")


def test_facts_may_stand_with_the_file_the_benchmark_or_the_process() -> None:
    text = text_of(
        {"runs": [{"values": [1], "metadata": {"name": "a", "cpu_model_name": "M4"}}]},
        benchmark("b", cpu_model_name="M4"),
    )
    run = read_as("pyperf", text).run
    assert [case.benchmark for case in run.plan] == ["a", "b"]
    assert run.environment.to_mapping() == {"machine": {"cpu": {"model": "M4"}}}


def test_a_file_of_two_environments_is_refused() -> None:
    text = text_of(benchmark("a", python_version="3.11.7"), benchmark("b", python_version="3.12.1"))
    error = refused(text)
    assert error.line
    assert error.message == "python_version differs between processes: 3.11.7 and 3.12.1"
    assert text.splitlines()[error.line - 1 :][:3] == ["  {", '   "metadata": {', '    "name": "b",']


def test_a_unit_may_stand_with_the_processes_but_all_must_have_the_same() -> None:
    runs: list[dict[str, Any]] = [{"values": [4096], "metadata": {"unit": "byte"}} for _ in range(2)]
    (outcome,) = read_as("pyperf", text_of(benchmark("a", *runs))).run.outcomes
    assert outcome.measurements[0].metric == "bytes"
    runs[1]["metadata"] = {"unit": "second"}
    error = refused(text_of(benchmark("a", *runs)))
    assert error.message == "unit differs between processes: byte and second"
    assert error.column == "benchmarks[0].runs[1].metadata.unit"


def test_a_benchmark_that_was_only_calibrated_has_no_values() -> None:
    error = refused(text_of(benchmark("a", {"warmups": [[1, 0.5]]})))
    assert (error.message, error.line, error.column) == ("no values", 4, "benchmarks[0].runs")


@pytest.mark.parametrize("version", [5, 6, "2.0", None, 1.0, [1]])
def test_another_version_is_refused_with_the_way_out(version: object) -> None:
    error = refused(text_of(benchmark(), version=version))
    assert "expected 1.0" in error.message
    assert error.column == "version"
    assert "pyperf convert" in error.advice


@pytest.mark.parametrize(
    ("entry", "column", "problem"),
    [
        (benchmark(""), "metadata.name", "unusable name"),
        (benchmark("a\nb"), "metadata.name", "unusable name"),
        ({"runs": [{"values": [1]}]}, "metadata.name", "unusable name"),
        (benchmark("a", unit="mile"), "metadata.unit", "unknown unit"),
        (benchmark("a", unit=["second"]), "metadata.unit", "unknown unit"),
        (benchmark("a", {"values": [1, -2.5]}), "runs", "-2.5 seconds: expected no number below 0"),
        (
            benchmark("a", {"values": [float("nan")]}),
            "runs[0].values",
            "expected finite numbers, found a number",
        ),
        (benchmark("a", {"values": ["1"]}), "runs[0].values", "expected finite numbers, found a text"),
        (benchmark("a", {"values": 1}), "runs[0].values", "expected a list, found a number"),
        ({"metadata": {"name": "a"}, "runs": [3]}, "runs[0]", "expected an object, found a number"),
        ({"metadata": {"name": "a"}}, "runs", "no values"),
        ({"metadata": [], "runs": []}, "metadata", "expected an object, found a list"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(
    entry: dict[str, Any], column: str, problem: str
) -> None:
    error = refused(text_of(entry))
    assert (error.message, error.line, error.column) == (problem, 4, f"benchmarks[0].{column}")


@pytest.mark.parametrize("benchmarks", [[], None])
def test_a_file_without_benchmarks_is_refused(benchmarks: object) -> None:
    error = refused(text_of(benchmarks=benchmarks))
    assert (error.message, error.column) == ("no benchmarks", "benchmarks")


def test_the_same_name_twice_is_refused() -> None:
    assert "is already in line 4" in refused(text_of(benchmark("a"), benchmark("a"))).message


def test_a_file_that_was_cut_off_is_refused_with_the_line() -> None:
    error = refused(SUITE[:900])
    assert error.message.startswith("broken JSON")
    assert error.line == SUITE[:900].count("\n") + 1
    assert error.advice == "was the file cut off?"


@given(st.lists(st.lists(st.floats(0, 1e9), max_size=4), min_size=1, max_size=6).filter(any))
def test_the_values_of_all_processes_come_back_as_their_trials(values: list[list[float]]) -> None:
    runs = [{"values": each} if each else {"warmups": [[1, 0.5]]} for each in values]
    reading = read_as("pyperf", text_of(benchmark("a", *runs)))
    assert_sound(reading)
    (measurement,) = reading.run.outcomes[0].measurements
    assert measurement.trials == tuple(tuple(each) for each in values if each)
