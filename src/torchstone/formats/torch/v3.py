"""Read and write records of PyTorch's benchmark database, version 3.

One record is one metric of one model. Fields beyond case and samples (runners, dependencies, ``extra_info``
and so on) are kept in ``extra`` and written back, so that reading and writing is lossless:

    v3          fields of the record that the outcome does not imply
    v3_absent   fields that the outcome implies and the record lacks, as null
    v3_others   records without a measurement: texts, and all records of a failed case

Facts that the database has no field for are in ``v3_additions``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from torchstone.core.details.former_formats import brought_up_to_date
from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.details.metric_definitions import DIRECTIONS
from torchstone.core.errors import InputError, printable
from torchstone.core.records import (
    BY_CALLS,
    Case,
    Measurement,
    Number,
    Outcome,
    Reading,
    Revision,
    Run,
    Variant,
    run_of,
)
from torchstone.core.run_settings import NO_ENVIRONMENT, Environment
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
from torchstone.formats.torch.custom_columns import make_definition
from torchstone.formats.torch.json_objects import (
    absent_from,
    merge,
    non_empty,
    object_at,
    plain_text,
    subtract,
    text_at,
    without,
)
from torchstone.formats.torch.pr_time_csv import ORIGINAL_COUNTER, RECORDS
from torchstone.formats.torch.v3_additions import (
    OURS,
    cases_stating_probe,
    facts_of_case,
    facts_of_measurement,
    guess_probe,
    read_sizes,
    state,
    written_name,
)
from torchstone.formats.torch.v3_environment import describe_run, read_environment, read_revision

_FURTHER_AXES = ("bucket_mb", "collective", "rank_list", "ranks", "strategy", "tag", "wrapper")
_STATED = ("counter", "definition", "better", "unit", "reported")
"""Fields of the benchmark's extra_info that state how it was measured, and how it defines a metric of its own."""
_Key = tuple[str, str, Variant, str]
"""Suite, benchmark, variant and the probe that records state, which is empty in those of others."""
_BOOLEANS = {"true": True, "True": True, True: True, "false": False, "False": False, False: False}


class _MetricRecord(NamedTuple):
    """The record of one metric: its samples, how they were taken, and the fields to keep."""

    samples: tuple[Number, ...]
    details: MeasurementDetails | None
    kept: dict[str, object]


class _Group:
    """The records of one model and variant, in order."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.lines: dict[str, int] = {}
        self.found: dict[str, _MetricRecord] = {}
        self.others: list[Mapping[str, object]] = []
        self.status: str = ""
        self.failure: str = ""
        self.extra: dict[str, object] = {}


def read(path: str, text: str) -> Reading:
    """Read a list of records or of lists of records, one record, or one record or list per line."""
    groups: dict[_Key, _Group] = {}
    machines: list[Environment] = []
    revisions: dict[Revision, None] = {}
    for line, value in read_records(path, text):
        record = Fields(path, line, value)
        if (machine := read_environment(record)) not in machines:
            machines.append(machine)
        revisions[read_revision(record)] = None
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
            "the list has no records", path=path, line=1, advice="did the job that wrote it fail?"
        )
    parts = [
        (key, part) for key, group in groups.items() for part in (_split(group) if not key[3] else [group])
    ]
    outcomes = tuple(_outcome(path, key, part) for key, part in parts)
    # If records are from several machines, the file has no environment.
    environment = machines[0] if len(machines) == 1 else NO_ENVIRONMENT
    revision = next(iter(revisions)) if len(revisions) == 1 else Revision()
    run = structs.replace(run_of(path, outcomes), environment=environment, revision=revision)
    return Reading(path, "v3", run, tuple(part.line for _, part in parts))


def _split(group: _Group) -> list[_Group]:
    """Split a group with a status and times into an accuracy case and a performance case."""
    times = [m for m in group.found if m in METRICS and METRICS[m].probes == (Probe.PERFORMANCE,)]
    if not group.status or "speedup" not in times:
        return [group]
    performance = _Group(min(group.lines[metric] for metric in times))
    for metric in times:
        performance.found[metric] = group.found.pop(metric)
        performance.lines[metric] = group.lines.pop(metric)
    return [group, performance]


def _ways(benchmark: Fields) -> MeasurementDetails:
    """Return the counter and the definition of compile time; records of the original use the hardware counter."""
    told = object_at(benchmark.value, "extra_info")
    counter, definition, better, unit, reported = (text_at(told, key) for key in _STATED)
    if not counter and benchmark.value.get("name") == RECORDS:
        counter = ORIGINAL_COUNTER
    start, cache = (text_at(told, OURS + key) for key in ("start", "cache"))
    trials = read_sizes(text_at(told, f"{OURS}trials"))
    own = make_definition(better, unit) if better in DIRECTIONS else NO_DETAILS
    reported = reported if own.better else ""
    return structs.replace(
        own,
        start=start,
        cache=cache,
        counter=counter,
        definition=definition,
        trials=trials,
        reported=reported,
    )


def _add(group: _Group, record: Fields, line: int, metric: str, key: _Key) -> None:
    """Add a record to its group; refuse a metric that is already there."""
    if metric in group.lines:
        raise record.error(
            f"the metric '{printable(metric)}' of this case is already in line {group.lines[metric]}",
            "metric.name",
            "remove one of the two",
        )
    group.lines[metric] = line
    of_metric = record.fields("metric")
    samples = of_metric.numbers("benchmark_values")
    texts = of_metric.fields("extra_info").value.get("benchmark_values")
    told = object_at(object_at(record.value, "benchmark"), "extra_info")
    ours = {name: value for name, value in told.items() if name.startswith(OURS)}
    described = merge(_describe(*key[:3]), state(ours))
    status = text_at(told, f"{OURS}status")
    group.failure = status if is_plain(status) and len(status) <= 100 else ""
    if metric == ACCURACY:
        group.status = _status(of_metric, samples, texts)
        group.extra = _beyond(record.value, merge(described, _of_status(group.status)))
    elif samples:
        kept = _beyond(record.value, merge(described, _of_metric(metric, samples)))
        details = _ways(record.fields("benchmark"))
        group.found[metric] = _MetricRecord(samples, None if details == NO_DETAILS else details, kept)
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
            "invalid status",
            "extra_info.benchmark_values",
            "accuracy has no numbers, and one text here, such as pass or fail_accuracy",
        )
    return status


def _case_of(record: Fields) -> _Key:
    """Return suite, benchmark, variant and stated probe of a record."""
    benchmark, model = record.fields("benchmark"), record.fields("model")
    extra = benchmark.fields("extra_info")
    origins = model.items("origins")
    suite = origins[0] if len(origins) == 1 and isinstance(origins[0], str) and is_plain(origins[0]) else ""
    dynamic, size = extra.value.get("is_dynamic"), plain_text(extra.value.get("batch_size"))
    further = tuple((axis, value) for axis in _FURTHER_AXES if (value := plain_text(extra.value.get(axis))))
    variant = Variant(
        device=plain_text(extra.value.get("device")),
        backend=model.name("backend"),
        mode=benchmark.name("mode"),
        dtype=benchmark.name("dtype"),
        dynamic=_BOOLEANS.get(dynamic) if isinstance(dynamic, bool | str) else None,
        batch_size=int(size) if size.isascii() and size.isdigit() and len(size) < 10 and int(size) else None,
        further=further,
    )
    probe = plain_text(extra.value.get(f"{OURS}probe"))
    name = model.name("name") or benchmark.name("name")
    return suite, name, variant, probe if probe in set(Probe) else ""


def _outcome(path: str, key: _Key, group: _Group) -> Outcome:
    suite, benchmark, variant, stated = key
    probe = stated or guess_probe(group.status, group.found)
    case = Case(benchmark, probe, suite, variant)
    speedup = group.found.get("speedup")
    if not group.status and speedup and speedup.samples == (0,):
        return Outcome(case, group.failure or FAILED, (), extra=_of_failure(group))
    measurements = tuple(_measurement(metric, found, probe) for metric, found in group.found.items())
    _refuse_two_names(path, group, measurements)
    extra = group.extra | ({"v3_others": group.others} if group.others else {})
    return Outcome(case, group.status or group.failure or PASSED, measurements, extra=extra or None)


def _refuse_two_names(path: str, group: _Group, measurements: tuple[Measurement, ...]) -> None:
    """Refuse two records of the same metric, such as one under its old name and one under its new name."""
    names: dict[str, str] = {}
    for name, measurement in zip(group.found, measurements, strict=True):
        other = names.setdefault(measurement.metric, name)
        if other != name:
            problem = f"{printable(other)} and {printable(name)} are the same metric of this case"
            line = max(group.lines[other], group.lines[name])
            raise InputError(
                problem, path=path, line=line, column="metric.name", advice="remove one of the two"
            )


def _measurement(metric: str, found: _MetricRecord, probe: str) -> Measurement:
    """Build a measurement; where the runner uses one name for two metrics, the probe decides.

    A name that would be written differently is kept in ``extra``.
    """
    written = written_name(current_name(metric), probe)
    meant = (
        COMPILE_SECONDS if written == metric == "compilation_latency" and probe == Probe.ACCURACY else metric
    )
    kept = found.kept
    if written != metric:
        kept = kept | {"v3": merge({"metric": {"name": metric}}, object_at(kept, "v3"))}
    return brought_up_to_date(Measurement(meant, found.samples, found.details, kept or None))


def _of_failure(group: _Group) -> dict[str, object] | None:
    """Return the records of a failed case, to be kept in ``extra``: none is a measurement."""
    if list(group.lines) == ["speedup"]:
        return group.found["speedup"].kept or None
    others = [
        found.kept | {"v3": merge(_of_metric(metric, found.samples), object_at(found.kept, "v3"))}
        for metric, found in group.found.items()
    ]
    return {"v3_others": [*others, *group.others]}


def write(run: Run) -> str:
    """Write one record per line, for each status and measurement, with the run's environment and revision."""
    stating = cases_stating_probe(run.outcomes)
    return "".join(
        escape_json(json.dumps(record, ensure_ascii=False)) + "\n"
        for outcome in run.outcomes
        for record in _records(run, outcome, states_probe=outcome.case in stating)
    )


def _records(run: Run, outcome: Outcome, *, states_probe: bool) -> list[dict[str, object]]:
    case = outcome.case
    described = merge(describe_run(run), _describe(case.suite, case.benchmark, case.variant))
    common = merge(described, state(facts_of_case(outcome, states_probe=states_probe)))
    others = _kept(outcome.extra, "v3_others", [])
    records = []
    if case.probe == Probe.ACCURACY and outcome.status:
        records.append(_complete(merge(common, _of_status(outcome.status)), outcome.extra))
    if case.probe == Probe.PERFORMANCE and _is_bare_failure(outcome) and not others:
        records.append(_complete(merge(common, _of_metric("speedup", [0.0])), outcome.extra))
    for measurement in outcome.measurements:
        record = merge(common, _of_metric(written_name(measurement.metric, case.probe), measurement.samples))
        details = measurement.details or NO_DETAILS
        ways = {key: getattr(details, key) for key in _STATED}
        stated = {key: way for key, way in ways.items() if way and way != BY_CALLS}
        if stated and not _kept(measurement.extra, "v3", {}):
            record = merge(record, state(stated))
        records.append(_complete(merge(record, state(facts_of_measurement(details))), measurement.extra))
    return records + [_complete(common, other) for other in others]


def _is_bare_failure(outcome: Outcome) -> bool:
    """Return whether a case failed without measurements; without a record, it would go unnoticed."""
    return outcome.status not in {PASSED, SKIPPED, ""} and not outcome.measurements


def _of_metric(name: str, samples: Sequence[Number]) -> dict[str, object]:
    return {"metric": {"name": name, "benchmark_values": list(samples)}}


def _of_status(status: str) -> dict[str, object]:
    return merge(_of_metric(ACCURACY, []), {"metric": {"extra_info": {"benchmark_values": [status]}}})


def _complete(record: Mapping[str, object], extra: Mapping[str, object] | None) -> dict[str, object]:
    """Restore a record: add the fields kept when it was read, and remove those it lacked."""
    return without(merge(record, _kept(extra, "v3", {})), _kept(extra, "v3_absent", {}))


def _kept(extra: object, key: str, nothing: Any) -> Any:  # noqa: ANN401  (JSON is anything)
    """Return a kept field; the default if a run file has something else under that name."""
    kept = extra.get(key) if isinstance(extra, dict) else None
    return kept if isinstance(kept, type(nothing)) else nothing


def _describe(suite: str, benchmark: str, variant: Variant) -> dict[str, object]:
    """Return the fields that identify the case."""
    extra = {
        "device": variant.device,
        "is_dynamic": "" if variant.dynamic is None else str(variant.dynamic),
        "batch_size": str(variant.batch_size or ""),
        **dict(variant.further),
    }
    of_benchmark = {"mode": variant.mode, "dtype": variant.dtype, "extra_info": non_empty(extra)}
    of_model = {"name": benchmark, "backend": variant.backend, "origins": [suite] if suite else ""}
    return non_empty({"benchmark": non_empty(of_benchmark), "model": non_empty(of_model)})


def _beyond(record: Mapping[str, object], known: Mapping[str, object]) -> dict[str, object]:
    """Return the fields to keep in ``extra``; see the module docstring."""
    kept = {"v3": subtract(record, known), "v3_absent": absent_from(record, known)}
    return {key: value for key, value in kept.items() if value}
