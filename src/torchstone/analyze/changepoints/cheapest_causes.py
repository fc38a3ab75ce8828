"""Find the causes of a few ranges that cost least: begin with those that explain most, then move, add and join.

Noise alone scatters the members of one cause. So two causes have to explain more than what they cost and what it takes to say
which range has which: n log 2 for n ranges that divide evenly, log n for a single one apart from the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

AT_THE_END = 3.0
"""The cost of a cause at an end of a range; as of a range that holds its cause in 95 of 100 cases."""
TOO_FAR = 4.5
"""A change has no cause at a position that would cost more."""
A_CAUSE = 6.0
"""The cost of a further cause."""
_NEVER = 1e6
_MOST_STEPS = 200


class CauseRange(Struct, frozen=True):
    """Where the cause of a change lies: after ``after``, at ``at`` at the latest; noise extends this to ``earliest`` and ``latest``.

    Changes with one ``subject``, such as several metrics of one case, share their noise, and so count less.
    """

    earliest: int
    after: int
    at: int
    latest: int
    subject: int = 0

    @property
    def bounds(self) -> tuple[int, int, int, int]:
        """The positions, without the subject."""
        return self.earliest, self.after, self.at, self.latest

    def cost_of(self, position: int) -> float:
        """Return what a cause at a position costs; infinite if it is too far away."""
        if self.after < position <= self.at:
            return 0.0
        if position > self.at:
            distance, reach = position - self.at, self.latest - self.at
        else:
            distance, reach = self.after + 1 - position, self.after - self.earliest
        cost = AT_THE_END * distance / reach if reach > 0 else math.inf
        return cost if cost <= TOO_FAR else math.inf


class CheapestCauses:
    """Ranges that may have causes in common, and the positions that these may have.

    ``known`` are the ranges of causes that exist already: these stay where they are, cost nothing more, and come first in
    every list of causes.
    """

    def __init__(self, ranges: Sequence[CauseRange], known: Sequence[Sequence[CauseRange]]) -> None:
        everything = [*ranges, *(each for site in known for each in site)]
        self._positions = sorted({place for each in everything for place in (each.after + 1, each.at)})
        distinct = {bounds: row for row, bounds in enumerate(dict.fromkeys(each.bounds for each in ranges))}
        self._row_of = [distinct[each.bounds] for each in ranges]
        self._weights = [0.0] * len(distinct)
        for row, weight in zip(self._row_of, _weights(ranges), strict=True):
            self._weights[row] += weight
        self._costs = [
            [min(_NEVER, weight * CauseRange(*bounds).cost_of(place)) for place in self._positions]
            for bounds, weight in zip(distinct, self._weights, strict=True)
        ]
        self._known = [self._place_of(each) for each in known]

    def assign(self) -> list[int]:
        """Return the number of the cause of each range; those of known causes come first."""
        if not self._row_of:
            return []
        nearest = self._nearest(self._join(self._improve(self._cover())))
        return [nearest[row] for row in self._row_of]

    def _place_of(self, ranges: Sequence[CauseRange]) -> int:
        """Return the best column for the ranges of a known cause."""
        totals = [sum(min(_NEVER, each.cost_of(place)) for each in ranges) for place in self._positions]
        return totals.index(min(totals))

    def _best(self, rows: Sequence[int]) -> int:
        """Return the best column for some rows."""
        totals = [sum(column) for column in zip(*(self._costs[row] for row in rows), strict=True)]
        return totals.index(min(totals))

    def _nearest(self, new: Sequence[int]) -> list[int]:
        """Return the number of the cheapest cause of each row."""
        columns = [*self._known, *new]
        found = []
        for costs in self._costs:
            here = [costs[column] for column in columns]
            found.append(here.index(min(here)))
        return found

    def _now(self, new: Sequence[int]) -> list[float]:
        """Return what each row costs if there are these new causes beside the known ones."""
        columns = [*self._known, *new]
        return [min((costs[column] for column in columns), default=_NEVER) for costs in self._costs]

    def _total(self, new: Sequence[int]) -> float:
        return sum(self._now(new)) + A_CAUSE * len(new)

    def _cover(self) -> list[int]:
        """Return causes that explain every row, the most useful first."""
        new: list[int] = []
        while open_rows := [row for row, cost in enumerate(self._now(new)) if cost >= _NEVER]:
            gains = [0.0] * len(self._positions)
            for row in open_rows:
                for column, cost in enumerate(self._costs[row]):
                    if cost < _NEVER:
                        gains[column] += A_CAUSE * self._weights[row] - cost
            new.append(gains.index(max(gains)))
        return new

    def _improve(self, new: list[int]) -> list[int]:
        """Move and add causes, one at a time, as long as that makes the sum lower."""
        best = self._total(new)
        for _ in range(_MOST_STEPS):
            total, tried = min((self._total(each), each) for each in (self._moved(new), self._added(new)))
            if total >= best - 1e-9:
                break
            best, new = total, tried
        return new

    def _moved(self, new: list[int]) -> list[int]:
        """Return the new causes, each at the best position for its rows."""
        nearest = self._nearest(new)
        moved = []
        for number, column in enumerate(new, start=len(self._known)):
            rows = [row for row, cause in enumerate(nearest) if cause == number]
            moved.append(self._best(rows) if rows else column)
        return moved

    def _added(self, new: list[int]) -> list[int]:
        """Return the new causes and the one that would help most."""
        saved = [0.0] * len(self._positions)
        for now, costs in zip(self._now(new), self._costs, strict=True):
            for column, cost in enumerate(costs):
                if cost < now:
                    saved[column] += now - cost
        return [*new, saved.index(max(saved))]

    def _join(self, new: list[int]) -> list[int]:
        """Join new causes with their neighbours, those that differ least first, as long as two say no more than one."""
        while True:
            nearest = self._nearest(new)
            sites = sorted((column, number) for number, column in enumerate([*self._known, *new]))
            tried = [self._try_join(new, nearest, one, other) for (_, one), (_, other) in pairwise(sites)]
            gain, joined = max((each for each in tried if each), default=(0.0, new))
            if gain <= 0:
                return new
            new = joined

    def _try_join(
        self, new: list[int], nearest: Sequence[int], one: int, other: int
    ) -> tuple[float, list[int]] | None:
        """Return what joining two causes saves, and the new causes then; None for two known ones."""
        first = len(self._known)
        if max(one, other) < first:
            return None
        columns = [*self._known, *new]
        of_one, of_other = (
            [row for row, cause in enumerate(nearest) if cause == each] for each in (one, other)
        )
        both = [*of_one, *of_other]
        kept = [column for number, column in enumerate(new, start=first) if number not in {one, other}]
        if not both:
            return A_CAUSE, kept if min(one, other) < first else [*kept, columns[one]]
        is_new = min(one, other) >= first
        into = self._best(both) if is_new else columns[min(one, other)]
        more = sum(self._costs[row][into] - self._costs[row][columns[nearest[row]]] for row in both)
        return A_CAUSE + self._told(of_one, of_other) - more, [*kept, into] if is_new else kept

    def _told(self, one: Sequence[int], other: Sequence[int]) -> float:
        """Return what it takes to say which rows have which of two causes."""
        counts = [sum(self._weights[row] for row in rows) for rows in (one, other)]
        return sum(count * math.log(sum(counts) / count) for count in counts if count)


def _weights(ranges: Sequence[CauseRange]) -> list[float]:
    """Return a weight for each range: those that overlap, and have one subject, weigh together as one."""
    of_subject: dict[int, list[CauseRange]] = {}
    for each in ranges:
        of_subject.setdefault(each.subject, []).append(each)
    return [
        1
        / sum(
            other.earliest < each.latest and each.earliest < other.latest
            for other in of_subject[each.subject]
        )
        for each in ranges
    ]
