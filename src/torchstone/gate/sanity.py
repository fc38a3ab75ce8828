"""Find numbers of one result that cannot all be true, whatever the baseline says."""

from __future__ import annotations

import math
from collections.abc import Iterator

from torchstone.core.records import Measurement, Number, Outcome
from torchstone.core.text.units import format_number
from torchstone.core.vocabulary import METRICS, Probe
from torchstone.gate.baseline import runs_to_its_end

_SMALLEST_MEMORY = 0.01  # GB; below this, six decimals are too few to recompute a ratio from
_RATIO_TOLERANCE = 0.01
_OF_MEMORY = ("eager_peak_mem", "dynamo_peak_mem", "compression_ratio")
_COUNTED = frozenset(name for name, metric in METRICS.items() if Probe.INSTRUCTIONS in metric.probes)
_RELATED = frozenset(f"{name}{ending}" for name in _COUNTED for ending in ("", "_tree")) | {
    "graph_breaks",
    "unique_graph_breaks",
    "unique_graphs",
    "calls_captured",
}
"""The metrics whose values are checked against each other."""
_TREES = frozenset(f"{name}_tree" for name in _COUNTED)
_DEPENDENT = _TREES | {
    "unique_graph_breaks",
    "calls_captured",
    "compression_ratio",
}
"""The metrics that can contradict another one: without any of them there is nothing to check."""
_NEVER_ZERO = _COUNTED | {
    "abs_latency",
    "device_latency",
    "eager_device_latency",
    "iteration_time",
    "seconds",
}


def find_inconsistencies(measurements: tuple[Measurement, ...]) -> Iterator[tuple[str, str]]:
    """Yield the metrics whose values cannot be right, and why."""
    finite = measurements
    for measurement in measurements:
        samples, metric = measurement.samples, measurement.metric
        is_single = len(samples) == 1  # as in the large tables of other tools
        least = samples[0] if is_single else min(samples)
        if is_single and (0 < least < math.inf or (least == 0 and metric not in _NEVER_ZERO)):
            continue
        if 0 < least < math.inf and _is_finite(measurement):
            continue
        if not _is_finite(measurement):
            finite = tuple(each for each in finite if each is not measurement)
            yield metric, "a sample is not a finite number"
            continue
        if least == 0 and metric in _NEVER_ZERO:
            yield metric, "0 is not a possible value"
        if least < 0 and metric in METRICS and not METRICS[metric].signed:
            yield metric, f"{format_number(least)} is negative"
    if not _DEPENDENT.isdisjoint([measurement.metric for measurement in measurements]):
        yield from _check_relations(finite)


def _is_finite(measurement: Measurement) -> bool:
    # Compared, not converted: a whole number may be too large for a float.
    return all(-math.inf < sample < math.inf for sample in measurement.samples)


def _check_relations(measurements: tuple[Measurement, ...]) -> Iterator[tuple[str, str]]:
    """Yield metrics whose values contradict those of others."""
    values = {each.metric: _value_of(each) for each in measurements if each.metric in _RELATED}
    breaks, unique = values.get("graph_breaks"), values.get("unique_graph_breaks")
    if breaks is not None and unique is not None and unique > breaks:
        yield (
            "unique_graph_breaks",
            f"{format_number(unique)} distinct graph breaks, but only {format_number(breaks)} in all",
        )
    if values.get("unique_graphs") == 0 and values.get("calls_captured", 0) > 0:
        yield "calls_captured", f"{format_number(values['calls_captured'])} calls captured without any graph"
    yield from _check_compression(measurements)
    if not _TREES.isdisjoint(values):
        yield from _check_trees(values)


def _value_of(measurement: Measurement) -> Number:
    samples = measurement.samples
    return samples[0] if len(samples) == 1 else measurement.value


def _check_trees(values: dict[str, Number]) -> Iterator[tuple[str, str]]:
    for metric in sorted(_COUNTED & values.keys()):
        whole, alone = values.get(f"{metric}_tree"), values[metric]
        if whole is not None and whole < alone:
            why = (
                f"{format_number(whole)} in the process tree, but {format_number(alone)} in the process alone"
            )
            yield f"{metric}_tree", why


def _check_compression(measurements: tuple[Measurement, ...]) -> Iterator[tuple[str, str]]:
    """Check the compression ratio of each trial; medians may come from different trials."""
    trials = {
        each.metric: each.samples if len(each.samples) == 1 else each.trial_values
        for each in measurements
        if each.metric in _OF_MEMORY
    }
    if len(trials) < len(_OF_MEMORY) or len(set(map(len, trials.values()))) > 1:
        return
    for eager, compiled, ratio in zip(*(trials[metric] for metric in _OF_MEMORY), strict=True):
        if min(eager, compiled) < _SMALLEST_MEMORY:
            continue
        if abs(ratio - eager / compiled) > _RATIO_TOLERANCE * ratio:
            found = f"{format_number(eager)} GB over {format_number(compiled)} GB is {format_number(eager / compiled)}"
            yield "compression_ratio", f"{found}, not {format_number(ratio)}"
            return


def is_consistent(outcome: Outcome) -> bool:
    """Return whether the numbers of an outcome mean something: the case ran to its end, and they do not contradict each other."""
    return runs_to_its_end(outcome.status) and not any(find_inconsistencies(outcome.measurements))
