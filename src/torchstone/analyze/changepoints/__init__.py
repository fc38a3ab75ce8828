"""Find the points of a series where its level changes.

Arrays in, change points out: no records, no files, no clock.

    values -> windows -> scaled by their noise -> candidates -> pruned by certainty -> change points

`windows` divides a series so that nothing is decided twice, `scaled_windows` and `noise_estimate` make windows comparable,
`segmentation` finds candidates, `features` describes them and `pruning` drops the uncertain ones; `varying_numbers` is these
steps in order. `exact` and `pass_rates` take their place for values that do not vary at random, or only as a
proportion does. docs/changes.md has definitions, sources and measurements.

Non-finite values are gaps. Nothing here raises for odd data; only for arguments that make no sense.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from torchstone.analyze.changepoints.change_point import (
    DEFAULT_CERTAINTY,
    ChangePoint,
    Decided,
    Kind,
    Update,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "ChangePoint",
    "Decided",
    "Kind",
    "Update",
    "find_changes",
    "find_changes_in_many",
    "find_changes_in_statuses",
    "update",
    "update_many",
]


def find_changes(
    values: ArrayLike, *, kind: Kind = Kind.NUMBER, certainty: float = DEFAULT_CERTAINTY
) -> list[ChangePoint]:
    """Return the changes of level of a series, oldest first.

    >>> [change.index for change in find_changes([10, 10.1, 9.9, 10, 10.1, 9.9] * 3 + [12, 12.1, 11.9] * 6)]
    [18]
    """
    return find_changes_in_many([values], kind=kind, certainty=certainty)[0]


def find_changes_in_many(
    series: Sequence[ArrayLike], *, kind: Kind = Kind.NUMBER, certainty: float = DEFAULT_CERTAINTY
) -> list[list[ChangePoint]]:
    """Return the changes of each series: the same as one by one, but several times as fast."""
    updates = update_many([(Decided(), values) for values in series], kind=kind, certainty=certainty)
    return [list(each.changes) for each in updates]


def find_changes_in_statuses(
    statuses: Sequence[Hashable], *, certainty: float = DEFAULT_CERTAINTY
) -> list[ChangePoint]:
    """Return the changes of status; `before` and `after` are places in the list of statuses in order of appearance.

    >>> [change.index for change in find_changes_in_statuses(["pass", "pass", "timeout"])]
    [2]
    """
    codes = {status: float(code) for code, status in enumerate(dict.fromkeys(statuses))}
    return find_changes([codes[status] for status in statuses], kind=Kind.STATUS, certainty=certainty)


def update(
    decided: Decided,
    values: ArrayLike,
    *,
    kind: Kind = Kind.NUMBER,
    certainty: float = DEFAULT_CERTAINTY,
) -> Update:
    """Return all changes of a series, given what is decided and its values from `decided.needed_from` on.

    The result is the same as that of `find_changes` on the whole series, and takes as long as a few hundred points.
    """
    return update_many([(decided, values)], kind=kind, certainty=certainty)[0]


def update_many(
    series: Sequence[tuple[Decided, ArrayLike]],
    *,
    kind: Kind = Kind.NUMBER,
    certainty: float = DEFAULT_CERTAINTY,
) -> list[Update]:
    """Update many series at once: see `update`."""
    if not 0 < certainty < 1:
        raise ValueError(f"certainty must be between 0 and 1, got {certainty}")
    from torchstone.analyze.changepoints.whole_series import update_series  # noqa: PLC0415  (loads numpy: start-up time)

    return update_series(series, kind, certainty)
