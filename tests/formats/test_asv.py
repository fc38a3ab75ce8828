from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_files import CANONICAL, DATA, assert_sound, read_as
from torchstone.core.environments import differences
from torchstone.core.errors import InputError
from torchstone.core.records import Outcome, Reading, Revision

WITHOUT_SAMPLES = (DATA / "asv-without-samples.json").read_text()
COLUMNS = ["result", "params", "version", "started_at", "duration", "stats_q_25", "samples"]


def text_of(benchmarks: dict[str, Any], **fields: object) -> str:
    """A file of version 2."""
    whole = {"commit_hash": "abc", "result_columns": COLUMNS, "results": benchmarks, "version": 2}
    return json.dumps(whole | fields)


def old_text_of(results: dict[str, Any], **fields: object) -> str:
    """A file of version 1."""
    return json.dumps({"commit_hash": "abc", "results": results, "version": 1} | fields)


def by_name(reading: Reading, name: str) -> list[Outcome]:
    return [outcome for outcome in reading.run.outcomes if outcome.case.benchmark == name]


def only(text: str) -> Outcome:
    (outcome,) = read_as("asv", text).run.outcomes
    return outcome


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_as("asv", text)
    assert caught.value.path == "file"
    return caught.value


def test_each_combination_of_parameters_is_a_case_of_one_trial() -> None:
    reading = read_as("asv", CANONICAL["asv"])
    assert_sound(reading)
    cases = by_name(reading, "bench.Sorting.time_sorted")
    assert [outcome.case.variant.further for outcome in cases] == [
        (("param1", size), ("param2", kind)) for size in ("10", "100") for kind in ("list", "tuple")
    ]
    found = json.loads(CANONICAL["asv"])["results"]["bench.Sorting.time_sorted"]
    for outcome, samples in zip(cases[:3], found[11][:3], strict=True):
        (measurement,) = outcome.measurements
        assert (measurement.metric, measurement.samples) == ("seconds", tuple(samples))
        assert len(measurement.trials) == 1
        assert measurement.facts() == {"benchmark_version": found[2]}
    assert reading.cautions == ()


def test_what_asv_could_not_measure_is_not_available_and_what_broke_failed() -> None:
    reading = read_as("asv", CANONICAL["asv"])
    skipped = by_name(reading, "bench.Sorting.time_sorted")[-1]
    (broken,) = by_name(reading, "bench.time_fails")
    (no_number,) = by_name(reading, "bench.track_nan")
    assert [o.status for o in (skipped, broken, no_number)] == ["not_available", "failed", "not_available"]
    for outcome in (skipped, broken, no_number):
        assert outcome.measurements == ()
        assert outcome.failure


def test_the_name_says_what_a_number_means() -> None:
    reading = read_as("asv", CANONICAL["asv"])
    metrics = {o.case.benchmark: o.measurements[0].metric for o in reading.run.outcomes if o.measurements}
    assert metrics == {
        "bench.Sorting.time_sorted": "seconds",
        "bench.Sorting.peakmem_sorted": "bytes",
        "bench.mem_list": "bytes",
        "bench.time_join": "seconds",
        "bench.timeraw_import": "seconds",
        "bench.track_length": "tracked_value",
    }


@pytest.mark.parametrize(
    ("name", "more", "metric"),
    [
        ("m.TimeSorting", [], "seconds"),
        ("m.TimerawImport", [], "seconds"),
        ("m.PeakMemOfIt", [], "bytes"),
        ("m.MemOfIt", [], "bytes"),
        ("m.TrackIt", [], "tracked_value"),
        ("its own name", [None, None, None, [0.5]], "seconds"),
        ("its own name", [], "tracked_value"),
        ("m.timely", [], "tracked_value"),
    ],
)
def test_other_names_that_asv_knows_are_known_too(name: str, more: list[Any], metric: str) -> None:
    outcome = only(text_of({name: [[1.5], [], *more]}))
    assert outcome.measurements[0].metric == metric


def test_without_samples_the_result_is_the_one_sample_and_a_caution_says_so() -> None:
    reading = read_as("asv", WITHOUT_SAMPLES)
    (outcome,) = by_name(reading, "bench.time_join")
    result = json.loads(WITHOUT_SAMPLES)["results"]["bench.time_join"][0]
    assert outcome.measurements[0].samples == tuple(result)
    (caution,) = reading.cautions
    assert caution.text.startswith("file: 1 of 8 cases have a single number instead of samples")
    assert "--record-samples" in caution.text


def test_a_tracked_number_may_be_negative() -> None:
    assert only(text_of({"track_a": [[-2], []]})).measurements[0].samples == (-2,)


def test_commit_and_environment_have_the_form_of_a_run() -> None:
    run = read_as("asv", CANONICAL["asv"]).run
    assert run.revision == Revision(json.loads(CANONICAL["asv"])["commit_hash"])
    assert run.environment.to_mapping() == {
        "machine": {
            "host": "bench1",
            "os": "Linux 6.1",
            "architecture": "x86_64",
            "cpu": {"model": "AMD EPYC"},
            "cores": {"logical": 2},
        },
        "software": {"python": {"version": "3.11"}},
        "versions": {"numpy": "2.1.0"},
        "variables": {},
    }


def test_files_of_two_environments_are_told_apart() -> None:
    one = read_as("asv", CANONICAL["asv"]).run.environment
    other = read_as("asv", CANONICAL["asv"].replace("2.1.0", "2.2.0").replace("AMD EPYC", "M4"))
    assert differences(other.run.environment, one) == ["cpu is M4, was AMD EPYC", "numpy is 2.2.0, was 2.1.0"]


@pytest.mark.parametrize(
    ("python", "version"),
    [("3.9", "3.9"), ("pypy3.10", "pypy3.10"), ("/usr/bin/python3", None), ("", None), (None, None)],
)
def test_a_python_that_is_a_path_tells_no_version(python: str | None, version: str | None) -> None:
    environment = read_as("asv", text_of({"time_a": [[1], []]}, python=python)).run.environment
    assert environment.software == ({"python": {"version": version}} if version else {})


def test_variables_and_pinned_libraries_count() -> None:
    text = text_of(
        {"time_a": [[1], []]},
        requirements={"pip+numpy": "2.1", "six": ""},
        env_vars={"OMP_NUM_THREADS": "1"},
    )
    environment = read_as("asv", text).run.environment
    assert environment.to_mapping() == {
        "versions": {"pip+numpy": "2.1"},
        "variables": {"OMP_NUM_THREADS": "1"},
    }


def test_texts_lose_their_quotes_unless_two_values_would_become_one() -> None:
    text = text_of({"time_a": [[1, 2, 3, 4], [["'a'", '"b"'], ["10", "'10'"]]]})
    variants = [outcome.case.variant.axes() for outcome in read_as("asv", text).run.outcomes]
    assert [tuple(axes.values()) for axes in variants] == [
        ("a", "10"),
        ("a", "'10'"),
        ("b", "10"),
        ("b", "'10'"),
    ]


def test_a_benchmark_that_broke_as_a_whole_failed_in_every_combination() -> None:
    reading = read_as("asv", text_of({"time_a": [None, [["1", "2"], ["3"]]]}))
    assert [outcome.status for outcome in reading.run.outcomes] == ["failed", "failed"]


def test_the_first_version_is_read_too() -> None:
    text = old_text_of(
        {
            "time_number": 0.5,
            "time_broken": None,
            "time_samples": {"result": [0.5], "samples": [[0.25, 0.5, 0.75]], "stats": [{"repeat": 3}]},
            "time_flat": {"result": 0.5, "samples": [0.25, 0.5, 0.75], "stats": {"repeat": 3}},
            "time_params": {"result": [1.0, None], "params": [["1", "2"]]},
        },
        benchmark_version={"time_samples": "f00"},
    )
    reading = read_as("asv", text)
    assert_sound(reading)
    samples = [tuple(m.samples for m in outcome.measurements) for outcome in reading.run.outcomes]
    three = (0.25, 0.5, 0.75)
    assert samples == [((0.5,),), (), (three,), (three,), ((1.0,),), ()]
    assert reading.run.outcomes[2].measurements[0].facts() == {"benchmark_version": "f00"}


@pytest.mark.parametrize("version", [0, 3, "2", None, True, 2.0])
def test_another_version_is_refused(version: object) -> None:
    error = refused(text_of({"time_a": [[1], []]}, version=version))
    assert error.message.endswith("of asv's result files, expected 1 or 2")
    assert error.column == "version"


@pytest.mark.parametrize(
    ("row", "column", "problem"),
    [
        ([[1, 2], []], ".result", "expected 1, one for each combination of parameters, found 2"),
        ([[1], [["1", "2"]]], ".result", "expected 2, one for each combination of parameters, found 1"),
        ([[1], []] + [None] * 4 + [[[1], [2]]], ".samples", "expected 1, one for each combination of parameters, found 2"),
        ([[1], []] + [None] * 4 + [["x"]], ".samples", "expected a list of samples for each combination of parameters"),
        ([[1], []] + [None] * 4 + [[["x"]]], ".samples", "expected finite numbers"),
        ([[1], []] + [None] * 4 + [[[1, -1]]], ".samples", "-1 seconds: expected no number below 0"),
        ([["fast"], []], ".result", "expected a finite number, null or NaN"),
        ([[True], []], ".result", "expected a finite number, null or NaN"),
        ([[float("inf")], []], ".result", "expected a finite number, null or NaN"),
        ([[-0.5], []], ".result", "-0.5 seconds: expected no number below 0"),
        ([[1], [5]], ".params", "expected a list of texts for each parameter"),
        ([[1], [[5]]], ".params", "expected a list of texts for each parameter"),
        ([[1], 5], ".params", "expected a list, found a number"),
        ([None, [["1"] * 1001, ["2"] * 1000]], ".params", "more combinations of parameters than can be"),
        ([[1]] * 8, "", "expected a list, not longer than result_columns"),
        (5, "", "expected a list, not longer than result_columns"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_with_its_place(row: Any, column: str, problem: str) -> None:  # noqa: ANN401
    error = refused(text_of({"m.time_a": row}))
    assert (error.message, error.line, error.column) == (problem, 1, f"results.m.time_a{column}")


@pytest.mark.parametrize(
    ("fields", "column"),
    [
        ({"result_columns": ["params"]}, "result_columns"),
        ({"result_columns": None}, "result_columns"),
        ({"result_columns": ["result", 5]}, "result_columns"),
        ({"results": []}, "results"),
        ({"commit_hash": 5}, "commit_hash"),
        ({"params": "bench1"}, "params"),
    ],
)
def test_a_file_of_another_shape_is_refused(fields: dict[str, Any], column: str) -> None:
    assert refused(text_of({"time_a": [[1], []]}, **fields)).column == column


def test_a_file_without_benchmarks_is_refused() -> None:
    error = refused(text_of({}))
    assert (error.message, error.column) == ("no benchmarks", "results")


def test_the_same_value_of_a_parameter_twice_is_refused() -> None:
    assert "is already in line 1" in refused(text_of({"time_a": [[1, 2], [["5", "5"]]]})).message


def test_a_file_that_was_cut_off_is_refused() -> None:
    error = refused(CANONICAL["asv"][:1000])
    assert error.message.startswith("broken JSON")
    assert (error.line, error.advice) == (1, "was the file cut off?")


@given(
    st.lists(st.lists(st.text("ab1'", min_size=1), min_size=1, max_size=3, unique=True), max_size=3),
    st.data(),
)
def test_every_combination_gets_its_own_number(params: list[list[str]], data: st.DataObject) -> None:
    size = len(list(product(*params)))
    numbers = st.none() | st.floats(0, 1e9) | st.just(float("nan"))
    results = data.draw(st.lists(numbers, min_size=size, max_size=size))
    reading = read_as("asv", text_of({"time_a": [results, params]}))
    assert_sound(reading)
    for outcome, result in zip(reading.run.outcomes, results, strict=True):
        is_number = result is not None and result == result  # noqa: PLR0124  (NaN is not)
        assert outcome.value("seconds") == (result if is_number else None)
        assert (outcome.status == "pass") is is_number
