"""Name a group of changes by what its members share: ``inductor on cpu: compile time``."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torchstone.core.records import Case, axis_text
from torchstone.core.vocabulary import ACCURACY, COMPILE_SECONDS
from torchstone.history.change_records import SeriesChange

NAMED_AXES = ("suite", "benchmark", "backend", "device", "mode", "dtype")
"""The axes that a name can state, in this order."""
_ALWAYS = frozenset({"benchmark", "backend", "device"})
_MOST_METRICS = 2
_PLAIN = {
    ACCURACY: "status",
    COMPILE_SECONDS: "compile time",
    "abs_latency": "latency",
    "dynamo_peak_mem": "peak memory",
    "eager_peak_mem": "eager peak memory",
}
_TIMES, _MEMORY = frozenset({"s", "ms"}), frozenset({"GB", "MB", "bytes"})


def axes_of(case: Case) -> dict[str, str]:
    """Return what a name can state of a case; unknown axes are left out."""
    variant = case.variant
    values = (case.suite, case.name, variant.backend, variant.device, variant.mode, variant.dtype)
    return {axis: axis_text(value) for axis, value in zip(NAMED_AXES, values, strict=True) if value}


def find_varying(cases: Collection[Case]) -> frozenset[str]:
    """Return the axes that differ between cases: the others say nothing about any of them."""
    known = [axes_of(case) for case in cases]
    return frozenset(axis for axis in NAMED_AXES if len({axes.get(axis) for axes in known}) > 1)


def name_group(changes: Sequence[SeriesChange], varying: Collection[str] = NAMED_AXES) -> str:
    """Return what the members share: benchmark, backend and device, and of the other axes those that vary in the store."""
    shared = axes_of(changes[0].series.case)
    for change in changes[1:]:
        axes = axes_of(change.series.case)
        shared = {axis: value for axis, value in shared.items() if axes.get(axis) == value}
    if "benchmark" in shared:
        shared.pop("suite", None)
    told = {axis: value for axis, value in shared.items() if axis in _ALWAYS or axis in varying}
    return f"{_subject(told) or 'different cases'}: {_metrics(changes)}"


def _subject(shared: dict[str, str]) -> str:
    """Return the shared axes in words: ``resnet50, inductor on cpu, training``."""
    place = " on ".join(shared[axis] for axis in ("backend", "device") if axis in shared)
    if "device" in shared and "backend" not in shared:
        place = f"on {place}"
    named = [shared[axis] for axis in ("suite", "benchmark") if axis in shared]
    further = [shared[axis] for axis in ("mode", "dtype") if axis in shared]
    return ", ".join(filter(None, [*named, place, *further]))


def _metrics(changes: Sequence[SeriesChange]) -> str:
    """Return the metrics in words, or what kind they are."""
    units = {each.metric.name: each.metric.unit for each in changes}
    if len(units) <= _MOST_METRICS:
        return " and ".join(sorted(_PLAIN.get(name, name.replace("_", " ")) for name in units))
    kinds = set(units.values())
    if kinds <= _TIMES:
        return "times"
    return "memory" if kinds <= _MEMORY else f"{len(units)} metrics"
