"""Define the interface of a counter, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

Counts = dict[str, float]
"""Counts by the suffix of the metric: ``instruction_count``, ``instruction_count_tree``."""


@dataclass(frozen=True)
class Lap:
    """One interval of counting: the amount, and the own cost by library and function, or the file that contains it."""

    amount: float
    functions: Mapping[tuple[str, str], float] = field(default_factory=dict)
    file: str = ""


class Counter(Protocol):
    """Count an iteration: ``begin``, then ``start`` and ``stop`` any number of times, then ``end`` returns the sum."""

    name: str
    unit: str

    def begin(self) -> None:
        """Reset before an iteration."""

    def start(self) -> None:
        """Start counting."""

    def stop(self) -> None:
        """Stop counting."""

    def end(self) -> Counts:
        """Return the count since ``begin``."""

    def lap(self) -> Lap:
        """Return the count since the last lap or ``begin``, while stopped; ``end`` is not called then."""
