"""Policies: which verdicts block.

``strict`` and ``lenient`` are ours; ``upstream`` decides as the scripts it replaces do.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from torchstone.core.records import Outcome, Rule
from torchstone.core.vocabulary import ACCURACY, PASSED, Verdict
from torchstone.gate.baseline import has_ended_well

STRICT_BLOCKS = frozenset(
    {Verdict.INVALID, Verdict.MISSING, Verdict.REGRESSION, Verdict.INCONCLUSIVE, Verdict.NEW}
)

LENIENT_BLOCKS = STRICT_BLOCKS - {Verdict.INCONCLUSIVE, Verdict.NEW}
"""The verdicts that block under the policy ``lenient``: what could not be decided does not stop a branch, and is never shown as a success."""

_TWO_SIDED = frozenset({Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.INVALID})
_UPSTREAM_BLOCKS: dict[str, frozenset[Verdict]] = {
    "status_equal": _TWO_SIDED | {Verdict.NEW},
    "count": _TWO_SIDED | {Verdict.NEW},
    "margin": _TWO_SIDED | {Verdict.MISSING},
}
_LABELS = {
    Verdict.PASS: "PASS",
    Verdict.EXPECTED_FAILURE: "XFAIL",
    Verdict.REGRESSION: "FAIL",
    Verdict.IMPROVEMENT: "IMPROVED",
}
UPSTREAM_COUNTS = ("graph_breaks", "calls_captured", "unique_graphs", "fallbacks_to_eager")


class Policy(Struct, frozen=True):
    """A policy, with the verdicts that the user wants to block or to allow in addition."""

    name: str = "strict"
    block: frozenset[Verdict] = frozenset()
    allow: frozenset[Verdict] = frozenset()
    upstream_version: str = ""
    """The upstream version whose flaky list applies, under the policy upstream."""
    of_comparison: bool = False
    """Return whether two runs are compared, rather than results checked against a baseline."""

    @property
    def title(self) -> str:
        """The name of the policy in reports."""
        return f"policy {self.name}" + (
            f", flaky list {self.upstream_version}" if self.upstream_version else ""
        )

    @property
    def is_upstream(self) -> bool:
        """Return whether decisions follow PyTorch's own scripts."""
        return self.name == "upstream"

    def blocks(self, verdict: Verdict, rule: Rule | None = None, new: Outcome | None = None) -> bool:
        """Return whether a row with this verdict makes the exit code 1.

        ``new`` is the outcome that was judged. A new case that failed blocks like any failure, even if new cases may pass.
        """
        failed = verdict is Verdict.NEW and new is not None and not has_ended_well(new)
        if failed and not self.is_upstream and self._blocks(Verdict.REGRESSION, rule):
            return True
        return self._blocks(verdict, rule)

    def _blocks(self, verdict: Verdict, rule: Rule | None) -> bool:
        if verdict in self.allow:
            return False
        if verdict in self.block:
            return True
        if self.is_upstream and self.of_comparison:  # upstream only prints comparisons, and never blocks
            return False
        if self.is_upstream:
            return verdict in _UPSTREAM_BLOCKS.get(
                rule.kind if rule else "", frozenset({Verdict.REGRESSION, Verdict.INVALID})
            )
        return verdict in (LENIENT_BLOCKS if self.name == "lenient" else STRICT_BLOCKS)


def make_policy(
    name: str, block: Iterable[Verdict], allow: Iterable[Verdict], upstream_version: str = ""
) -> Policy:
    """Return a policy for checks against a baseline."""
    return Policy(name, frozenset(block), frozenset(allow), upstream_version)


def comparison_policy(
    name: str = "strict", block: Iterable[Verdict] = (), allow: Iterable[Verdict] = ()
) -> Policy:
    """Return a policy for the comparison of two runs."""
    return Policy(name, frozenset(block), frozenset(allow), of_comparison=True)


def upstream_metrics(metrics: Iterable[str]) -> set[str]:
    """Return the metrics that upstream would judge of those expected: each of its scripts judges one kind."""
    known = set(metrics)
    if ACCURACY in known:
        return {ACCURACY}
    if "compression_ratio" in known:
        return {"compression_ratio"}
    return known


def upstream_label(verdict: Verdict, metric: str, actual: Outcome | None) -> str:
    """Return upstream's own label for a row."""
    if verdict in _LABELS:
        return _LABELS[verdict]
    passed = actual is not None and actual.value(metric) == PASSED
    if verdict is Verdict.QUARANTINED:
        return "PASS_BUT_FLAKY" if passed else "FAIL_BUT_FLAKY"
    if verdict is Verdict.NEW and metric == ACCURACY:
        return "IMPROVED" if passed else "FAIL"
    return "MISSING"
