"""Prepare the request of ``run`` for measuring."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any

from msgspec import structs

from torchstone.api.measuring.run_request import RunRequest
from torchstone.api.measuring.run_rules import check_request, refuse_mode_and_options
from torchstone.api.presets import apply_preset
from torchstone.api.sources import Input, names_of, read_input
from torchstone.core.benchmark_source import BenchmarkSource
from torchstone.core.errors import UsageError
from torchstone.core.records import Case
from torchstone.core.run_settings import Settings, fault_of_record
from torchstone.core.text.redaction import redact
from torchstone.measure.deciding import LOOKS
from torchstone.measure.devices.placement import is_all, kind_of_all
from torchstone.measure.plan import Axes, Selection, check_patterns, durations_of
from torchstone.measure.runner import PlanRequest
from torchstone.measure.targets import resolve_targets


def prepare_request(request: RunRequest, elsewhere: Collection[str] = ()) -> PlanRequest:
    """Return the request in the form that measuring needs. Raise an error for an invalid value, before anything is started.

    ``elsewhere`` are targets that need not exist here.
    """
    check_patterns("-k", request.filters)
    check_patterns("--exclude", request.exclusions)
    resolved = resolve_targets(request.targets, elsewhere)
    check_request(request)
    preset = apply_preset(request)
    request = preset.request
    refuse_mode_and_options(request)
    settings = _settings(request, resolved.sources)
    settings = structs.replace(
        settings,
        pairs=preset.pairs,
        overrides=preset.overrides,
        all_devices=any(map(is_all, request.devices)),
    )
    field, problem = fault_of_record(settings)
    if problem:
        raise UsageError(f"--{field.partition('[')[0].replace('_', '-')}: {problem}")
    return PlanRequest(
        resolved,
        _axes(request),
        Selection(request.only, request.filters, request.exclusions),
        settings,
        request.shard or (1, 1),
        _durations(request.durations),
        request.label,
    )


def _axes(request: RunRequest) -> Axes:
    return Axes(
        request.probes,
        tuple(dict.fromkeys(map(kind_of_all, request.devices))),
        request.backends or ("inductor",),
        request.modes or ("inference",),
        request.dtypes or ("float32",),
        request.dynamics or (None,),
        request.batch_sizes,
        request.size,
        _further(request),
        scaled_backends=request.backends or ("none",),
        batch_set=request.batch_set,
    )


def _further(request: RunRequest) -> tuple[tuple[str, str], ...]:
    """Return further axes: arguments of torch.compile that make it another case."""
    axes = {"compile_mode": request.compile_mode} if request.compile_mode else {}
    if request.fullgraph:
        axes["fullgraph"] = "true"
    options = sorted(redact(f"{key}={value}") for key, value in request.compile_options)
    return tuple(axes.items()) + tuple((text.partition("=")[0], text.partition("=")[2]) for text in options)


def _settings(request: RunRequest, sources: dict[str, BenchmarkSource]) -> Settings:
    is_local = bool(request.imports) or any(source.is_file for source in sources.values())
    shared = {*Settings.__struct_fields__} & {*RunRequest.__struct_fields__} - _LIMITS - {"shard"}
    return Settings(
        **{name: getattr(request, name) for name in shared}
        | limits_of(request)
        | {
            "sources": sources,
            "looks": LOOKS if request.decide else None,
            "folder": os.getcwd() if is_local else "",
            "options": _compile_options(request),
            "save_outputs": _absolute(request.save_outputs),
            "compare_outputs": _folder("--compare-outputs", request.compare_outputs),
            "save_artifacts": _absolute(request.save_artifacts),
            "load_artifacts": _folder("--load-artifacts", request.load_artifacts),
            "ranks": tuple(dict.fromkeys(sorted(request.ranks))),
            "buckets": tuple(dict.fromkeys(request.buckets)),
        }
    )


_LIMITS = frozenset({"jobs", "timeout", "memory_limit"})


def limits_of(request: RunRequest) -> dict[str, Any]:
    """Return the limits that were given: jobs, timeout and memory. They do not affect what is measured."""
    limits = {name: getattr(request, name) for name in sorted(_LIMITS)}
    return {name: limit for name, limit in limits.items() if limit is not None}


def with_limits(settings: Settings, request: RunRequest) -> Settings:
    """Return the settings of a run with the limits of a request."""
    return structs.replace(settings, **limits_of(request))


def _compile_options(request: RunRequest) -> dict[str, object]:
    """Return the options of torch.compile. Values are parsed as JSON if possible, so that ``true`` and ``4`` are not strings."""
    values: dict[str, object] = {}
    for key, text in request.compile_options:
        if key in values:
            raise UsageError(f"--option {key} is given twice")
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = {"True": True, "False": False, "None": None}.get(text, text)
    return values


def _absolute(path: str) -> str:
    return os.path.abspath(path) if path else ""


def _folder(option: str, path: str) -> str:
    if path and not os.path.isdir(path):
        raise UsageError(f"{option} {path}: no such folder")
    return _absolute(path)


def _durations(inputs: tuple[Input, ...]) -> dict[Case, float]:
    noted: dict[Case, float] = {}
    for each, name in zip(inputs, names_of(inputs), strict=True):
        found = durations_of(read_input(each).run.outcomes)
        if not found:
            raise UsageError(f"--durations {name}: the file has no durations", advice="expected a run file")
        noted |= found
    return noted
