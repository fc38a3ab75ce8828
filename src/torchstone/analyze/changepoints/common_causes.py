"""Find the causes behind changes of many series, each known only as a range of positions.

A cause is at one position. A change costs nothing if its cause lies where the change was found, and more the farther away it
lies, up to `AT_THE_END` at the ends of the range that noise leaves. Every further cause costs `A_CAUSE`. The causes with the
lowest sum explain the changes: so a wide range, which many causes could explain, joins no two causes, and two causes side by
side stay two if enough changes say clearly at which of both they began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from torchstone.analyze.changepoints.cheapest_causes import AT_THE_END, TOO_FAR, CauseRange, CheapestCauses

__all__ = ["CauseRange", "find_common_causes", "find_parts"]


def find_parts(ranges: Sequence[CauseRange]) -> list[list[int]]:
    """Return the indexes of ranges in parts: no cause explains ranges of two parts.

    >>> find_parts([CauseRange(1, 1, 3, 3), CauseRange(9, 9, 10, 10), CauseRange(2, 2, 5, 5)])
    [[0, 2], [1]]
    """
    parts: list[list[int]] = []
    end = float("-inf")
    spans = [_span(each) for each in ranges]
    for index in sorted(range(len(ranges)), key=lambda each: (spans[each], each)):
        first, last = spans[index]
        if first > end:
            parts.append([])
        parts[-1].append(index)
        end = max(end, last)
    return [sorted(part) for part in parts]


def _span(each: CauseRange) -> tuple[float, float]:
    """Return the first and the last position that a cause can have."""
    reach = TOO_FAR / AT_THE_END
    return each.after + 1 - reach * (each.after - each.earliest), each.at + reach * (each.latest - each.at)


def find_common_causes(ranges: Sequence[CauseRange], known: Mapping[int, int] | None = None) -> list[int]:
    """Return the number of the cause of each range, from 0; `known` has the cause of the ranges that have one for good.

    >>> find_common_causes([CauseRange(1, 1, 3, 3), CauseRange(9, 9, 10, 10), CauseRange(2, 2, 5, 5)])
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
