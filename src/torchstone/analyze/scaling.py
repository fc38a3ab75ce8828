"""Two DDP reports side by side: seconds per iteration and examples per second at a percentile, and the change.

Percentiles interpolate linearly between the two nearest samples, as NumPy's default does.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

PERCENTILES = (75, 95)


class Round(Struct, frozen=True):
    """The samples of one model on some ranks, seconds per iteration."""

    model: str
    batch_size: int
    ranks: int
    samples: tuple[float, ...]


class RoundChange(Struct, frozen=True):
    """One round of the test report against the same of the base: per percentile the seconds, examples a second, percent faster."""

    model: str
    batch_size: int
    ranks: int
    percentiles: dict[str, dict[str, float]]


def compare_rounds(base: Sequence[Sequence[Round]], test: Sequence[Sequence[Round]]) -> list[RoundChange]:
    """Compare as the original does: models and rounds pair by position; the first round, without DDP, is passed over.

    A pair of models that differ in name or batch size is left out, and so is a round on another number of ranks.
    """
    changes = []
    for base_rounds, test_rounds in zip(base, test, strict=False):
        if (base_rounds[0].model, base_rounds[0].batch_size) != (
            test_rounds[0].model,
            test_rounds[0].batch_size,
        ):
            continue
        for before, after in zip(base_rounds[1:], test_rounds[1:], strict=False):
            if before.ranks == after.ranks:
                changes.append(_change(before, after))
    return changes


def _change(before: Round, after: Round) -> RoundChange:
    at: dict[str, dict[str, float]] = {}
    for level in PERCENTILES:
        old, new = percentile(before.samples, level), percentile(after.samples, level)
        at[str(level)] = {
            "sec_per_iter": round(new, 3),
            "ex_per_sec": int(after.batch_size / new),
            "change_pct": round(-100 * (new - old) / old, 1),
        }
    return RoundChange(after.model, after.batch_size, after.ranks, at)


def percentile(samples: Sequence[float], level: float) -> float:
    """The value below which ``level`` percent of the samples lie, interpolated linearly.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 75)
    3.25
    """
    ordered = sorted(samples)
    position = (len(ordered) - 1) * level / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
