from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_files import CANONICAL, DATA, assert_sound, read_as
from torchstone.core.environments import differences
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Outcome, Revision, Variant
from torchstone.core.text.safe_text import is_plain

KIND = "pytest-benchmark"
WITHOUT_DATA = (DATA / "pytest-benchmark-without-data.json").read_text()


def text_with(*entries: dict[str, Any], **fields: object) -> str:
    whole = {"machine_info": {}, "commit_info": {}, "benchmarks": list(entries), "version": "5.1.0"}
    return json.dumps(whole | fields, indent=4)


def entry(name: str = "test_a.py::test_a", **fields: object) -> dict[str, Any]:
    return {"fullname": name, "stats": {"data": [0.5, 0.25]}} | fields


def entry_with(params: dict[str, Any] | None, param: str | None) -> dict[str, Any]:
    name = f"test_a.py::test_a[{param}]" if param else "test_a.py::test_a"
    return entry(name, params=params, param=param)


def only(*entries: dict[str, Any]) -> Outcome:
    (outcome,) = read_as(KIND, text_with(*entries)).run.outcomes
    return outcome


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_as(KIND, text)
    assert caught.value.path == "file"
    return caught.value


def test_each_test_with_its_parameters_is_a_case() -> None:
    reading = read_as(KIND, CANONICAL[KIND])
    assert_sound(reading)
    assert [outcome.case.id for outcome in reading.run.outcomes] == [
        "pytest-benchmark::test_sort.py%3A%3Atest_sort[kind=list,size=10]::performance",
        "pytest-benchmark::test_sort.py%3A%3Atest_sort[kind=tuple,size=100]::performance",
        "pytest-benchmark::test_sort.py%3A%3Atest_make[param=made0]::performance",
        "joining::test_sort.py%3A%3Atest_join::performance",
    ]
    lines = CANONICAL[KIND].splitlines()
    assert [lines[line].split(":")[0].strip() for line in reading.lines] == ['"group"'] * 4


def test_all_rounds_of_a_test_are_one_trial() -> None:
    reading = read_as(KIND, CANONICAL[KIND])
    for outcome, found in zip(reading.run.outcomes, json.loads(CANONICAL[KIND])["benchmarks"], strict=True):
        (measurement,) = outcome.measurements
        assert measurement.metric == "seconds"
        assert measurement.samples == tuple(found["stats"]["data"])
        assert len(measurement.trials) == 1
    assert reading.cautions == ()


def test_without_data_the_median_is_the_one_sample_and_a_caution_says_so() -> None:
    reading = read_as(KIND, WITHOUT_DATA)
    medians = [found["stats"]["median"] for found in json.loads(WITHOUT_DATA)["benchmarks"]]
    assert [outcome.measurements[0].samples for outcome in reading.run.outcomes] == [(m,) for m in medians]
    (caution,) = reading.cautions
    assert caution.text.startswith("file: 2 of 2 cases have a single number instead of samples")
    assert "--benchmark-save-data" in caution.text


def test_without_a_median_it_is_the_mean() -> None:
    assert only(entry(stats={"mean": 0.5})).measurements[0].samples == (0.5,)


def test_commit_and_machine_have_the_form_of_a_run() -> None:
    run = read_as(KIND, CANONICAL[KIND]).run
    assert run.revision == Revision(json.loads(CANONICAL[KIND])["commit_info"]["id"], "master", dirty=False)
    assert run.environment.to_mapping() == {
        "machine": {
            "host": "host",
            "os": "Linux",
            "kernel": "6.1.0",
            "architecture": "x86_64",
            "cpu": {"model": "AMD EPYC", "family": "AuthenticAMD 25.17"},
            "cores": {"logical": 2},
        },
        "software": {"python": {"version": "3.11.7", "implementation": "CPython"}},
    }


def test_files_of_two_machines_are_told_apart() -> None:
    one = read_as(KIND, CANONICAL[KIND]).run.environment
    text = CANONICAL[KIND].replace("AMD EPYC", "M4").replace('"machine": "x86_64"', '"machine": "arm64"')
    other = read_as(KIND, text).run.environment
    assert differences(other, one) == ["cpu is M4, was AMD EPYC", "architecture is arm64, was x86_64"]


@pytest.mark.parametrize(
    ("commit", "revision"),
    [
        ({"id": "unversioned", "branch": "(unknown)", "dirty": False}, Revision()),
        ({"id": "unknown", "error": "no git", "dirty": True}, Revision()),
        ({"id": "abc", "branch": "(detached head)", "dirty": True}, Revision("abc", dirty=True)),
        (None, Revision()),
    ],
)
def test_a_commit_that_is_not_known_is_no_revision(commit: object, revision: Revision) -> None:
    assert read_as(KIND, text_with(entry(), commit_info=commit)).run.revision == revision


@pytest.mark.parametrize(
    ("params", "param", "variant"),
    [
        ({"size": 10}, "10", Variant(further=(("size", "10"),))),
        ({"b": "x", "a": None}, "x-None", Variant(further=(("a", "None"), ("b", "x")))),
        ({"dtype": "float32", "device": "cpu"}, "float32-cpu", Variant("cpu", dtype="float32")),
        ({"batch_size": 8, "dynamic": True}, "8-True", Variant(dynamic=True, batch_size=8)),
        ({"size": 10}, "small", Variant(further=(("param", "small"),))),
        ({"items": [1, 2]}, "items0", Variant(further=(("param", "items0"),))),
        ({"made": "UNSERIALIZABLE[<object at 0x7f>]"}, "made0", Variant(further=(("param", "made0"),))),
        (None, "10", Variant(further=(("param", "10"),))),
        (None, None, Variant()),
    ],
)
def test_parameters_are_axes_where_the_id_is_made_of_them(
    params: dict[str, Any] | None, param: str | None, variant: Variant
) -> None:
    case = only(entry_with(params, param)).case
    assert case == Case("test_a.py::test_a", "performance", KIND, variant)


def test_two_ids_for_the_same_value_are_two_cases() -> None:
    text = text_with(entry_with({"size": 1}, "one"), entry_with({"size": 1}, "uno"))
    assert len(read_as(KIND, text).run.plan) == 2


@pytest.mark.parametrize(
    ("fields", "column", "problem"),
    [
        ({"fullname": None}, "fullname", "no name"),
        ({"fullname": 3}, "fullname", "expected a text, found a number"),
        ({"stats": None}, "stats.mean", "expected finite numbers"),
        ({"stats": []}, "stats", "expected an object, found a list"),
        ({"stats": {"data": 1}}, "stats.data", "expected a list, found a number"),
        ({"stats": {"data": ["1"]}}, "stats.data", "expected finite numbers"),
        ({"stats": {"data": [float("nan")]}}, "stats.data", "expected finite numbers"),
        ({"stats": {"data": [1, -0.25]}}, "stats.data", "-0.25 seconds: expected no number below 0"),
        ({"stats": {"data": [], "median": float("inf")}}, "stats.median", "expected finite numbers"),
        ({"stats": {"median": -1}}, "stats.median", "-1 seconds: expected no number below 0"),
        ({"group": ["a"]}, "group", "expected a text, found a list"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(
    fields: dict[str, Any], column: str, problem: str
) -> None:
    error = refused(text_with(entry("test_b"), entry(**fields)))
    assert (error.message, error.line, error.column) == (problem, 14, f"benchmarks[1].{column}")


def test_numbers_that_are_not_read_may_be_infinite() -> None:
    assert only(entry(stats={"data": [0.0], "ops": float("inf")})).measurements[0].samples == (0.0,)


def test_the_same_test_twice_is_refused() -> None:
    assert "is already in line 5" in refused(text_with(entry(), entry())).message


@pytest.mark.parametrize("benchmarks", [[], None])
def test_a_file_without_benchmarks_is_refused(benchmarks: object) -> None:
    error = refused(text_with(benchmarks=benchmarks))
    assert (error.message, error.column) == ("no benchmarks", "benchmarks")
    assert error.advice == "did the job that wrote it fail?"


def test_a_file_that_was_cut_off_is_refused_with_the_line() -> None:
    text = CANONICAL[KIND][:2000]
    error = refused(text)
    assert error.message.startswith("broken JSON")
    assert error.line == text.count("\n") + 1
    assert error.advice == "was the file cut off?"


@given(st.dictionaries(st.from_regex(r"[a-z_]+\Z"), st.integers() | st.booleans() | st.text(max_size=4)))
def test_whatever_the_parameters_are_the_case_is_sound(params: dict[str, Any]) -> None:
    param = "-".join(map(str, params.values()))
    if not is_plain(param):
        param = "id0"
    assert_sound(read_as(KIND, text_with(entry_with(params, param))))
