"""Records of PyTorch's benchmark database, version 3 <-> outcomes.

One record is one metric of one model. What a record says beyond case and samples (runners, dependencies, ``extra_info`` and so on) is kept
with the measurement and written back, so that reading and writing changes nothing.
"""

from __future__ import annotations

import json
from typing import Any

from torchstone.errors import InputError
from torchstone.formats.json_text import Fields, read_records
from torchstone.model import Case, Measurement, Outcome, Reading, Run, Variant, run_of
from torchstone.vocabulary import ACCURACY, FAILED, METRICS, PASSED, Probe

_FURTHER_AXES = ("ranks", "strategy", "tag")
_BOOLEANS = {"true": True, "True": True, True: True, "false": False, "False": False, False: False}


class _Group:
    """The records of one model and variant, in the order they came."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.found: dict[str, tuple[int, tuple[int | float, ...], dict[str, Any]]] = {}
        self.status: str = ""
        self.extra: dict[str, Any] = {}


def read(path: str, text: str) -> Reading:
    """Read a list of records, one record, or one record a line."""
    groups: dict[tuple[str, str, Variant], _Group] = {}
    for line, value in read_records(path, text):
        record = Fields(path, line, value)
        metric = record.fields("metric").name("name")
        if not metric:
            raise record.error(
                "no metric name",
                "metric.name",
                "a record has at least metric.name and metric.benchmark_values",
            )
        key = _case_of(record)
        group = groups.setdefault(key, _Group(line))
        _add(group, record, line, metric, key)
    if not groups:
        raise InputError(
            "a list without records", path=path, line=1, advice="did the job that wrote it fail?"
        )
    outcomes = tuple(_outcome(key, group) for key, group in groups.items())
    return Reading(path, "v3", run_of(path, outcomes), tuple(group.line for group in groups.values()))


def _add(group: _Group, record: Fields, line: int, metric: str, key: tuple[str, str, Variant]) -> None:
    """Put one record into its group, which must not have this metric yet."""
    of_metric = record.fields("metric")
    samples = of_metric.numbers("benchmark_values")
    texts = of_metric.fields("extra_info").value.get("benchmark_values")
    known = {"metric": {"name": metric, "benchmark_values": list(samples)}}
    rest = _subtract(record.value, _merge(_describe(*key), known))
    if (
        metric == ACCURACY
        and not samples
        and isinstance(texts, list)
        and len(texts) == 1
        and isinstance(texts[0], str)
    ):
        if group.status:
            raise _twice(record, metric, group.line)
        group.status = texts[0]
        group.extra = _subtract(rest, {"metric": {"extra_info": {"benchmark_values": texts}}})
        return
    if metric in group.found:
        raise _twice(record, metric, group.found[metric][0])
    if not samples and not texts:
        raise of_metric.error(
            "no values",
            "benchmark_values",
            "expected numbers here, or texts in metric.extra_info.benchmark_values",
        )
    group.found[metric] = (line, samples, rest)


def _twice(record: Fields, metric: str, line: int) -> InputError:
    return record.error(
        f"the metric '{metric}' of this case stands already in line {line}",
        "metric.name",
        "remove one of the two",
    )


def _case_of(record: Fields) -> tuple[str, str, Variant]:
    """Suite, benchmark and variant of a record."""
    benchmark, model = record.fields("benchmark"), record.fields("model")
    extra = benchmark.fields("extra_info")
    origins = model.items("origins")
    suite = (
        origins[0] if len(origins) == 1 and isinstance(origins[0], str) and origins[0].isprintable() else ""
    )
    dynamic, size = extra.value.get("is_dynamic"), _plain(extra.value.get("batch_size"))
    further = tuple((axis, value) for axis in _FURTHER_AXES if (value := _plain(extra.value.get(axis))))
    variant = Variant(
        device=_plain(extra.value.get("device")),
        backend=model.name("backend"),
        mode=benchmark.name("mode"),
        dtype=benchmark.name("dtype"),
        dynamic=_BOOLEANS.get(dynamic) if isinstance(dynamic, bool | str) else None,
        batch_size=int(size) if size.isascii() and size.isdigit() and len(size) < 10 and int(size) else None,
        further=further,
    )
    return suite, model.name("name") or benchmark.name("name"), variant


def _plain(value: object) -> str:
    """A text that can be part of a case's id, or nothing."""
    return value if isinstance(value, str) and value.isprintable() else ""


def _outcome(key: tuple[str, str, Variant], group: _Group) -> Outcome:
    suite, benchmark, variant = key
    probe = _probe_of(group)
    measurements = tuple(
        Measurement(_metric_name(metric, probe), samples, {"v3": rest} if rest else None)
        for metric, (_, samples, rest) in group.found.items()
    )
    case = Case(benchmark, probe, suite, variant)
    if not group.status and measurements[0].metric == "speedup" and measurements[0].samples == (0,):
        return Outcome(case, FAILED, (), extra=measurements[0].extra)
    extra = {"v3": group.extra} if group.extra else None
    return Outcome(case, group.status or PASSED, measurements, extra=extra)


def _probe_of(group: _Group) -> str:
    if group.status:
        return Probe.ACCURACY.value
    known = [METRICS[metric] for metric in group.found if metric in METRICS]
    return str(known[0].probes[0]) if known else Probe.PERFORMANCE.value


def _metric_name(metric: str, probe: str) -> str:
    """The runner writes two definitions under one name; which it is follows from the probe."""
    both = (metric, probe) == ("compilation_latency", Probe.ACCURACY.value)
    return "dynamo_compilation_latency" if both else metric


def write(run: Run) -> str:
    """One record a line: each status and each measurement of each outcome, with the run's environment and revision."""
    return "".join(
        json.dumps(record, ensure_ascii=False) + "\n"
        for outcome in run.outcomes
        for record in _records(run, outcome)
    )


def _records(run: Run, outcome: Outcome) -> list[dict[str, Any]]:
    case = outcome.case
    common = _merge(_describe_run(run), _describe(case.suite, case.benchmark, case.variant))
    records = []
    if case.probe == Probe.ACCURACY and outcome.status:
        of_status = {
            "name": ACCURACY,
            "benchmark_values": [],
            "extra_info": {"benchmark_values": [outcome.status]},
        }
        records.append(_merge(_merge(common, {"metric": of_status}), _foreign(outcome.extra)))
    if case.probe == Probe.PERFORMANCE and outcome.status == FAILED:
        of_failure = {"metric": {"name": "speedup", "benchmark_values": [0.0]}}
        records.append(_merge(_merge(common, of_failure), _foreign(outcome.extra)))
    for measurement in outcome.measurements:
        accuracy_name = measurement.metric == "dynamo_compilation_latency" and case.probe == Probe.ACCURACY
        name = "compilation_latency" if accuracy_name else measurement.metric
        of_metric = {"metric": {"name": name, "benchmark_values": list(measurement.samples)}}
        records.append(_merge(_merge(common, of_metric), _foreign(measurement.extra)))
    return records


def _foreign(extra: dict[str, Any] | None) -> dict[str, Any]:
    """What was kept of a record when it was read."""
    kept: dict[str, Any] = extra.get("v3", {}) if extra else {}
    return kept


def _describe(suite: str, benchmark: str, variant: Variant) -> dict[str, Any]:
    """The part of a record that names the case, from what is known of it."""
    extra = {
        "device": variant.device,
        "is_dynamic": "" if variant.dynamic is None else str(variant.dynamic),
        "batch_size": str(variant.batch_size or ""),
        **dict(variant.further),
    }
    of_benchmark = {"mode": variant.mode, "dtype": variant.dtype, "extra_info": _stated(extra)}
    of_model = {"name": benchmark, "backend": variant.backend, "origins": [suite] if suite else ""}
    return _stated({"benchmark": _stated(of_benchmark), "model": _stated(of_model)})


def _describe_run(run: Run) -> dict[str, Any]:
    versions = {name: {"version": version} for name, version in run.environment.get("versions", {}).items()}
    return _stated(
        {"head_sha": run.revision.commit, "head_branch": run.revision.branch, "dependencies": versions}
    )


def _stated(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value not in ("", {}, None)}


def _subtract(record: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """What ``record`` says beyond ``known``: its leaves that are absent there, or different."""
    rest: dict[str, Any] = {}
    for key, value in record.items():
        if key not in known:
            rest[key] = value
        elif isinstance(value, dict) and isinstance(known[key], dict):
            if (inner := _subtract(value, known[key])) or not value:
                rest[key] = inner
        elif value != known[key] or type(value) is not type(known[key]):
            rest[key] = value
    return rest


def _merge(known: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    """``known`` with all of ``rest`` laid over it."""
    merged = dict(known)
    for key, value in rest.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
