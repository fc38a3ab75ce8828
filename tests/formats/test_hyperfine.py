from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_files import CANONICAL, DATA, assert_sound, read_as
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Outcome, Variant

FAILING = (DATA / "hyperfine-failing.json").read_text()


def text_with(**fields: object) -> str:
    """A file with one command, with these fields changed; None takes one out."""
    entry = {"command": "sleep 1", "times": [1.0, 1.25], "exit_codes": [0, 0]} | fields
    kept = {name: value for name, value in entry.items() if value is not None}
    return json.dumps({"results": [kept]}, indent=2)


def only(text: str) -> Outcome:
    (outcome,) = read_as("hyperfine", text).run.outcomes
    return outcome


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_as("hyperfine", text)
    assert caught.value.path == "file"
    return caught.value


def test_each_command_is_a_case_and_each_time_a_trial_of_its_own() -> None:
    reading = read_as("hyperfine", CANONICAL["hyperfine"])
    assert_sound(reading)
    assert [outcome.case for outcome in reading.run.outcomes] == [
        Case(f"sleep 0.0{n}", "performance", "hyperfine", Variant(further=(("n", n),))) for n in "12"
    ]
    (measurement,) = reading.run.outcomes[0].measurements
    assert measurement.metric == "seconds"
    assert measurement.samples == (0.011499987000000001, 0.01430407, 0.011823128)
    assert measurement.trial_values == measurement.samples
    assert reading.lines == (3, 26)
    assert (reading.run.environment.is_stated, reading.cautions) == (False, ())


def test_a_command_that_ended_with_an_error_failed_and_keeps_its_times() -> None:
    passed, failed = read_as("hyperfine", FAILING).run.outcomes
    assert (passed.status, passed.failure) == ("pass", None)
    assert failed.status == "failed"
    assert failed.failure
    assert failed.failure.message == "3 of 3 runs ended with exit code 1"
    assert len(failed.measurements[0].samples) == 3


def test_a_run_that_was_killed_has_no_exit_code() -> None:
    failure = only(text_with(times=[1, 1, 1], exit_codes=[0, None, 137])).failure
    assert failure
    assert failure.message == "2 of 3 runs ended with a signal, exit code 137"


def test_old_files_have_no_exit_codes() -> None:
    assert only(text_with(exit_codes=None)).status == "pass"


def test_the_memory_that_newer_files_have_is_a_metric_of_its_own() -> None:
    seconds, memory = only(text_with(memory_usage_byte=[4096, 8192])).measurements
    assert (seconds.metric, memory.metric) == ("seconds", "bytes")
    assert memory.trial_values == (4096, 8192)


def test_a_parameter_that_is_called_like_an_axis_is_that_axis() -> None:
    parameters = {"device": "cuda", "batch_size": "32", "dynamic": "true", "n": "7"}
    variant = only(text_with(parameters=parameters)).case.variant
    assert variant == Variant("cuda", dynamic=True, batch_size=32, further=(("n", "7"),))


@pytest.mark.parametrize("value", ["0", "032", "many", "-1", "9" * 30, "\u0663"])
def test_a_batch_size_that_is_none_stays_a_parameter(value: str) -> None:
    variant = only(text_with(parameters={"batch_size": value})).case.variant
    assert (variant.batch_size, variant.further) == (None, (("batch_size", value),))


def test_times_of_zero_are_read_with_a_caution() -> None:
    reading = read_as("hyperfine", text_with(times=[0.0, 0.001]))
    assert reading.run.outcomes[0].measurements[0].samples == (0.0, 0.001)
    assert [caution.text for caution in reading.cautions] == [
        "file: times of 0 in 1 of 1 case: too short for the tool that measured them"
    ]


@pytest.mark.parametrize(
    ("fields", "column", "problem"),
    [
        ({"times": []}, "times", "no values"),
        ({"times": None}, "times", "no values"),
        ({"times": [1, -0.5]}, "times", "-0.5 seconds: expected no number below 0"),
        ({"times": [1, "2"]}, "times", "expected finite numbers, found a text"),
        ({"times": [1, None]}, "times", "expected finite numbers, found null"),
        ({"times": [1, float("nan")]}, "times", "expected finite numbers, found a number"),
        ({"times": 3}, "times", "expected a list, found a number"),
        ({"command": None}, "command", "no name"),
        ({"command": "a\nb"}, "command", "a\\nb contains a control character"),
        ({"exit_codes": [0]}, "exit_codes", "2 times, but 1 exit code"),
        ({"exit_codes": [0, "1"]}, "exit_codes", "expected whole numbers"),
        ({"parameters": {"n": [1]}}, "parameters", "expected a text or a number, on one line"),
        ({"parameters": [1]}, "parameters", "expected an object, found a list"),
        ({"memory_usage_byte": [-1, 2]}, "memory_usage_byte", "-1 bytes: expected no number below 0"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(
    fields: dict[str, Any], column: str, problem: str
) -> None:
    error = refused(text_with(**fields))
    assert (error.message, error.line, error.column) == (problem, 3, f"results[0].{column}")


def test_the_same_command_twice_is_refused() -> None:
    results = json.loads(text_with())["results"]
    error = refused(json.dumps({"results": results * 2}, indent=1))
    assert error.message == "hyperfine::sleep 1::performance is already in line 3"
    assert error.line == 14


@pytest.mark.parametrize("text", ['{"results": []}', "{}", '{"results": null}'])
def test_a_file_without_commands_is_refused(text: str) -> None:
    error = refused(text)
    assert (error.message, error.column) == ("no benchmarks", "results")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        (CANONICAL["hyperfine"][:300], 12, "broken JSON"),
        ("[]", 1, "expected an object, found a list"),
        ('{"results": 5}', 1, "expected a list"),
        ('{"results": [5]}', 1, "expected an object, found a number"),
        ('\n{"results": []} x', 2, "unexpected text after the end of the object"),
        (" ", 1, "the file is empty"),
    ],
)
def test_broken_files_are_refused(text: str, line: int, problem: str) -> None:
    error = refused(text)
    assert problem in error.message
    assert error.line == line


@given(
    st.lists(st.lists(st.floats(0, 1e9), min_size=1, max_size=5), min_size=1, max_size=5), st.integers(0, 4)
)
def test_whatever_times_there_are_come_back_as_trials(times: list[list[float]], indent: int) -> None:
    results = [{"command": f"c{number}", "times": each} for number, each in enumerate(times)]
    text = json.dumps({"before": {"results": [1]}, "results": results}, indent=indent or None)
    reading = read_as("hyperfine", text)
    assert_sound(reading)
    assert [o.measurements[0].trial_values for o in reading.run.outcomes] == [tuple(each) for each in times]
    lines = text.split("\n")
    for number, line in enumerate(reading.lines):
        assert f'"c{number}"' in "".join(lines[line - 1 : line + 1])
