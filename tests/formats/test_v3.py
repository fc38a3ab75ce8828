from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from record_strategies import JSON_OBJECTS, JSON_VALUES, NAMES, STATUS_WORDS, v3_runs
from sample_files import V3, V3_RECORDS, assert_sound, read_as, rewrite
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Measurement, Outcome, Revision, Run, Variant
from torchstone.core.run_settings import environment_from
from torchstone.formats import FORMATS

Record = dict[str, Any]


def record(name: str, values: object = (), texts: object = None, **more: object) -> Record:
    metric: Record = {"name": name, "benchmark_values": values}
    if texts is not None:
        metric["extra_info"] = {"benchmark_values": texts}
    return {"model": {"name": "sam", "backend": "inductor"}, "metric": metric, **more}


def lines(*records: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in records)


def outcomes_of(*records: object) -> tuple[Outcome, ...]:
    return read_as("v3", lines(*records)).run.outcomes


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_as("v3", text, "bad.json")
    assert caught.value.path == "bad.json"
    return caught.value


def unordered(records: Sequence[object]) -> list[str]:
    return sorted(json.dumps(_plain_numbers(value), sort_keys=True) for value in records)


def _plain_numbers(value: object) -> object:
    """JSON knows one kind of number: 0 and 0.0 are the same."""
    if isinstance(value, dict):
        return {key: _plain_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def rewritten(*records: object) -> list[object]:
    return [json.loads(line) for line in rewrite("v3", lines(*records)).split("\n")[:-1]]


def test_a_record_names_its_case_and_its_samples() -> None:
    first, second = read_as("v3", V3).run.outcomes
    assert first.case == Case(
        "BertForMaskedLM",
        "performance",
        "huggingface",
        Variant("cuda", "inductor", "inference", "bfloat16", dynamic=False, batch_size=32),
    )
    assert (first.status, first.measurements[0].metric) == ("pass", "speedup")
    assert first.measurements[0].samples == (1.5, 1.25, 1.375)
    assert second.case == Case(
        "sam", "accuracy", variant=Variant("cuda", "inductor", "training", "amp", dynamic=True)
    )
    assert (second.status, second.measurements) == ("fail_accuracy", ())


def test_a_list_one_object_and_one_object_a_line_say_the_same() -> None:
    run = read_as("v3", V3).run
    assert read_as("v3", json.dumps(V3_RECORDS)).run == run
    assert read_as("v3", json.dumps(V3_RECORDS, indent=2)).run == run
    assert read_as("v3", "\n\n".join(json.dumps(value, indent=1) for value in V3_RECORDS)).run == run
    assert read_as("v3", json.dumps(V3_RECORDS[0])).run.outcomes == run.outcomes[:1]


def test_lists_of_lists_of_records_say_the_same() -> None:
    run = read_as("v3", V3).run
    first, *others = V3_RECORDS
    for nested in ([[first], others], [[], [first, others]], [first, *([each] for each in others)]):
        for indent in (None, 2):
            assert read_as("v3", json.dumps(nested, indent=indent)).run == run
    assert read_as("v3", lines([first], others)).run == run
    assert read_as("v3", lines(first, others)).run == run


def test_a_record_in_a_list_of_lists_is_found_in_its_line() -> None:
    good, bad = record("speedup", [1.5]), record("", [1.5])
    assert refused(f"[\n [\n  {json.dumps(good)}\n ],\n\n [\n  {json.dumps(bad)}\n ]\n]\n").line == 7
    assert refused(f"[{json.dumps(good)}]\n[\n{json.dumps(bad)}]\n").line == 3


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[[{}, ]]", 1, 7),
        ("[[{}\n {}]]", 2, 2),
        ("[[{}]", 1, 6),
        ("[[,]]", 1, 3),
        ("[[]]]", 1, 5),
        ("[[]] 1", 1, 6),
    ],
)
def test_lists_that_do_not_end_or_have_no_commas_are_broken(text: str, line: int, column: int) -> None:
    record_text = json.dumps(record("speedup", [1.5]))
    error = refused(text.replace("{}", record_text))
    more = text[: text.rfind("{}") + 2].count("{}") if line == 1 else 0
    assert (error.line, error.column) == (line, column + more * (len(record_text) - 2))
    assert error.message.startswith("broken JSON: ")


def test_lists_nested_without_end_are_refused() -> None:
    assert refused("[" * 1_000_000).message == "lists and objects nested too deeply"


def test_outcomes_know_the_line_their_first_record_starts_in() -> None:
    assert read_as("v3", V3).lines == (1, 2)
    assert read_as(
        "v3", "\n[\n" + json.dumps(V3_RECORDS[0]) + "\n,\n\n" + json.dumps(V3_RECORDS[1]) + "]"
    ).lines == (3, 6)


def test_records_of_one_case_are_one_outcome() -> None:
    (outcome,) = outcomes_of(record("speedup", [1.5]), record("abs_latency", [3, 4]))
    assert outcome.measurements == (Measurement("speedup", (1.5,)), Measurement("abs_latency", (3, 4)))


def test_the_compile_time_of_an_accuracy_record_is_dynamos_own() -> None:
    status = record("accuracy", [], ["pass"])
    for order in ([status, record("compilation_latency", [5])], [record("compilation_latency", [5]), status]):
        (outcome,) = outcomes_of(*order)
        assert outcome.case.probe == "accuracy"
        assert outcome.measurements == (Measurement("compile_seconds", (5,)),)
        assert unordered(rewritten(*order)) == unordered(order)
    (outcome,) = outcomes_of(record("compilation_latency", [5]))
    assert outcome.measurements == (Measurement("compilation_latency", (5,)),)


@pytest.mark.parametrize(
    "records",
    [
        V3_RECORDS,
        [record("accuracy", [], ["pass"]), record("compile_seconds", [5])],
        [record("reason", [], ["no kernel", "no memory"]), record("speedup", [1.5])],
        [record("reason", [], ["no kernel"])],
        [record("reason", None, {"any": "thing"})],
        [{"metric": {"name": "reason", "extra_info": {"benchmark_values": ["text only"]}}}],
        [{"metric": {"name": "accuracy", "extra_info": {"benchmark_values": ["pass"]}}}],
        [{"metric": {"name": "speedup", "benchmark_values": [1]}, "benchmark": {"name": "suite name"}}],
        [
            {
                "metric": {"name": "speedup", "benchmark_values": [1]},
                "benchmark": {"name": "x"},
                "model": {"type": "y"},
            }
        ],
        [{"metric": {"name": "a", "benchmark_values": [1]}, "benchmark": {"name": "x"}, "model": None}],
        [
            {"metric": {"name": "a", "benchmark_values": [1]}, "benchmark": {"name": "x"}},
            {
                "metric": {"name": "b", "benchmark_values": [1]},
                "benchmark": {"name": "x"},
                "model": {"name": "x"},
            },
        ],
        [record("speedup", [0.0])],
        [record("speedup", [0.0]), record("abs_latency", [0.0], note="kept"), record("graph_breaks", [0])],
        [record("abs_latency", [0.0]), record("speedup", [0]), record("why", [], ["OOM"])],
        [record("speedup", [0.0]), record("compilation_latency", [12.5])],
        [record("accuracy", [], ["fail_to_run"]), record("speedup", [0.0])],
        [
            record(
                "speedup",
                [1],
                benchmark={"extra_info": {"batch_size": "032", "is_dynamic": "true", "tag": "a"}},
            )
        ],
        [
            record(
                "speedup", [1], benchmark={"extra_info": {"batch_size": 32, "is_dynamic": None, "ranks": ""}}
            )
        ],
        [record("speedup", [1], benchmark={"mode": None, "dtype": "", "extra_info": {}})],
        [record("speedup", [1], model={"name": "a", "origins": ["one", "two"]})],
        [record("speedup", [1], model={"name": "a", "origins": ["one\ntwo"]})],
        [record("speedup", [1], model={"name": "a", "origins": []})],
    ],
)
def test_reading_and_writing_keeps_every_field_and_adds_none(records: list[Record]) -> None:
    assert unordered(rewritten(*records)) == unordered(records)


def test_text_values_are_kept_and_are_no_measurement() -> None:
    (outcome,) = outcomes_of(record("reason", [], ["no kernel"]), record("speedup", [1.5]))
    assert outcome.measurements == (Measurement("speedup", (1.5,)),)
    (alone,) = outcomes_of(record("reason", [], ["no kernel"]))
    assert (alone.measurements, alone.value("reason")) == ((), None)


@pytest.mark.parametrize(
    "records",
    [
        [record("speedup", [0.0])],
        [record("abs_latency", [0.0]), record("speedup", [0])],
        [record("speedup", [0.0]), record("compilation_latency", [12.5])],
    ],
)
def test_a_speedup_of_zero_is_a_failure_wherever_it_stands(records: list[Record]) -> None:
    (outcome,) = outcomes_of(*records)
    assert (outcome.status, outcome.measurements) == ("failed", ())


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([], [""]),
        ([], []),
        ([], ["pass", "pass"]),
        ([], [1]),
        ([], "pass"),
        ([], ["two\nlines"]),
        ([], ["x" * 101]),
        ([0.97], None),
        ([0.97], ["pass"]),
        ([], None),
    ],
)
def test_an_accuracy_without_one_status_is_refused(values: list[float], texts: object) -> None:
    error = refused(lines(record("speedup", [1.0]), record("accuracy", values, texts)))
    assert (error.line, error.column) == (2, "metric.extra_info.benchmark_values")


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("[]", 1, None),
        ("5", 1, None),
        ("[5]", 1, None),
        ("{}", 1, "metric.name"),
        ('{"metric": {"name": ""}}', 1, "metric.name"),
        ('{"metric": {"name": 5}}', 1, "metric.name"),
        ('{"metric": []}', 1, "metric"),
        ('\n{"metric": {"name": "a"}}', 2, "metric.benchmark_values"),
        ('{"metric": {"name": "a", "benchmark_values": ["1"]}}', 1, "metric.benchmark_values"),
        ('{"metric": {"name": "a", "benchmark_values": [true]}}', 1, "metric.benchmark_values"),
        ('{"metric": {"name": "a", "benchmark_values": 1}}', 1, "metric.benchmark_values"),
        ('{"metric": {"name": "a\\nb", "benchmark_values": [1]}}', 1, "metric.name"),
        (
            '{"metric": {"name": "a", "benchmark_values": [1]}, "model": {"name": "a\\u0007"}}',
            1,
            "model.name",
        ),
        ('{"metric": {"name": "a", "benchmark_values": [NaN]}}', 1, None),
        ('{"metric": {"name": "a", "benchmark_values": [1e999]}}', 1, None),
        ('{"metric": {"name": "a", "benchmark_values": [-Infinity]}}', 1, None),
        ('{"metric": {"name": "a", "benchmark_values": [1e308, 1e308]}}', 1, "metric.benchmark_values"),
        ('{"metric": {"name": "a", "benchmark_values": [1' + "0" * 400 + "]}}", 1, "metric.benchmark_values"),
        ('{"metric": {"name": "a", "benchmark_values": [1' + "0" * 5000 + "]}}", 1, None),
        ('{"metric": {"name": "a", "name": "b", "benchmark_values": [1]}}', 1, None),
        ('{"metric": {"name": "\\ud800", "benchmark_values": [1]}}', 1, None),
        ('{"metric": {"name": "a", "benchmark_values": [1]}, "x": 1e999}', 1, None),
        ('{"metric": {"name": "a", "benchmark_values": [1]}}\n{"metric"', 2, 10),
        ('[{"metric": {"name": "a", "benchmark_values": [1]}},\n]', 2, 1),
        ('[{"metric": {"name": "a", "benchmark_values": [1]}}\n{}]', 2, 1),
        ('[{"metric": {"name": "a", "benchmark_values": [1]}}]\nx', 2, 1),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(
    text: str, line: int, column: str | int | None
) -> None:
    error = refused(text)
    assert (error.line, error.column) == (line, column)


@pytest.mark.parametrize("joined", ["\n", ","])
def test_the_same_metric_twice_names_both_lines(joined: str) -> None:
    twice = joined.join([json.dumps(record("speedup", [1])), json.dumps(record("speedup", [2]))])
    error = refused(f"\n[{twice}]" if joined == "," else f"\n{twice}")
    assert error.line == (2 if joined == "," else 3)
    assert "already in line 2" in error.message


@pytest.mark.parametrize("texts", [["pass"], ["no kernel"]])
def test_the_same_text_twice_is_refused_too(texts: list[str]) -> None:
    name = "accuracy" if texts == ["pass"] else "reason"
    error = refused(lines(record("speedup", [1]), record(name, [], texts), record(name, [], texts)))
    assert error.line == 3
    assert "already in line 2" in error.message


def test_two_names_of_one_compile_time_are_refused() -> None:
    both = [record("compilation_latency", [1]), record("compile_seconds", [1])]
    assert refused(lines(record("accuracy", [], ["pass"]), *both)).line == 3
    assert len(outcomes_of(*both)[0].measurements) == 2


def test_deep_nesting_is_refused_before_it_exhausts_the_stack() -> None:
    deep = '{"metric": {"name": "a", "benchmark_values": [1]}, "x": ' + "[" * 500 + "]" * 500 + "}"
    assert refused(deep).message == "lists and objects nested too deeply"
    assert refused('{"metric": ' + "[" * 100_000).message == "lists and objects nested too deeply"
    wide = {**record("speedup", [1]), "x": [[{}] for _ in range(1000)]}
    assert unordered(rewritten(wide)) == unordered([wide])


def test_many_keys_with_one_repeated_are_refused_at_once() -> None:
    keys = ", ".join(f'"{number}": 0' for number in range(100_000))
    assert "duplicate key" in refused(f'{{{keys}, "99999": 0}}').message


def test_a_run_writes_its_revision_and_versions() -> None:
    case = Case("a", "performance", variant=Variant(batch_size=4))
    outcome = Outcome(case, "pass", (Measurement("speedup", (1.5,)),))
    environment = environment_from({"versions": {"torch": "2.9.0"}})
    run = Run("x", (case,), (outcome,), Revision("0123abc", "main"), environment)
    assert json.loads(FORMATS["v3"].write(run)) == {
        "head_sha": "0123abc",
        "head_branch": "main",
        "dependencies": {"torch": {"version": "2.9.0"}},
        "benchmark": {"extra_info": {"batch_size": "4"}},
        "model": {"name": "a"},
        "metric": {"name": "speedup", "benchmark_values": [1.5]},
    }


def test_a_run_writes_the_machine_that_it_was_measured_on() -> None:
    case = Case("a", "performance")
    environment = {
        "device": "cuda:0",
        "machine": {"cpu": {"model": "EPYC"}, "cores": {"logical": 16}, "memory": {"total": 64 * 10**9}},
        "accelerators": [{"name": "H200", "memory": 150 * 10**9, "driver": "580"}] * 2,
        "software": {"python": {"version": "3.12.1"}},
        "threads": 8,
        "fingerprint": "0123abc",
    }
    run = Run(
        "x",
        (case,),
        (Outcome(case, "pass", (Measurement("speedup", (1.5,)),)),),
        environment=environment_from(environment),
    )
    (runner,) = json.loads(FORMATS["v3"].write(run))["runners"]
    assert runner == {
        "name": "cuda",
        "type": "H200",
        "cpu_info": "EPYC",
        "cpu_count": 16,
        "avail_mem_in_gb": 64,
        "gpu_info": "H200",
        "gpu_count": 2,
        "avail_gpu_mem_in_gb": 150,
        "extra_info": {"fingerprint": "0123abc", "driver": "580", "python": "3.12.1", "threads": "8"},
    }
    on_cpu = structs.replace(
        run, environment=environment_from({"device": "cpu", "machine": {"cpu": {"model": "EPYC"}}})
    )
    (runner,) = json.loads(FORMATS["v3"].write(on_cpu))["runners"]
    assert runner == {"name": "cpu", "type": "EPYC", "cpu_info": "EPYC"}


@pytest.mark.parametrize(
    "environment", [{"machine": {"cpu": 5}, "accelerators": [], "software": {"python": []}}, {}]
)
def test_an_environment_that_says_nothing_of_use_does_not_stop_the_writer(
    environment: dict[str, Any],
) -> None:
    case = Case("a", "performance")
    run = Run(
        "x",
        (case,),
        (Outcome(case, "pass", (Measurement("speedup", (1.5,)),)),),
        environment=environment_from(environment),
    )
    assert json.loads(FORMATS["v3"].write(run)).keys() == {"model", "metric"}


@pytest.mark.parametrize(
    "kept", [5, [], "x", {"metric": 5}, {"v3": 5}, None, [[5]], [{"v3": {"metric": {}}}]]
)
def test_what_another_program_left_in_a_run_file_does_not_stop_the_writer(kept: object) -> None:
    extra = {"v3": kept, "v3_absent": kept, "v3_others": kept}
    case = Case("a", "performance")
    outcome = Outcome(case, "pass", (Measurement("speedup", (1.5,), extra=extra),), extra=extra)
    for line in FORMATS["v3"].write(Run("x", (case,), (outcome,))).splitlines():
        json.loads(line)


@settings(deadline=None)
@given(v3_runs())
def test_a_run_that_is_written_reads_the_same(run: Run) -> None:
    assert read_as("v3", FORMATS["v3"].write(run)).run == run


VALUES = st.lists(st.floats(-1e300, 1e300) | st.integers(-(10**20), 10**20), min_size=1, max_size=3)
INFO = st.dictionaries(
    st.sampled_from(["device", "is_dynamic", "batch_size", "ranks", "strategy", "tag", "own"]),
    NAMES | st.sampled_from(["true", "False", "0", "32", "1\n2", ""]) | JSON_VALUES,
    max_size=4,
)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Record]:
    return st.fixed_dictionaries({}, optional={**fields, "type": JSON_VALUES})


RECORDS = st.fixed_dictionaries(
    {
        "metric": st.one_of(
            st.builds(
                lambda values, more: {**more, "name": "m", "benchmark_values": values}, VALUES, JSON_OBJECTS
            ),
            st.builds(
                lambda status: {"name": "accuracy", "extra_info": {"benchmark_values": [status]}},
                STATUS_WORDS,
            ),
            st.just({"name": "speedup", "benchmark_values": [0.0], "target_value": 1}),
            st.just({"name": "why", "extra_info": {"benchmark_values": ["a", "b"], "more": []}}),
        )
    },
    optional={
        "benchmark": st.none()
        | optional(name=NAMES, mode=NAMES | st.none(), dtype=NAMES, extra_info=INFO | st.none()),
        "model": st.none()
        | optional(
            name=NAMES | st.just(""), backend=NAMES, origins=st.lists(NAMES | st.integers(), max_size=2)
        ),
        "runners": JSON_VALUES,
        "dependencies": JSON_VALUES,
    },
)


@settings(deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_reading_and_writing_keeps_every_field_of_any_record(records: list[Record]) -> None:
    problem = ""
    try:
        reading = read_as("v3", lines(*records))
    except InputError as error:
        problem = error.message
    if problem:
        assert "already in line" in problem or "control character" in problem
        return
    assert_sound(reading)
    assert unordered(rewritten(*records)) == unordered(records)
    assert read_as("v3", FORMATS["v3"].write(reading.run)).run == reading.run


def test_accuracy_and_performance_of_one_model_in_one_file_are_two_cases() -> None:
    records = [
        {
            "model": {"name": "m"},
            "metric": {"name": "accuracy", "extra_info": {"benchmark_values": ["pass"]}},
        },
        {"model": {"name": "m"}, "metric": {"name": "graph_breaks", "benchmark_values": [2]}},
        {"model": {"name": "m"}, "metric": {"name": "speedup", "benchmark_values": [1.5]}},
        {"model": {"name": "m"}, "metric": {"name": "compilation_latency", "benchmark_values": [9.0]}},
    ]
    reading = read_as("v3", "\n".join(map(json.dumps, records)))
    found = {o.case.probe: (o.status, [m.metric for m in o.measurements]) for o in reading.run.outcomes}
    assert found == {
        "accuracy": ("pass", ["graph_breaks"]),
        "performance": ("pass", ["speedup", "compilation_latency"]),
    }
    assert list(reading.lines) == [1, 3]
