"""Read and write the JSON of PyTorch's compile-cache benchmark: cold, warm and saving of each model."""

from __future__ import annotations

import json

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import InputError
from torchstone.core.records import (
    BY_CALLS,
    BY_TIMERS,
    Case,
    Measurement,
    Outcome,
    Reading,
    Run,
    Variant,
    run_of,
)
from torchstone.core.text.safe_text import escape_json, is_plain
from torchstone.core.vocabulary import PASSED, Probe
from torchstone.formats.json_text import Fields, read_records

NAME = "TorchCache Benchmark"
TYPE = "OSS model"
METRICS = {
    "Cold compile time (s)": "cold_compile_seconds",
    "Warm compile time (s)": "warm_compile_seconds",
    "Speedup (%)": "warm_saved",
}
_TIMES = frozenset({"cold_compile_seconds", "warm_compile_seconds"})


def read(path: str, text: str) -> Reading:
    """Read a list of records."""
    found: dict[Case, dict[str, Measurement]] = {}
    lines: dict[Case, int] = {}
    for line, value in read_records(path, text):
        record = Fields(path, line, value)
        case = _case_of(record)
        measurement = _measured(record.fields("metric"), _definition_of(record))
        metric = measurement.metric
        lines.setdefault(case, line)
        if metric in found.setdefault(case, {}):
            raise record.error("duplicate metric of this model", "metric.name", "remove one of the two")
        found[case][metric] = measurement
    if not found:
        raise InputError(
            "the list has no records", path=path, line=1, advice="did the job that wrote it fail?"
        )
    outcomes = [Outcome(case, PASSED, tuple(metrics.values())) for case, metrics in found.items()]
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


def _definition_of(record: Fields) -> str:
    """Return how compile time is defined; records without a definition use the difference of calls."""
    stated = record.fields("benchmark").fields("extra_info").value.get("definition")
    return BY_TIMERS if stated == BY_TIMERS else BY_CALLS


def _measured(metric: Fields, definition: str) -> Measurement:
    name = METRICS.get(metric.text("name"))
    if name is None:
        raise metric.error("unknown metric", "name", f"expected one of {', '.join(METRICS)}")
    samples = metric.numbers("benchmark_values")
    if not samples:
        raise metric.error("no values", "benchmark_values", "expected a list of numbers")
    return Measurement(name, samples, MeasurementDetails(definition=definition))


def write(run: Run) -> str:
    """Write the compile-cache records of a run; empty if there are none."""
    records = [
        _record(outcome.case, name, measurement)
        for outcome in run.outcomes
        if outcome.case.probe == Probe.COMPILE_CACHE and outcome.status == PASSED and has_times(outcome)
        for name, metric in METRICS.items()
        for measurement in outcome.measurements
        if measurement.metric == metric
    ]
    return escape_json(json.dumps(records, ensure_ascii=False)) + "\n" if records else ""


def has_times(outcome: Outcome) -> bool:
    """Return whether all compile times are plausible; older versions of torchstone wrote some that are not."""
    times = (each for each in outcome.measurements if each.metric in _TIMES)
    return all(min(each.samples) > 0 for each in times)


def _record(case: Case, metric: str, measurement: Measurement) -> dict[str, object]:
    variant = case.variant
    by_timers = measurement.details is not None and measurement.details.definition == BY_TIMERS
    stated = {"definition": BY_TIMERS} if by_timers else {}
    return {
        "benchmark": {
            "name": NAME,
            "mode": variant.mode,
            "extra_info": {"is_dynamic": variant.dynamic is True, "device": variant.device, **stated},
        },
        "model": {"name": case.benchmark, "backend": variant.backend, "origins": [case.suite]},
        "metric": {"name": metric, "type": TYPE, "benchmark_values": list(measurement.samples)},
    }
