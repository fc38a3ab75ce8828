"""Cautions about values that passed, but are close to the limit of their rule."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from torchstone.analyze.evidence import Comparison
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import printable
from torchstone.core.records import Case, Number, Rule
from torchstone.core.text.units import format_change, format_value
from torchstone.gate.rules import SHARES, limits_of

MOST_NAMED = 5
NEAR_EDGE = 0.8
"""The share of the allowed change from which a value that passes gets a caution."""


class NearEdge(Struct, frozen=True, gc=False):
    """A value that passed, but used up most of the allowed change."""

    case: Case
    metric: str
    value: Number
    expected: Number
    limit: float
    unit: str = ""

    @property
    def used(self) -> float:
        """The share of the allowed change that was used up."""
        return (self.value - self.expected) / (self.limit - self.expected)


def find_near_limit(comparison: Comparison, rule: Rule, margin: float | None) -> float | None:
    """Return the limit that a passing value is close to, or None."""
    if rule.kind not in SHARES or not comparison.base.values:
        return None
    expected, value = comparison.base.values[0], comparison.new.values[0]
    if value == expected:
        return None
    limits = limits_of(rule, expected, margin)
    limit = limits.high if value > expected else limits.low
    if limit is not None and abs(value - expected) > NEAR_EDGE * abs(limit - expected):
        return limit
    return None


def near_edge_cautions(near: Sequence[NearEdge]) -> list[Caution]:
    """Return a caution for each value near its limit, nearest first; if there are many, the rest are only counted."""
    ordered = sorted(near, key=lambda each: each.used, reverse=True)
    return first_few([_near_edge_caution(each) for each in ordered], CautionKind.MORE_NEAR_EDGE)


def _near_edge_caution(near: NearEdge) -> Caution:
    found, wanted, limit = (format_value(each, near.unit) for each in (near.value, near.expected, near.limit))
    return make_caution(
        CautionKind.NEAR_EDGE,
        row=name_row(near.case, near.metric),
        found=found,
        wanted=wanted,
        change=format_change(near.value, near.expected),
        used=100 * min(1.0, near.used),
        limit=limit,
    )


def first_few(cautions: list[Caution], rest: CautionKind) -> list[Caution]:
    """Return the first cautions, and one of kind ``rest`` that counts the others."""
    more = len(cautions) - MOST_NAMED
    return cautions[:MOST_NAMED] + ([make_caution(rest, rows=more)] if more > 0 else [])


def name_row(case: Case, metric: str) -> str:
    """Return a name for a row, with all stated axes: the same benchmark may have several rows."""
    axes = ", ".join(f"{axis} {value}" for axis, value in case.variant.axes().items())
    return printable(f"{metric} of {case.name}{f' ({axes})' if axes else ''}", 240)
