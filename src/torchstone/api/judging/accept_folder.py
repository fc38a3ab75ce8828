"""A folder of baselines for ``accept``: one file per probe, each of which is updated on its own."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import structs

from torchstone.api.judging.accept_request import AcceptRequest, Adoption, read_adoption
from torchstone.api.sources import files_in, read_inputs
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import Reading, matches_metric
from torchstone.core.vocabulary import ACCURACY, PROBES, Probe
from torchstone.formats import read_file
from torchstone.formats.merge import is_selected, no_match, require_results, select

_ENDING = {Probe.SCALING: ".json"}
"""Ending of the name of a new baseline, if not ``.csv``."""


def is_folder(path: str) -> bool:
    """Return whether a baseline is a folder, which need not exist yet."""
    return os.path.isdir(path) or path.endswith(("/", os.sep))


def read_adoptions(request: AcceptRequest) -> list[Adoption]:
    """Read results and the files of a folder that they belong to, one adoption per file."""
    if request.repeat is not None or request.past:
        option = "--repeat" if request.repeat is not None else "--learn-margins"
        raise UsageError(
            f"{request.baseline} is a folder, but {option} finds margins for one file",
            advice=f"name a file: --baseline {os.path.join(request.baseline, 'instructions.csv')}",
        )
    readings = read_inputs(request.results, request.kind, request.axes)
    require_results(readings, request.kind)
    parts = _by_file(request, readings)
    if not parts:
        raise InputError(
            "no baseline for these results in this folder",
            path=request.baseline,
            advice="to start one for each probe, add --add-new",
        )
    return [read_adoption(part) for part in parts]


def _by_file(request: AcceptRequest, readings: Sequence[Reading]) -> list[AcceptRequest]:
    """Return a request for each file of the folder that has rows for the results, or is to be started."""
    folder = request.baseline
    existing = {
        path: {case.probe for case in read_file(path, request.baseline_kind).run.plan}
        for path in (files_in(folder) if os.path.isdir(folder) else ())
    }
    probes_of_file: dict[str, list[str]] = {}
    for probe in _selected_probes(readings, request.only):
        path = _find_file(folder, probe, existing)
        if path in existing or request.add_new:
            probes_of_file.setdefault(path, []).append(probe)
    _require_metrics(request, readings)
    parts = []
    for path, probes in probes_of_file.items():
        own = _of_probes(readings, probes)
        metrics = tuple(pattern for pattern in request.metrics if _has_metric(own, pattern))
        if metrics or not request.metrics:
            part = structs.replace(request, results=own, baseline=path, metrics=metrics, kind="", axes=())
            parts.append(part)
    return parts


def _of_probes(readings: Sequence[Reading], probes: Sequence[str]) -> tuple[Reading, ...]:
    """Return the results of some probes, without files that have none."""
    chosen = (select(reading, lambda case: case.probe in probes) for reading in readings)
    return tuple(reading for reading in chosen if reading.run.plan)


def _selected_probes(readings: Sequence[Reading], only: Sequence[str]) -> list[str]:
    """Return the probes of the selected results, in the usual order."""
    cases = [case for reading in readings for case in reading.run.plan]
    found = {case.probe for case in cases if is_selected(case, only)}
    if cases and not found:
        raise no_match(only, readings)
    return [probe.value for probe in PROBES if probe in found]


def _find_file(folder: str, probe: str, existing: dict[str, set[str]]) -> str:
    """Return the file of the folder for a probe: the one that has rows of it, else one named after it."""
    holding = [path for path, probes in existing.items() if probes & {"", probe}]
    if len(holding) > 1:
        raise UsageError(
            f"several files of {folder} expect {probe}: {', '.join(map(os.path.basename, holding))}",
            advice="name the one to update with --baseline",
        )
    return holding[0] if holding else os.path.join(folder, probe + _ENDING.get(Probe(probe), ".csv"))


def _require_metrics(request: AcceptRequest, readings: Sequence[Reading]) -> None:
    """Raise UsageError if the results have no metric that a pattern names."""
    for pattern in request.metrics:
        if not _has_metric(readings, pattern):
            raise UsageError(f"--metric {pattern}: the results have no such metric")


def _has_metric(readings: Sequence[Reading], pattern: str) -> bool:
    outcomes = [outcome for reading in readings for outcome in reading.run.outcomes]
    metrics = {m.metric for outcome in outcomes for m in outcome.measurements}
    metrics |= {ACCURACY} if any(outcome.case.probe == Probe.ACCURACY for outcome in outcomes) else set()
    return any(matches_metric(pattern, metric) for metric in metrics)
