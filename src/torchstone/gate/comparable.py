"""What stands in the way of comparing two numbers of one case: another environment, or another way to measure."""

from __future__ import annotations

from msgspec import Struct

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution, merged
from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.errors import printable
from torchstone.core.records import (
    BY_CALLS,
    BY_TIMERS,
    Measurement,
    Outcome,
    Reading,
)
from torchstone.core.vocabulary import METRICS, Probe
from torchstone.gate.verdicts import Conditions

COUNTED_UNITS = frozenset(
    {
        "status",
        "calls",
        "graphs",
        "breaks",
        "frames",
        "compiles",
        "instructions",
        "look-ups",
        "% of look-ups",
    }
)
_REPEATING_UNITS = frozenset({"GB", "bytes", "files"})
MOST_NAMED = 4
VERSION = "benchmark_version"
WAYS = tuple(NO_DETAILS.ways())
_VERSION_LENGTH = 12  # asv names versions by hashes

_WAYS = {
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


class Apart(Struct, frozen=True):
    """Two files of different environments, and in what they differ."""

    results: str
    baseline: str
    why: str


class Comparability:
    """Finds what keeps two numbers from being compared, and remembers which environments that was about."""

    def __init__(self, conditions: Conditions) -> None:
        self._upstream = conditions.policy.is_upstream
        self._across = conditions.cross_environment
        self._anyway = conditions.compare_anyway
        self._pairs: dict[tuple[int, int], Apart | None] = {}
        self._unstated: list[Caution] = []
        self._met: dict[Apart, None] = {}
        self._unknown: list[Caution] = []

    def between(self, results: Reading, baseline: Reading) -> Apart | None:
        """How the environments of two files differ; None if they do not, or one of the files does not state its own."""
        if self._upstream or not (results.run.environment.is_stated and baseline.run.environment.is_stated):
            return None
        pair = id(results), id(baseline)
        if pair not in self._pairs:
            from torchstone.core.fingerprint import unknowns  # noqa: PLC0415  (most files state no environment)

            self._pairs[pair] = _compare(results, baseline)
            for unknown in unknowns(results.run.environment, baseline.run.environment):
                told = make_caution(
                    CautionKind.HIDDEN_VARIABLES_OF_FILES,
                    results=results.path,
                    baseline=baseline.path,
                    what=unknown.text,
                )
                self._unknown.append(told)
        return self._pairs[pair]

    def obstacle(self, apart: Apart | None, metric: str, found: Measurement, wanted: Measurement) -> str:
        """Why these two numbers are not comparable; empty if they are, or if they are to be compared all the same.

        Numbers of two counters never are, whatever is asked for: they count different things.
        """
        if found.details and wanted.details and (why := other_counter(found.counter, wanted.counter)):
            return why
        if apart is not None and depends_on_environment(metric):
            self._met[apart] = None
            if not self._across:
                return apart.why
        if found.details and wanted.details and not self._anyway and not self._upstream:
            return _other_way(found.details, wanted.details)
        return ""

    def note_counters(self, results: Reading, found: Outcome, baseline: Reading, wanted: Outcome) -> None:
        """Remember a file that does not say what counted its instructions, where the other file does: theirs may be different ones."""
        if found.case.probe != Probe.INSTRUCTIONS or self._upstream:
            return
        for measurement in found.measurements:
            if not counts_instructions(measurement.metric):
                continue
            other = next((m for m in wanted.measurements if m.metric == measurement.metric), None)
            if other is None:
                continue
            ours, theirs = measurement.counter, other.counter
            if ours and not theirs:
                counter = printable(ours, 40)
                self._note(make_caution(CautionKind.COUNTER_NOT_STATED, path=baseline.path, counter=counter))
            elif theirs and not ours:
                counter = printable(theirs, 40)
                self._note(
                    make_caution(
                        CautionKind.COUNTER_STATED_BY_OTHER,
                        path=results.path,
                        other=baseline.path,
                        counter=counter,
                    )
                )

    def _note(self, caution: Caution) -> None:
        if caution not in self._unstated:
            self._unstated.append(caution)

    def cautions(self) -> list[Caution]:
        """Environments that differ and counters that are not stated: once for each pair of files, not once a row."""
        kind = CautionKind.ENVIRONMENTS_DIFFER_ANYWAY if self._across else CautionKind.ENVIRONMENTS_DIFFER
        apart = (
            make_caution(kind, results=each.results, baseline=each.baseline, why=each.why)
            for each in self._met
        )
        return [*merged((*apart, *self._unknown)), *self._unstated]


def depends_on_environment(metric: str) -> bool:
    """Whether a number means something only in the environment it was measured in: all but statuses and counts."""
    known = METRICS.get(metric)
    return known is None or known.unit not in COUNTED_UNITS


def may_repeat(metric: str, *measurements: Measurement) -> bool:
    """Whether several trials may well agree to the last digit, as no times do: memory and what follows from it, and whole numbers that nothing is known of."""
    known = METRICS.get(metric)
    if known is None:
        return all(type(sample) is int for measurement in measurements for sample in measurement.samples)
    return known.unit in _REPEATING_UNITS or metric in {"compression_ratio", "tracked_value"}


def counts_instructions(metric: str) -> bool:
    """Whether a metric counts instructions, which more than one counter does; the names of all others say what counted."""
    known = METRICS.get(metric)
    return known is not None and known.unit == "instructions"


def other_counter(found: str, wanted: str) -> str:
    """Return how two numbers were counted by different counters; empty if they were not, or one is not stated."""
    if not found or not wanted or found == wanted:
        return ""
    return f"counted by the {printable(found, 40)} counter, the baseline by the {printable(wanted, 40)} one"


def _compare(results: Reading, baseline: Reading) -> Apart | None:
    from torchstone.core.fingerprint import differences  # noqa: PLC0415  (most files state no environment)

    found = differences(results.run.environment, baseline.run.environment)
    if not found:
        return None
    more = len(found) - MOST_NAMED
    named = "; ".join(found[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return Apart(results.path, baseline.path, named)


def _other_way(found: MeasurementDetails, wanted: MeasurementDetails) -> str:
    """Return how two numbers were measured in different ways; empty if they were not, or one side does not say."""
    ours, theirs = found.ways(), wanted.ways()
    for key, way in ours.items():
        other = theirs[key]
        if way and other and way != other:
            return f"measured {_told(key, way)[0]}, the baseline {_told(key, other)[1]}"
    return ""


def _told(key: str, way: object) -> tuple[str, str]:
    """The way in words: how to say it first, and how the second time."""
    if key == VERSION:
        version = printable(str(way), _VERSION_LENGTH)
        return f"by version {version} of the benchmark's code", f"by version {version}"
    plainly = f"with {key} {printable(str(way), 40)}"
    return _WAYS.get((key, str(way))) or (plainly, plainly)


def is_alike(one: Measurement, other: Measurement) -> bool:
    """Return whether two numbers were measured in the same way, as far as both say how."""
    if not one.details or not other.details:
        return True
    return not other_counter(one.counter, other.counter) and not _other_way(one.details, other.details)
