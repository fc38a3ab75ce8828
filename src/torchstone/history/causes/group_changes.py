"""Group the changes of a branch by their causes, and name each group by what its members share.

Membership follows from the changes alone, in whatever order they arrive (``analyze/changepoints/common_causes.py``): changes for
the better and for the worse that begin together have one cause. A group that somebody decided about keeps its members; of the
others, one goes on as the cause that most of its members have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from torchstone.analyze.changepoints.common_causes import CauseRange, find_common_causes
from torchstone.history.change_records import SeriesChange


class Grouped(Struct, frozen=True):
    """The changes of one cause, oldest first; ``number`` is that of the group they belong to, None for a new group."""

    number: int | None
    changes: tuple[SeriesChange, ...]


def make_range(
    earliest: int, after: int, at: int, latest: int, *, subject: int = 0, is_exact: bool
) -> CauseRange:
    """Return where the cause of a change lies; runs of one revision, and ranges that are narrower than their change, are mended."""
    first_new = max(after + 1, at)
    return CauseRange(min(earliest, after), after, first_new, max(latest, first_new), subject, is_exact)


def _range_of(change: SeriesChange, subject: int) -> CauseRange:
    after, at = change.last_old.position, change.first_new.position
    is_exact = change.metric.is_counted
    return make_range(change.earliest, after, at, change.latest, subject=subject, is_exact=is_exact)


def group_changes(changes: Sequence[SeriesChange], decided: Collection[int] = ()) -> list[Grouped]:
    """Return the changes in groups, the earliest first. ``decided`` are groups that somebody decided about: they keep their changes."""
    groups: list[Grouped] = []
    for branch in sorted({each.branch for each in changes}):
        here = sorted((each for each in changes if each.branch == branch), key=_in_order)
        groups += _group_branch(here, decided)
    return groups


def _in_order(change: SeriesChange) -> tuple[int, int, int]:
    return change.first_new.position, change.last_old.position, change.id


def _group_branch(changes: Sequence[SeriesChange], decided: Collection[int]) -> list[Grouped]:
    subjects = {
        case: number for number, case in enumerate(dict.fromkeys(each.series.case for each in changes))
    }
    ranges = [_range_of(each, subjects[each.series.case]) for each in changes]
    fixed = [each.group if each.group in decided else None for each in changes]
    names = {group: number for number, group in enumerate(dict.fromkeys(filter(None, fixed)))}
    causes = find_common_causes(
        ranges, {index: names[group] for index, group in enumerate(fixed) if group is not None}
    )
    members: dict[int, list[SeriesChange]] = {}
    for change, cause in zip(changes, causes, strict=True):
        members.setdefault(cause, []).append(change)
    numbers = {number: group for group, number in names.items()}
    numbers |= _go_on({cause: each for cause, each in members.items() if cause not in numbers}, decided)
    return [Grouped(numbers.get(cause), tuple(each)) for cause, each in members.items()]


def _go_on(members: Mapping[int, Sequence[SeriesChange]], decided: Collection[int]) -> dict[int, int]:
    """Return which existing group goes on as which cause: the one with most members in common first, then the older one."""
    shared = Counter(
        (cause, each.group)
        for cause, changes in members.items()
        for each in changes
        if each.group is not None and each.group not in decided
    )
    taken: dict[int, int] = {}
    for cause, group in sorted(shared, key=lambda pair: (-shared[pair], pair[1], pair[0])):
        if cause not in taken and group not in taken.values():
            taken[cause] = group
    return taken
