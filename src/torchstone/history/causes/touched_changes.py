"""Choose which changes to group again when some are new or have moved: those whose cause may be another one now."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct

from torchstone.analyze.changepoints.common_causes import CauseRange, find_parts

LARGEST_PART = 1000
"""Parts with more changes are not grouped again as a whole."""

_Span = tuple[float, float]


class ChangePlace(Struct, frozen=True):
    """What the choice needs to know of a change: its group, and where its cause lies."""

    id: int
    group: int | None
    range: CauseRange


class Touched(Struct, frozen=True):
    """The ids of changes to group again; and the groups among theirs that keep their members, and can only get more."""

    ids: tuple[int, ...] = ()
    kept: frozenset[int] = frozenset()


def find_touched(places: Sequence[ChangePlace], moved: Collection[int]) -> Touched:
    """Return what may share a cause with a change that is new or ``moved``, or with other members of its group.

    Where changes are so dense that most of the store hangs together, what is near is grouped again, and groups around it are kept.
    """
    new = {index for index, each in enumerate(places) if each.group is None or each.id in moved}
    if not new:
        return Touched()
    parts = find_parts([each.range for each in places])
    dense = [index for part in parts if len(part) > LARGEST_PART for index in part]
    chosen = _overlapping(places, dense, new.intersection(dense)) | new
    while more := _hang_together(places, parts, chosen) - chosen:
        chosen |= more
    around = _overlapping(places, dense, chosen.intersection(dense)) - chosen
    kept = {group for index in around if (group := places[index].group) is not None}
    everything = chosen | {index for index, each in enumerate(places) if each.group in kept}
    return Touched(tuple(sorted(places[index].id for index in everything)), frozenset(kept))


def _hang_together(
    places: Sequence[ChangePlace], parts: Sequence[Sequence[int]], chosen: Collection[int]
) -> set[int]:
    """Return some changes, the other members of their groups, and their parts, unless these are dense."""
    groups = {places[index].group for index in chosen} - {None}
    found = {*chosen, *(index for index, each in enumerate(places) if each.group in groups)}
    for part in parts:
        if len(part) <= LARGEST_PART and not found.isdisjoint(part):
            found.update(part)
    return found


def _overlapping(places: Sequence[ChangePlace], some: Iterable[int], others: Iterable[int]) -> set[int]:
    """Return those of ``some`` that may share a cause with one of the others."""
    spans = _merge(sorted(places[index].range.span for index in others))
    ends = [last for _, last in spans]
    found = set()
    for index in some:
        first, last = places[index].range.span
        at = bisect_left(ends, first)
        if at < len(spans) and spans[at][0] <= last:
            found.add(index)
    return found


def _merge(spans: Sequence[_Span]) -> list[_Span]:
    merged: list[_Span] = []
    for first, last in spans:
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged
