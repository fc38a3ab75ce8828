"""Detect changes in whole series: divide them into windows, look at each window once, put the answers together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct, structs
from numpy.typing import ArrayLike

from torchstone.analyze.changepoints.change_point import ChangePoint, Decided, Kind, Update
from torchstone.analyze.changepoints.exact import find_in_counts, find_in_statuses
from torchstone.analyze.changepoints.noise_estimate import Floats, Indices
from torchstone.analyze.changepoints.pass_rates import find_in_pass_rates
from torchstone.analyze.changepoints.varying_numbers import find_in_numbers
from torchstone.analyze.changepoints.windows import SEAM, Window, divide, is_known

_DETECTORS: dict[Kind, Callable[[list[Floats], list[bool], float], list[list[ChangePoint]]]] = {
    Kind.NUMBER: find_in_numbers,
    Kind.COUNT: find_in_counts,
    Kind.STATUS: find_in_statuses,
    Kind.PASS_RATE: find_in_pass_rates,
}
"""Each takes windows, whether a window is the last of its series, and the certainty that is asked for."""


class _Tail(Struct, frozen=True):
    """The points of a series that are not settled, without gaps: values, and their indices in the series."""

    decided: Decided
    values: Floats
    indices: Indices


def update_series(series: Sequence[tuple[Decided, ArrayLike]], kind: Kind, certainty: float) -> list[Update]:
    """Find the changes of many series at once: windows of all of them are processed side by side."""
    tails = [_take_points(decided, values, kind) for decided, values in series]
    tasks = [
        (owner, window)
        for owner, tail in enumerate(tails)
        for window in divide(len(tail.values), resumed=tail.decided.needed_from > 0)
    ]
    changes = _DETECTORS[kind](
        [tails[owner].values[window.start : window.stop] for owner, window in tasks],
        [window.is_last for _, window in tasks],
        certainty,
    )
    by_owner: list[list[tuple[Window, list[ChangePoint]]]] = [[] for _ in series]
    for (owner, window), found in zip(tasks, changes, strict=True):
        by_owner[owner].append((window, found))
    return [_stitch(tail, results) for tail, results in zip(tails, by_owner, strict=True)]


def _take_points(decided: Decided, values: ArrayLike, kind: Kind) -> _Tail:
    """Leave out gaps: values that are not finite, and pass rates of nothing."""
    array = np.asarray(values, dtype=np.float64)
    if kind is Kind.PASS_RATE:
        array = array.reshape(-1, 2)
        is_point = np.isfinite(array).all(axis=1) & (array[:, 1] > 0)
    else:
        array = array.ravel()
        is_point = np.isfinite(array)
    kept = np.flatnonzero(is_point)
    return _Tail(decided, array[kept], kept + decided.needed_from)


def _stitch(tail: _Tail, results: list[tuple[Window, list[ChangePoint]]]) -> Update:
    """Put together what the windows decide: each about its middle, and none about a change that is decided."""
    settled = list(tail.decided.changes)
    new: list[ChangePoint] = []
    for window, found in results:
        settled += new
        last_known = settled[-1].index if settled else None
        new = []
        for change in found:
            at = window.start + change.index
            index = int(tail.indices[at])
            if window.decides_from - SEAM <= at < window.decides_to and not is_known(index, last_known):
                new.append(structs.replace(change, index=index))
    start = results[-1][0].start
    needed_from = int(tail.indices[start]) if start else tail.decided.needed_from
    return Update((*settled, *new), Decided(tuple(settled), needed_from))
