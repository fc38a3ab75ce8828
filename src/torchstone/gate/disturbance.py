"""Find the trials in which something disturbed the timing, and the wall times that measure the host.

Neither can be red or green.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, merged, span_of
from torchstone.core.details.measurement_details import NO_DETAILS
from torchstone.core.records import Measurement, Outcome, find_metric
from torchstone.core.vocabulary import COMPILE_SECONDS, DEVICE_COUNTERPARTS, METRICS, SAVED, Probe
from torchstone.gate.criteria import HostBound
from torchstone.gate.judgement import Row

_TIME_UNITS = frozenset({"s", "ms", "us", "1/s"})
_TIMED_IN_A_LOOP = frozenset({"speedup", "abs_latency", "eager_latency"})
_COMPILE_TIMES = frozenset({COMPILE_SECONDS, "compilation_latency"})
_BY_DEVICE = frozenset({"device_speedup", "device_latency", "eager_device_latency"})
"""What the host does never changes them."""
_OF_THE_DEVICE = frozenset({CautionKind.DEVICE_THROTTLED, CautionKind.DEVICE_SHARED})
_DISTURBING = _OF_THE_DEVICE | {
    CautionKind.BUSY_MACHINE,
    CautionKind.BUSY_WHILE_COMPILING,
    CautionKind.RECOMPILED_WHILE_TIMED,
}
_CALLS = {"abs_latency": ("compiled",), "eager_latency": ("eager",), "speedup": ("eager", "compiled")}
"""The calls that a wall time depends on."""


def disturbance_of(outcome: Outcome, metric: str) -> Caution | None:
    """Return the caution that makes a metric of an outcome unusable as a time; None if there is none."""
    if not outcome.cautions:
        return None
    for caution in outcome.cautions:
        if caution.kind in _DISTURBING and _concerns(caution.kind, metric, outcome):
            return caution
    return None


def is_all_disturbed(outcome: Outcome | None, metric: str) -> bool:
    """Return whether a metric of an outcome has no trial that was not disturbed."""
    found = next((each for each in outcome.measurements if each.metric == metric), None) if outcome else None
    return outcome is not None and found is not None and steady_part(outcome, found)[0] is None


def is_disturbed(row: Row) -> bool:
    """Return whether nothing but a disturbance of a side leaves a row undecided."""
    if row.ruling.levels is not None or not row.is_comparable:
        return False
    return any(is_all_disturbed(outcome, row.metric) for outcome in (row.new, row.base))


def tell_disturbances(found: Mapping[str, Caution]) -> str:
    """Return what disturbed each side, by its name; in one sentence if it was the same."""
    if len(merged(found.values())) > 1:
        return "; ".join(tell_disturbances({name: caution}) for name, caution in found.items())
    if not found:
        return ""
    (caution,) = merged(found.values())
    who, was, they = (
        (" and ".join(found), "were", "they were") if len(found) > 1 else (*found, "was", "it was")
    )
    when = "compiled" if caution.kind is CautionKind.BUSY_WHILE_COMPILING else "timed"
    return f"{who} {was} disturbed while {they} {when}: {describe_disturbance(caution)}"


def describe_disturbance(caution: Caution) -> str:
    """Return what disturbed the timing, in a few words."""
    if caution.kind in {CautionKind.BUSY_MACHINE, CautionKind.BUSY_WHILE_COMPILING}:
        low, high = span_of(caution.numbers["share"])
        share = f"{low:.0%}" if f"{low:.0%}" == f"{high:.0%}" else f"{100 * low:.0f} to {high:.0%}"
        return f"other work had the processor {share} of the time"
    if caution.kind is CautionKind.DEVICE_THROTTLED:
        return f"the device was throttled ({caution.names['reasons']})"
    if caution.kind is CautionKind.DEVICE_SHARED:
        return f"others used the device ({caution.names['processes']})"
    return "it was recompiled"


def _concerns(kind: CautionKind, metric: str, outcome: Outcome) -> bool:
    """Return whether a caution concerns a metric; times and rates that benchmarks report are taken in the timed loop."""
    if metric in _BY_DEVICE:
        return kind in _OF_THE_DEVICE
    if kind is CautionKind.BUSY_WHILE_COMPILING:
        return _is_compile_time(metric)
    if metric in _TIMED_IN_A_LOOP:
        return True
    known = find_metric(metric, outcome)
    if known is None or not (known.unit in _TIME_UNITS or known.unit.endswith("/s")):
        return False
    return kind is CautionKind.BUSY_MACHINE or metric not in METRICS


def _is_compile_time(metric: str) -> bool:
    """Return whether a metric is a compile time, or a saving of it."""
    known = METRICS.get(metric)
    if known is None or Probe.COMPILE_CACHE not in known.probes:
        return metric in _COMPILE_TIMES
    return known.unit == "s" or known.quantity == SAVED[0]


def _flags(outcome: Outcome, measurement: Measurement) -> list[bool]:
    """Return for each trial of a measurement whether it was disturbed.

    A file that does not say which of its trials were disturbed may mean any of them.
    """
    count = len(measurement.trials)
    if disturbance_of(outcome, measurement.metric) is None:
        return [False] * count
    noted = measurement.details.disturbed if measurement.details else None
    return [noted is None or index in noted for index in range(count)]


def mark_disturbed(joined: Measurement, outcomes: Sequence[Outcome]) -> Measurement:
    """Return joined trials with the indexes of those that were disturbed; ``outcomes`` are those they were joined from."""
    flags = [
        flag
        for outcome in outcomes
        for measurement in outcome.measurements
        if measurement.metric == joined.metric
        for flag in _flags(outcome, measurement)
    ]
    if not any(flags):
        return joined
    found = tuple(index for index, flag in enumerate(flags) if flag)
    return structs.replace(joined, details=structs.replace(joined.details or NO_DETAILS, disturbed=found))


def steady_part(outcome: Outcome, measurement: Measurement) -> tuple[Measurement | None, Caution | None]:
    """Return the trials that were not disturbed, and the caution about the others; no measurement if all were disturbed."""
    caution = disturbance_of(outcome, measurement.metric)
    if caution is None:
        return measurement, None
    flags = _flags(outcome, measurement)
    if not any(flags):
        return measurement, None
    steady = [samples for samples, flag in zip(measurement.trials, flags, strict=True) if not flag]
    if not steady:
        return None, caution
    details = structs.replace(
        measurement.details or NO_DETAILS,
        trials=tuple(map(len, steady)),
        disturbed=None,
        interval=None,
        confidence=None,
    )
    samples = tuple(sample for trial in steady for sample in trial)
    return structs.replace(measurement, samples=samples, details=details), caution


def find_host_bound(base: Outcome, new: Outcome, metric: str) -> HostBound | None:
    """Return how a wall time of two outcomes is to be judged if one of them is host-bound; None if neither is."""
    if metric not in DEVICE_COUNTERPARTS or not any(_is_host_bound(each, metric) for each in (base, new)):
        return None
    counterpart = DEVICE_COUNTERPARTS[metric]
    return HostBound(counterpart if _has(base, counterpart) and _has(new, counterpart) else "")


def _is_host_bound(outcome: Outcome, metric: str) -> bool:
    return any(
        caution.kind is CautionKind.HOST_BOUND and caution.names.get("side") in _CALLS[metric]
        for caution in outcome.cautions
    )


def _has(outcome: Outcome, metric: str) -> bool:
    return any(each.metric == metric for each in outcome.measurements)
