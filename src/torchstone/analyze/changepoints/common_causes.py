"""Find the causes behind changes of many series, each known only as a range of positions.

A cause is at one position. A change costs nothing if its cause lies where the change was found, and more the farther away it
lies: `AT_THE_END` at the ends of the range that noise leaves, and still more beyond, up to `TOO_FAR`. Every further cause
costs `A_CAUSE`. The causes with the lowest sum explain the changes: so a wide range, which many causes could explain, joins no two causes, and two causes side by
side stay two if enough changes say clearly at which of both they began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from torchstone.analyze.changepoints.cheapest_causes import CauseRange, CheapestCauses

__all__ = ["CauseRange", "find_common_causes", "find_parts"]


def find_parts(ranges: Sequence[CauseRange]) -> list[list[int]]:
    """Return the indexes of ranges in parts: no cause explains ranges of two parts.

    >>> find_parts([CauseRange(1, 1, 3, 3), CauseRange(50, 50, 51, 51), CauseRange(2, 2, 5, 5)])
    [[0, 2], [1]]
    """
    parts: list[list[int]] = []
    end = float("-inf")
    spans = [each.span for each in ranges]
    for index in sorted(range(len(ranges)), key=lambda each: (spans[each], each)):
        first, last = spans[index]
        if first > end:
            parts.append([])
        parts[-1].append(index)
        end = max(end, last)
    return [sorted(part) for part in parts]


def find_common_causes(ranges: Sequence[CauseRange], known: Mapping[int, int] | None = None) -> list[int]:
    """Return the number of the cause of each range, from 0; `known` has the cause of the ranges that have one for good.

    >>> find_common_causes([CauseRange(1, 1, 3, 3), CauseRange(50, 50, 51, 51), CauseRange(2, 2, 5, 5)])
    [0, 1, 0]
    """
    given = known or {}
    causes = [-1] * len(ranges)
    following = max(given.values(), default=-1) + 1
    parts = find_parts(ranges)
    homes = _find_homes(parts, given)
    for number, part in enumerate(parts):
        at_home = {
            cause: [index for index in part if given.get(index) == cause]
            for cause in homes
            if homes[cause] == number
        }
        free = [index for index in part if index not in given]
        for index in part:
            causes[index] = given.get(index, -1)
        sites = [[ranges[index] for index in each] for each in at_home.values()]
        names = list(at_home)
        for index, site in zip(
            free, CheapestCauses([ranges[each] for each in free], sites).assign(), strict=True
        ):
            while site >= len(names):
                names.append(following)
                following += 1
            causes[index] = names[site]
    return causes


def _find_homes(parts: Sequence[Sequence[int]], known: Mapping[int, int]) -> dict[int, int]:
    """Return the part in which most ranges of a known cause lie: only there does it explain others."""
    counts = Counter(
        (known[index], number) for number, part in enumerate(parts) for index in part if index in known
    )
    homes: dict[int, int] = {}
    for cause, number in sorted(counts, key=lambda pair: (-counts[pair], pair)):
        homes.setdefault(cause, number)
    return dict(sorted(homes.items()))
