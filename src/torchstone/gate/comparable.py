"""Find what prevents comparing two numbers of one case: different environments, or different measuring methods."""

from __future__ import annotations

from msgspec import Struct

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution, merged
from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.environments import differences, unknowns
from torchstone.core.errors import printable
from torchstone.core.records import (
    BY_CALLS,
    BY_TIMERS,
    Measurement,
    Outcome,
    Reading,
    find_metric,
)
from torchstone.core.vocabulary import METRICS, Probe
from torchstone.gate.judgement import Conditions

_REPEATING_UNITS = frozenset({"GB", "bytes", "files"})
MOST_NAMED = 4
VERSION = "benchmark_version"
METHOD_KEYS = tuple(NO_DETAILS.methods())
"""The details of a measurement that say how it was measured, besides its counter."""
NOT_COMPARABLE = "not comparable: "
"""The beginning of the reason of a row whose sides were measured in different ways or places: more trials do not decide it."""
_VERSION_LENGTH = 12  # asv names versions by hashes

_METHOD_TEXTS = {
    ("start", "fork"): ("in forked workers", "in forked ones"),
    ("start", "spawn"): ("in spawned workers", "in spawned ones"),
    ("cache", "cold"): ("with a cold cache", "with a cold one"),
    ("cache", "warm"): ("with a warm cache", "with a warm one"),
    ("definition", BY_TIMERS): ("by torch's own timers", "by torch's own timers"),
    ("definition", BY_CALLS): (
        "as five compiled calls less five eager ones",
        "as five compiled calls less five eager ones",
    ),
}
"""Descriptions of methods: the first one in a sentence, and the second."""


class EnvironmentGap(Struct, frozen=True):
    """Two files of different environments, and the differences in words."""

    results: str
    baseline: str
    why: str


class Comparability:
    """Finds what prevents two numbers from being compared, and collects cautions about it."""

    def __init__(self, conditions: Conditions) -> None:
        self._upstream = conditions.policy.is_upstream
        self._cross_environment = conditions.cross_environment
        self._compare_anyway = conditions.compare_anyway
        self._gaps: dict[tuple[int, int], EnvironmentGap | None] = {}
        self._relevant_gaps: dict[EnvironmentGap, None] = {}
        self._counter_cautions: list[Caution] = []
        self._variable_cautions: list[Caution] = []

    def between(self, results: Reading, baseline: Reading) -> EnvironmentGap | None:
        """Return how the environments of two files differ; None if they do not, or if a file does not state its own."""
        if self._upstream or not (results.run.environment.is_stated and baseline.run.environment.is_stated):
            return None
        pair = id(results), id(baseline)
        if pair not in self._gaps:
            self._gaps[pair] = _find_gap(results, baseline)
            self._variable_cautions += [
                make_caution(
                    CautionKind.HIDDEN_VARIABLES_OF_FILES,
                    results=results.path,
                    baseline=baseline.path,
                    what=unknown.text,
                )
                for unknown in unknowns(results.run.environment, baseline.run.environment)
            ]
        return self._gaps[pair]

    def obstacle(
        self, gap: EnvironmentGap | None, metric: str, found: Measurement, wanted: Measurement
    ) -> str:
        """Say why two numbers are not comparable; empty if they are, or if the user wants to compare them anyway.

        Numbers of two counters are never comparable: they count different things.
        """
        ours, theirs = found.details, wanted.details
        if ours and theirs and (why := counter_difference(ours.counter, theirs.counter)):
            return why
        if gap is not None and depends_on_environment(metric, found, wanted):
            self._relevant_gaps[gap] = None
            if not self._cross_environment:
                return gap.why
        if ours and theirs and not self._compare_anyway and not self._upstream:
            return _method_difference(ours, theirs)
        return ""

    def note_counters(self, results: Reading, found: Outcome, baseline: Reading, wanted: Outcome) -> None:
        """Add a caution if only one of two files states what counted its instructions: the other's may differ."""
        if found.case.probe != Probe.INSTRUCTIONS or self._upstream:
            return
        for measurement in found.measurements:
            if not counts_instructions(measurement.metric):
                continue
            other = next((m for m in wanted.measurements if m.metric == measurement.metric), None)
            if other is None:
                continue
            ours, theirs = printable(measurement.counter, 40), printable(other.counter, 40)
            if ours and not theirs:
                self._note_counter(CautionKind.COUNTER_NOT_STATED, path=baseline.path, counter=ours)
            elif theirs and not ours:
                self._note_counter(
                    CautionKind.COUNTER_STATED_BY_OTHER,
                    path=results.path,
                    other=baseline.path,
                    counter=theirs,
                )

    def _note_counter(self, kind: CautionKind, **names: str) -> None:
        caution = make_caution(kind, **names)
        if caution not in self._counter_cautions:
            self._counter_cautions.append(caution)

    def cautions(self) -> list[Caution]:
        """Return the cautions about environments that differ and counters that are not stated: one per pair of files."""
        kind = (
            CautionKind.ENVIRONMENTS_DIFFER_ANYWAY
            if self._cross_environment
            else CautionKind.ENVIRONMENTS_DIFFER
        )
        gaps = (
            make_caution(kind, results=each.results, baseline=each.baseline, why=each.why)
            for each in self._relevant_gaps
        )
        return [*merged((*gaps, *self._variable_cautions)), *self._counter_cautions]


def depends_on_environment(metric: str, *found: Measurement | Outcome | None) -> bool:
    """Return whether values of a metric are comparable only within one environment: all but statuses and counts.

    ``found`` may define a metric that a benchmark reports: one that must be equal is a count.
    """
    known = find_metric(metric, *found)
    return known is None or not known.is_counted


def may_repeat(metric: str, *measurements: Measurement) -> bool:
    """Return whether trials may agree to the last digit, which times never do: memory and what is computed from it, metrics that benchmarks report, and whole numbers of unknown metrics."""
    known = METRICS.get(metric)
    if known is None and all(each.details and each.details.better for each in measurements):
        return True
    if known is None:
        return all(type(sample) is int for measurement in measurements for sample in measurement.samples)
    return known.unit in _REPEATING_UNITS or metric in {"compression_ratio", "tracked_value"}


def counts_instructions(metric: str) -> bool:
    """Return whether a metric counts instructions, which several counters do; the names of other metrics imply their counter."""
    known = METRICS.get(metric)
    return known is not None and known.unit == "instructions"


def counter_difference(ours: str, theirs: str) -> str:
    """Say that two counters differ; empty if they do not, or if one of them is not stated."""
    if not ours or not theirs or ours == theirs:
        return ""
    return f"counted by the {printable(ours, 40)} counter, the baseline by the {printable(theirs, 40)} one"


def _find_gap(results: Reading, baseline: Reading) -> EnvironmentGap | None:
    found = differences(results.run.environment, baseline.run.environment)
    if not found:
        return None
    more = len(found) - MOST_NAMED
    named = "; ".join(found[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return EnvironmentGap(results.path, baseline.path, named)


def _method_difference(found: MeasurementDetails, wanted: MeasurementDetails) -> str:
    """Say how two numbers were measured differently; empty if they were not, or if one does not state how."""
    expected = wanted.methods()
    for key, method in found.methods().items():
        other = expected[key]
        if method and other and method != other:
            return (
                f"measured {_describe_method(key, method)[0]}, the baseline {_describe_method(key, other)[1]}"
            )
    return ""


def _describe_method(key: str, method: object) -> tuple[str, str]:
    """Describe a method: for its first mention in a sentence, and for its second."""
    if key == VERSION:
        version = printable(str(method), _VERSION_LENGTH)
        return f"by version {version} of the benchmark's code", f"by version {version}"
    if key == "unit":
        return (f"in {printable(str(method), 40)}",) * 2
    if key == "better":
        return f"with {method} as better", f"with {method}"
    text = f"with {key} {printable(str(method), 40)}"
    return _METHOD_TEXTS.get((key, str(method))) or (text, text)


def have_same_method(one: Measurement, other: Measurement) -> bool:
    """Return whether two numbers were measured in the same way, as far as both say how."""
    ours, theirs = one.details, other.details
    if not ours or not theirs:
        return True
    return not counter_difference(ours.counter, theirs.counter) and not _method_difference(ours, theirs)
