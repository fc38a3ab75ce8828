"""The JSON of PyTorch's compile-cache benchmark: the shape of every record, and files that do not have it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sample_files import CACHEBENCH, read_as, rewrite
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import InputError
from torchstone.core.records import Case, Failure, Measurement, Outcome, Run, Variant
from torchstone.formats import FORMATS
from torchstone.formats.torch.cachebench_json import METRICS

RECORDS: list[dict[str, Any]] = json.loads(CACHEBENCH)

SCHEMA: dict[str, Any] = {
    "benchmark": {"name": str, "mode": str, "extra_info": {"is_dynamic": bool, "device": str}},
    "model": {"name": str, "backend": str, "origins": list},
    "metric": {"name": str, "type": str, "benchmark_values": list},
}
"""Exactly these fields, with exactly these types: what the original's file has."""


def assert_has_shape(value: object, shape: Any) -> None:  # noqa: ANN401  (a type, or a dictionary of shapes)
    if isinstance(shape, type):
        assert type(value) is shape
        return
    assert isinstance(value, dict)
    assert list(value) == list(shape)
    for key, inner in shape.items():
        assert_has_shape(value[key], inner)


def assert_is_cachebench(records: object) -> None:
    assert isinstance(records, list)
    for record in records:
        assert_has_shape(record, SCHEMA)
        assert record["benchmark"]["name"] == "TorchCache Benchmark"
        assert record["benchmark"]["mode"] in {"inference", "training"}
        assert record["metric"]["type"] == "OSS model"
        assert all(type(each) is float for each in record["metric"]["benchmark_values"])
    assert [record["metric"]["name"] for record in records] == list(METRICS) * (len(records) // 3)


def outcome(status: str = "pass", **changes: tuple[float, ...]) -> Outcome:
    samples = {
        "cold_compile_seconds": (4.0, 5.0),
        "warm_compile_seconds": (1.0, 2.0),
        "portable_compile_seconds": (3.0, 3.0),
        "warm_saved": (200 / 3,),
    } | changes
    case = Case(
        "net", "compile_cache", "huggingface", Variant("cpu", "inductor", "inference", "bfloat16", None, 2)
    )
    failure = None if status == "pass" else Failure("compile", "no")
    return Outcome(case, status, tuple(Measurement(name, each) for name, each in samples.items()), failure)


def written(*outcomes: Outcome) -> str:
    return FORMATS["cachebench"].write(Run("r", tuple(each.case for each in outcomes), outcomes))


def test_what_is_written_has_exactly_the_originals_shape() -> None:
    records = json.loads(written(outcome()))
    assert_is_cachebench(records)
    assert [record["metric"]["benchmark_values"] for record in records] == [[4.0, 5.0], [1.0, 2.0], [200 / 3]]
    assert records[0]["model"] == {"name": "net", "backend": "inductor", "origins": ["huggingface"]}
    assert records[0]["benchmark"]["extra_info"] == {"is_dynamic": False, "device": "cpu"}


def test_the_samples_of_the_tests_have_that_shape_too() -> None:
    assert_is_cachebench(RECORDS)


def test_a_model_that_failed_is_not_written() -> None:
    assert written(outcome("fail_to_run")) == ""


def test_read_and_written_again_it_is_the_same() -> None:
    assert rewrite("cachebench", CACHEBENCH) == CACHEBENCH


def test_what_was_read() -> None:
    reading = read_as("cachebench", CACHEBENCH)
    first, second = reading.run.outcomes
    assert first.case == Case(
        "resnet50", "compile_cache", "torchbench", Variant("cuda", "inductor", "training")
    )
    assert second.case.variant == Variant("cuda", "inductor", "inference", dynamic=True)
    assert first.measurements[0] == Measurement(
        "cold_compile_seconds", (41.5, 40.25), MeasurementDetails(definition="warm_up_calls")
    )


def changed(path: str, value: object) -> str:
    records = json.loads(CACHEBENCH)
    *inner, last = path.split(".")
    target = records[1]
    for name in inner:
        target = target[name]
    target[last] = value
    return json.dumps(records)


@pytest.mark.parametrize(
    ("path", "value", "column"),
    [
        ("benchmark.name", "Another", "benchmark.name"),
        ("benchmark.extra_info.is_dynamic", "False", "benchmark.extra_info.is_dynamic"),
        ("model.origins", [], "model.origins"),
        ("model.name", "", "model.name"),
        ("metric.name", "Time", "metric.name"),
        ("metric.benchmark_values", [], "metric.benchmark_values"),
        ("metric.benchmark_values", ["1"], "metric.benchmark_values"),
    ],
)
def test_what_is_wrong_is_named(path: str, value: object, column: str) -> None:
    with pytest.raises(InputError) as caught:
        read_as("cachebench", changed(path, value), "bad.json")
    assert (caught.value.path, caught.value.line, caught.value.column) == ("bad.json", 1, column)


def test_the_same_metric_twice_is_refused() -> None:
    with pytest.raises(InputError, match="duplicate metric"):
        read_as("cachebench", json.dumps([RECORDS[0], RECORDS[0]]))
