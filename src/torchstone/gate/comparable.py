"""What stands in the way of comparing two numbers of one case: another environment, or another way to measure."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from torchstone.errors import printable
from torchstone.gate.verdicts import Conditions
from torchstone.model import Measurement, Reading
from torchstone.vocabulary import METRICS

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
MOST_NAMED = 4

_WAYS = {
    ("start", "fork"): ("in forked workers", "in forked ones"),
    ("start", "spawn"): ("in spawned workers", "in spawned ones"),
    ("cache", "cold"): ("with a cold cache", "with a cold one"),
    ("cache", "warm"): ("with a warm cache", "with a warm one"),
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
        self._met: dict[Apart, None] = {}

    def between(self, results: Reading, baseline: Reading) -> Apart | None:
        """How the environments of two files differ; None if they do not, or one of the files does not state its own."""
        if not results.run.environment or not baseline.run.environment or self._upstream:
            return None
        pair = id(results), id(baseline)
        if pair not in self._pairs:
            self._pairs[pair] = _compare(results, baseline)
        return self._pairs[pair]

    def obstacle(self, apart: Apart | None, metric: str, found: Measurement, wanted: Measurement) -> str:
        """Why these two numbers are not comparable; empty if they are, or if they are to be compared all the same."""
        if apart is not None and depends_on_environment(metric):
            self._met[apart] = None
            if not self._across:
                return apart.why
        if found.extra and wanted.extra and not self._anyway and not self._upstream:
            return _other_way(found.extra, wanted.extra)
        return ""

    def cautions(self) -> list[str]:
        """What is to be said about environments that differ: once for each pair of files, not once a row."""
        so_what = (
            "compared all the same (--cross-environment)"
            if self._across
            else "times and memory were not compared; --cross-environment compares them all the same"
        )
        return [
            f"{apart.results} and {apart.baseline} are of different environments ({apart.why}): {so_what}"
            for apart in self._met
        ]


def depends_on_environment(metric: str) -> bool:
    """Whether a number means something only in the environment it was measured in: all but statuses and counts."""
    known = METRICS.get(metric)
    return known is None or known.unit not in COUNTED_UNITS


def _compare(results: Reading, baseline: Reading) -> Apart | None:
    from torchstone.fingerprint import differences  # noqa: PLC0415  (most files state no environment)

    found = differences(results.run.environment, baseline.run.environment)
    if not found:
        return None
    more = len(found) - MOST_NAMED
    named = "; ".join(found[:MOST_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return Apart(results.path, baseline.path, named)


def _other_way(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """How two numbers were measured in different ways, where both say how."""
    for key in ("start", "cache"):
        way, other = found.get(key), wanted.get(key)
        if way and other and way != other:
            return f"measured {_told(key, way)[0]}, the baseline {_told(key, other)[1]}"
    return ""


def _told(key: str, way: object) -> tuple[str, str]:
    """The way in words: how to say it first, and how the second time."""
    plainly = f"with {key} {printable(str(way), 40)}"
    return _WAYS.get((key, str(way))) or (plainly, plainly)
