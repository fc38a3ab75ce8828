"""The JSON of PyTorch's compile-cache benchmark <-> outcomes: three records a model, for cold, warm, and what warm saves."""

from __future__ import annotations

import json
from typing import Any

from torchstone.errors import InputError
from torchstone.formats.json_text import Fields, read_records
from torchstone.model import Case, Measurement, Number, Outcome, Reading, Run, Variant, run_of
from torchstone.safe_text import escape_json, is_plain
from torchstone.vocabulary import PASSED, Probe

NAME = "TorchCache Benchmark"
TYPE = "OSS model"
METRICS = {
    "Cold compile time (s)": "cold_compile_seconds",
    "Warm compile time (s)": "warm_compile_seconds",
    "Speedup (%)": "warm_saved",
}


def read(path: str, text: str) -> Reading:
    """Read a list of records."""
    found: dict[Case, dict[str, tuple[Number, ...]]] = {}
    lines: dict[Case, int] = {}
    for line, value in read_records(path, text):
        record = Fields(path, line, value)
        case = _case_of(record)
        metric, samples = _measured(record.fields("metric"))
        lines.setdefault(case, line)
        if metric in found.setdefault(case, {}):
            raise record.error(
                "this metric of this model stands there already", "metric.name", "remove one of the two"
            )
        found[case][metric] = samples
    if not found:
        raise InputError(
            "a list without records", path=path, line=1, advice="did the job that wrote it fail?"
        )
    outcomes = [
        Outcome(case, PASSED, tuple(Measurement(metric, samples) for metric, samples in metrics.items()))
        for case, metrics in found.items()
    ]
    return Reading(path, "cachebench", run_of(path, outcomes), tuple(lines[case] for case in found))


def _case_of(record: Fields) -> Case:
    benchmark, model = record.fields("benchmark"), record.fields("model")
    if benchmark.text("name") != NAME:
        raise record.error(f"expected '{NAME}'", "benchmark.name")
    extra = benchmark.fields("extra_info")
    dynamic = extra.value.get("is_dynamic")
    if not isinstance(dynamic, bool):
        raise record.error("expected true or false", "benchmark.extra_info.is_dynamic")
    origins = model.items("origins")
    if len(origins) != 1 or not isinstance(origins[0], str) or not is_plain(origins[0]):
        raise record.error("expected a list with the name of one suite", "model.origins")
    if not (name := model.name("name")):
        raise record.error("no model name", "model.name")
    variant = Variant(
        extra.name("device"), model.name("backend"), benchmark.name("mode"), dynamic=dynamic or None
    )
    return Case(name, Probe.COMPILE_CACHE.value, origins[0], variant)


def _measured(metric: Fields) -> tuple[str, tuple[Number, ...]]:
    name = METRICS.get(metric.text("name"))
    if name is None:
        raise metric.error("no metric of this benchmark", "name", f"expected one of {', '.join(METRICS)}")
    samples = metric.numbers("benchmark_values")
    if not samples:
        raise metric.error("no values", "benchmark_values", "expected a list of numbers")
    return name, samples


def write(run: Run) -> str:
    """The list of records, of what was measured of compile caches; empty where nothing was."""
    records = [
        _record(outcome.case, name, measurement.samples)
        for outcome in run.outcomes
        if outcome.case.probe == Probe.COMPILE_CACHE and outcome.status == PASSED
        for name, metric in METRICS.items()
        for measurement in outcome.measurements
        if measurement.metric == metric
    ]
    return escape_json(json.dumps(records, ensure_ascii=False)) + "\n" if records else ""


def _record(case: Case, metric: str, samples: tuple[Number, ...]) -> dict[str, Any]:
    variant = case.variant
    return {
        "benchmark": {
            "name": NAME,
            "mode": variant.mode,
            "extra_info": {"is_dynamic": variant.dynamic is True, "device": variant.device},
        },
        "model": {"name": case.benchmark, "backend": variant.backend, "origins": [case.suite]},
        "metric": {"name": metric, "type": TYPE, "benchmark_values": list(samples)},
    }
