"""Records of PyTorch's benchmark database, version 3 <-> outcomes.

One record is one metric of one model. What a record says beyond case and samples (runners, dependencies, ``extra_info`` and so on) is kept
as ``extra`` and written back, so that reading and writing changes nothing:

    v3          what the record has and the outcome does not say
    v3_absent   what the outcome says and the record does not have, as null
    v3_others   records that are no measurement: texts, and all those of a case that failed
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from torchstone.core.errors import InputError, printable
from torchstone.core.records import (
    BY_CALLS,
    COUNTER,
    DEFINITION,
    Case,
    Measurement,
    Number,
    Outcome,
    Reading,
    Run,
    Variant,
    brought_up_to_date,
    run_of,
)
from torchstone.core.run_settings import NO_ENVIRONMENT, Environment, JsonObject
from torchstone.core.text.safe_text import escape_json, is_plain
from torchstone.core.vocabulary import (
    ACCURACY,
    COMPILE_SECONDS,
    FAILED,
    METRICS,
    PASSED,
    SKIPPED,
    Probe,
    current_name,
)
from torchstone.formats.json_text import Fields, read_records
from torchstone.formats.torch.pr_time import ORIGINAL_COUNTER, RECORDS

_FURTHER_AXES = ("bucket_mb", "collective", "rank_list", "ranks", "strategy", "tag", "wrapper")
_STATED = (COUNTER, DEFINITION)  # what a record says, in the benchmark's extra_info, of how it was measured
_BOOLEANS = {"true": True, "True": True, True: True, "false": False, "False": False, False: False}


class _Group:
    """The records of one model and variant, in the order they came."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.lines: dict[str, int] = {}
        self.found: dict[str, tuple[tuple[Number, ...], JsonObject]] = {}
        self.others: list[JsonObject] = []
        self.status: str = ""
        self.extra: JsonObject = {}


def read(path: str, text: str) -> Reading:
    """Read a list of records or of lists of records, one record, or one record or list a line."""
    groups: dict[tuple[str, str, Variant], _Group] = {}
    machines: list[Environment] = []
    for line, value in read_records(path, text):
        record = Fields(path, line, value)
        if (machine := _environment(record)) not in machines:
            machines.append(machine)
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
    parts = [(key, part) for key, group in groups.items() for part in _split(group)]
    outcomes = tuple(_outcome(path, key, part) for key, part in parts)
    # Of records from several machines, none of these is the file's.
    environment = machines[0] if len(machines) == 1 else NO_ENVIRONMENT
    run = structs.replace(run_of(path, outcomes), environment=environment)
    return Reading(path, "v3", run, tuple(part.line for _, part in parts))


def _environment(record: Fields) -> Environment:
    """What a record says of machine and libraries, in the form of a run's environment."""
    runners = record.value.get("runners")
    runner = runners[0] if isinstance(runners, list) and len(runners) == 1 else {}
    runner = runner if isinstance(runner, dict) else {}
    more, cpu, gpu = _dictionary(runner, "extra_info"), _fact(runner, "cpu_info"), _fact(runner, "gpu_info")
    python = _fact(more, "python")
    versions = {
        name: version
        for name, stated in _dictionary(record.value, "dependencies").items()
        if isinstance(stated, dict) and (version := _fact(stated, "version"))
    }
    machine = {"architecture": _fact(more, "architecture"), "cpu": {"model": cpu} if cpu else {}}
    threads = _fact(more, "threads")
    return Environment(
        _stated(machine),
        accelerators=({"name": gpu},) if gpu else None,
        software={"python": {"version": python}} if python else {},
        versions=versions,
        threads=int(threads) if threads.isascii() and threads.isdigit() and len(threads) < 9 else None,
    )


def _fact(facts: JsonObject, name: str) -> str:
    """A text that can be shown on one line, or nothing."""
    return _plain(facts.get(name))


def _split(group: _Group) -> list[_Group]:
    """A group that has a status and times is of two probes; what only performance measures is its own case."""
    times = [m for m in group.found if m in METRICS and METRICS[m].probes == (Probe.PERFORMANCE,)]
    if not group.status or "speedup" not in times:
        return [group]
    performance = _Group(min(group.lines[metric] for metric in times))
    for metric in times:
        performance.found[metric] = group.found.pop(metric)
        performance.lines[metric] = group.lines.pop(metric)
    return [group, performance]


def _ways(benchmark: Fields) -> dict[str, str]:
    """What counted and how compile time is defined, where a record says so; the original's records do not say what counted, and theirs are the processor's."""
    told = _dictionary(benchmark.value, "extra_info")
    stated = {key: way for key in _STATED if (way := _fact(told, key))}
    if COUNTER not in stated and benchmark.value.get("name") == RECORDS:
        stated[COUNTER] = ORIGINAL_COUNTER
    return stated


def _add(group: _Group, record: Fields, line: int, metric: str, key: tuple[str, str, Variant]) -> None:
    """Put one record into its group, which must not have this metric yet."""
    if metric in group.lines:
        raise record.error(
            f"the metric '{printable(metric)}' of this case stands already in line {group.lines[metric]}",
            "metric.name",
            "remove one of the two",
        )
    group.lines[metric] = line
    of_metric = record.fields("metric")
    samples = of_metric.numbers("benchmark_values")
    texts = of_metric.fields("extra_info").value.get("benchmark_values")
    described = _describe(*key)
    if metric == ACCURACY:
        group.status = _status(of_metric, samples, texts)
        group.extra = _beyond(record.value, _merge(described, _of_status(group.status)))
    elif samples:
        kept = _beyond(record.value, _merge(described, _of_metric(metric, samples)))
        group.found[metric] = (samples, kept | _ways(record.fields("benchmark")))
    elif texts:
        group.others.append(_beyond(record.value, described))
    else:
        raise of_metric.error(
            "no values",
            "benchmark_values",
            "expected numbers here, or texts in metric.extra_info.benchmark_values",
        )


def _status(of_metric: Fields, samples: Sequence[Number], texts: object) -> str:
    status = texts[0] if isinstance(texts, list) and len(texts) == 1 and not samples else None
    if not isinstance(status, str) or not status or not is_plain(status) or len(status) > 100:
        raise of_metric.error(
            "no usable status",
            "extra_info.benchmark_values",
            "accuracy has no numbers, and one text here, such as pass or fail_accuracy",
        )
    return status


def _case_of(record: Fields) -> tuple[str, str, Variant]:
    """Suite, benchmark and variant of a record."""
    benchmark, model = record.fields("benchmark"), record.fields("model")
    extra = benchmark.fields("extra_info")
    origins = model.items("origins")
    suite = origins[0] if len(origins) == 1 and isinstance(origins[0], str) and is_plain(origins[0]) else ""
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
    return value if isinstance(value, str) and is_plain(value) else ""


def _outcome(path: str, key: tuple[str, str, Variant], group: _Group) -> Outcome:
    suite, benchmark, variant = key
    probe = _probe_of(group)
    case = Case(benchmark, probe, suite, variant)
    if not group.status and group.found.get("speedup", ((), {}))[0] == (0,):
        return Outcome(case, FAILED, (), extra=_of_failure(group))
    measurements = tuple(_measurement(metric, *found, probe) for metric, found in group.found.items())
    _refuse_two_names(path, group, measurements)
    extra = group.extra | ({"v3_others": group.others} if group.others else {})
    return Outcome(case, group.status or PASSED, measurements, extra=extra or None)


def _refuse_two_names(path: str, group: _Group, measurements: tuple[Measurement, ...]) -> None:
    """Refuse two records that mean the same metric: by its former name and its present one, say."""
    names: dict[str, str] = {}
    for name, measurement in zip(group.found, measurements, strict=True):
        other = names.setdefault(measurement.metric, name)
        if other != name:
            problem = f"{printable(other)} and {printable(name)} are the same metric of this case"
            line = max(group.lines[other], group.lines[name])
            raise InputError(
                problem, path=path, line=line, column="metric.name", advice="remove one of the two"
            )


def _measurement(metric: str, samples: tuple[Number, ...], extra: JsonObject, probe: str) -> Measurement:
    """A measurement. The runner writes two definitions under one name; which it is follows from the probe.

    A name that would not be written again is kept beside the numbers.
    """
    written = _written_name(current_name(metric), probe)
    meant = (
        COMPILE_SECONDS if written == metric == "compilation_latency" and probe == Probe.ACCURACY else metric
    )
    if written != metric:
        extra = extra | {"v3": _merge({"metric": {"name": metric}}, extra.get("v3", {}))}
    return brought_up_to_date(Measurement(meant, samples, extra or None))


def _written_name(metric: str, probe: str) -> str:
    """The name of a metric in records of a probe."""
    return "compilation_latency" if metric == COMPILE_SECONDS and probe == Probe.ACCURACY else metric


def _of_failure(group: _Group) -> JsonObject | None:
    """What the records of a failed case say: none of them is a measurement."""
    if list(group.lines) == ["speedup"]:
        return group.found["speedup"][1] or None
    others = [
        extra | {"v3": _merge(_of_metric(metric, samples), extra.get("v3", {}))}
        for metric, (samples, extra) in group.found.items()
    ]
    return {"v3_others": [*others, *group.others]}


def _probe_of(group: _Group) -> str:
    if group.status:
        return Probe.ACCURACY.value
    known = [METRICS[metric] for metric in group.found if metric in METRICS]
    return str(known[0].probes[0]) if known else Probe.PERFORMANCE.value


def write(run: Run) -> str:
    """One record a line: each status and each measurement of each outcome, with the run's environment and revision."""
    return "".join(
        escape_json(json.dumps(record, ensure_ascii=False)) + "\n"
        for outcome in run.outcomes
        for record in _records(run, outcome)
    )


def _records(run: Run, outcome: Outcome) -> list[JsonObject]:
    case = outcome.case
    common = _merge(_describe_run(run), _describe(case.suite, case.benchmark, case.variant))
    others = _kept(outcome.extra, "v3_others", [])
    records = []
    if case.probe == Probe.ACCURACY and outcome.status:
        records.append(_complete(_merge(common, _of_status(outcome.status)), outcome.extra))
    if case.probe == Probe.PERFORMANCE and _is_bare_failure(outcome) and not others:
        records.append(_complete(_merge(common, _of_metric("speedup", [0.0])), outcome.extra))
    for measurement in outcome.measurements:
        record = _merge(
            common, _of_metric(_written_name(measurement.metric, case.probe), measurement.samples)
        )
        stated = {
            key: way for key in _STATED if (way := _kept(measurement.extra, key, "")) and way != BY_CALLS
        }
        if stated and not _kept(measurement.extra, "v3", {}):
            record = _merge(record, {"benchmark": {"extra_info": stated}})
        records.append(_complete(record, measurement.extra))
    return records + [_complete(common, other) for other in others]


def _is_bare_failure(outcome: Outcome) -> bool:
    """Whether a case failed with nothing measured: without a record of its own it would not be missed."""
    return outcome.status not in {PASSED, SKIPPED, ""} and not outcome.measurements


def _of_metric(name: str, samples: Sequence[Number]) -> JsonObject:
    return {"metric": {"name": name, "benchmark_values": list(samples)}}


def _of_status(status: str) -> JsonObject:
    return _merge(_of_metric(ACCURACY, []), {"metric": {"extra_info": {"benchmark_values": [status]}}})


def _complete(record: JsonObject, extra: JsonObject | None) -> JsonObject:
    """A record with what was kept of it when it was read, and without what it did not have."""
    return _without(_merge(record, _kept(extra, "v3", {})), _kept(extra, "v3_absent", {}))


def _kept(extra: object, key: str, nothing: Any) -> Any:  # noqa: ANN401  (JSON is anything)
    """A part of what was kept; nothing where a run file holds something else under that name."""
    kept = extra.get(key) if isinstance(extra, dict) else None
    return kept if isinstance(kept, type(nothing)) else nothing


def _describe(suite: str, benchmark: str, variant: Variant) -> JsonObject:
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


def _describe_run(run: Run) -> JsonObject:
    """What all records of a run say: the revision, the machine, and the versions of libraries."""
    versions = {name: {"version": version} for name, version in run.environment.versions.items()}
    return _stated(
        {
            "head_sha": run.revision.commit,
            "head_branch": run.revision.branch,
            "runners": _describe_machine(run.environment) or "",
            "dependencies": versions,
        }
    )


def _describe_machine(environment: Environment) -> list[JsonObject]:
    """The machine in the database's words: its name is the kind of device that was measured, its type the device's model."""
    machine, software, devices = environment.machine, environment.software, environment.accelerators or ()
    first = devices[0] if devices else {}
    cpu = _dictionary(machine, "cpu").get("model")
    more = {
        "fingerprint": environment.fingerprint,
        "host": machine.get("host"),
        "os": machine.get("os"),
        "architecture": machine.get("architecture"),
        "driver": first.get("driver"),
        "python": _dictionary(software, "python").get("version"),
        "compiler": software.get("compiler"),
        "threads": environment.threads,
    }
    described = {
        "name": (environment.device or "").partition(":")[0],
        "type": first.get("name") or cpu,
        "cpu_info": cpu,
        "cpu_count": _dictionary(machine, "cores").get("logical"),
        "avail_mem_in_gb": _gigabytes(_dictionary(machine, "memory").get("total")),
        "gpu_info": first.get("name"),
        "gpu_count": len(devices) or None,
        "avail_gpu_mem_in_gb": _gigabytes(first.get("memory")),
        "extra_info": {name: str(value) for name, value in _stated(more).items()},
    }
    stated = _stated(described)
    return [stated] if stated else []


def _dictionary(value: JsonObject, name: str) -> JsonObject:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _gigabytes(value: object) -> int | None:
    return round(value / 10**9) if isinstance(value, int | float) else None


def _stated(record: JsonObject) -> JsonObject:
    return {key: value for key, value in record.items() if value not in ("", {}, [], None)}


def _beyond(record: JsonObject, known: JsonObject) -> JsonObject:
    """What to keep of a record beside what is known: see the top of this module."""
    kept = {"v3": _subtract(record, known), "v3_absent": _absent(record, known)}
    return {key: value for key, value in kept.items() if value}


def _absent(record: JsonObject, known: JsonObject) -> JsonObject:
    """What is known and ``record`` does not have, as null."""
    absent: JsonObject = {}
    for key, value in known.items():
        if key not in record:
            absent[key] = None
        elif isinstance(value, dict) and isinstance(record[key], dict):
            absent |= {key: inner} if (inner := _absent(record[key], value)) else {}
    return absent


def _without(record: JsonObject, absent: JsonObject) -> JsonObject:
    """``record`` less what is null in ``absent``."""
    return {
        key: _without(value, absent[key])
        if isinstance(value, dict) and isinstance(absent.get(key), dict)
        else value
        for key, value in record.items()
        if absent.get(key, "") is not None
    }


def _subtract(record: JsonObject, known: JsonObject) -> JsonObject:
    """What ``record`` says beyond ``known``: its leaves that are absent there, or different."""
    rest: JsonObject = {}
    for key, value in record.items():
        if key not in known:
            rest[key] = value
        elif isinstance(value, dict) and isinstance(known[key], dict):
            if (inner := _subtract(value, known[key])) or not value:
                rest[key] = inner
        elif value != known[key] or type(value) is not type(known[key]):
            rest[key] = value
    return rest


def _merge(known: JsonObject, rest: JsonObject) -> JsonObject:
    """``known`` with all of ``rest`` laid over it."""
    merged = dict(known)
    for key, value in rest.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
