"""Find the causes of a few ranges that cost least: begin with those that explain most, then move, add and join.

Noise alone scatters the members of one cause. So two causes have to explain more than what they cost and what it takes to say
which range has which: n log 2 for n ranges that divide evenly, log n for a single one apart from the others.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from msgspec import Struct

AT_THE_END = 2.0
"""The cost of a cause at an end of a range. Costs are logarithms: one change in eight has its cause beside where it was found."""
BEYOND = 3.0
"""What each point adds by which a cause lies beyond the range: six changes in a thousand have theirs one point beyond it."""
TOO_FAR = 8.0
"""A change has no cause at a position that would cost more."""
A_CAUSE = 1.0
"""The cost of a further cause, besides that of saying which range has which."""
_NEVER = 1e6
_MOST_STEPS = 200


class CauseRange(Struct, frozen=True):
    """Where the cause of a change lies: after ``after``, at ``at`` at the latest; noise extends this to ``earliest`` and ``latest``.

    Changes with one ``subject``, such as several metrics of one case, share their noise, and so count less. A change that
    ``is_exact`` has no cause beyond its range.
    """

    earliest: int
    after: int
    at: int
    latest: int
    subject: int = 0
    is_exact: bool = False

    @property
    def bounds(self) -> tuple[int, int, int, int, bool]:
        """All but the subject."""
        return self.earliest, self.after, self.at, self.latest, self.is_exact

    @property
    def span(self) -> tuple[float, float]:
        """The first and the last position that a cause can have."""
        more = 0.0 if self.is_exact else (TOO_FAR - AT_THE_END) / BEYOND * (self.at - self.after)
        return self.earliest + 1 - more, self.latest + more

    def cost_of(self, position: int) -> float:
        """Return what a cause at a position costs; infinite if it is too far away."""
        if self.after < position <= self.at:
            return 0.0
        if position > self.at:
            distance, reach = position - self.at, self.latest - self.at
        else:
            distance, reach = self.after + 1 - position, self.after - self.earliest
        if distance <= reach:
            return AT_THE_END * distance / reach
        if self.is_exact:
            return math.inf
        cost = AT_THE_END + BEYOND * (distance - reach) / (self.at - self.after)
        return cost if cost <= TOO_FAR else math.inf


class _Site(Struct):
    """A cause while neighbours are joined: its column, and its rows."""

    column: int
    rows: list[int]
    is_known: bool = False


class CheapestCauses:
    """Ranges that may have causes in common, as rows, and the positions that these may have, as columns.

    ``known`` are the ranges of causes that exist already: these stay where they are, cost nothing more, and come first in
    every list of causes.
    """

    def __init__(self, ranges: Sequence[CauseRange], known: Sequence[Sequence[CauseRange]]) -> None:
        everything = [*ranges, *(each for site in known for each in site)]
        self._positions = sorted({place for each in everything for place in (each.after + 1, each.at)})
        kinds = {each.bounds: each for each in ranges}
        rows = {bounds: row for row, bounds in enumerate(kinds)}
        self._row_of = [rows[each.bounds] for each in ranges]
        self._weights = [0.0] * len(kinds)
        for row, weight in zip(self._row_of, _weights(ranges), strict=True):
            self._weights[row] += weight
        self._costs = [
            {column: weight * cost for column, cost in self._reach(each)}
            for each, weight in zip(kinds.values(), self._weights, strict=True)
        ]
        self._rows_at: list[list[tuple[int, float]]] = [[] for _ in self._positions]
        for row, costs in enumerate(self._costs):
            for column, cost in costs.items():
                self._rows_at[column].append((row, cost))
        self._known = [self._place_of(each) for each in known]

    def assign(self) -> list[int]:
        """Return the number of the cause of each range; those of known causes come first."""
        if not self._row_of:
            return []
        nearest, _ = self._nearest(self._join(self._improve(self._cover())))
        return [nearest[row] for row in self._row_of]

    def _reach(self, each: CauseRange) -> Iterator[tuple[int, float]]:
        """Yield the columns that can explain a range, and what each costs."""
        first, last = each.span
        for column in range(bisect_left(self._positions, first), bisect_right(self._positions, last)):
            cost = each.cost_of(self._positions[column])
            if cost < _NEVER:
                yield column, cost

    def _place_of(self, ranges: Sequence[CauseRange]) -> int:
        """Return the best column for the ranges of a known cause."""
        return _best_of([dict(self._reach(each)) for each in ranges])

    def _nearest(self, new: Sequence[int]) -> tuple[list[int], list[float]]:
        """Return the number of the cheapest cause of each row, and what it costs."""
        causes, least = [-1] * len(self._costs), [_NEVER] * len(self._costs)
        for number, column in enumerate([*self._known, *new]):
            for row, cost in self._rows_at[column]:
                if cost < least[row]:
                    causes[row], least[row] = number, cost
        return causes, least

    def _cover(self) -> list[int]:
        """Return causes that explain every row, the most useful first."""
        _, least = self._nearest([])
        open_rows = {row for row, cost in enumerate(least) if cost >= _NEVER}

        def gain_of(column: int) -> float:
            return sum(
                TOO_FAR * self._weights[row] - cost for row, cost in self._rows_at[column] if row in open_rows
            )

        def take(column: int) -> None:
            open_rows.difference_update(row for row, _ in self._rows_at[column])

        return self._take_best(gain_of, 0.0, take)

    def _take_best(
        self, gain_of: Callable[[int], float], least: float, take: Callable[[int], None]
    ) -> list[int]:
        """Return the columns with the largest gains above the least, one by one; ``take`` notes what each explains.

        A gain never grows by what was taken, so one that is still the largest when it is asked again is the best.
        """
        waiting = [(-gain_of(column), column) for column in range(len(self._positions))]
        heapify(waiting)
        taken = []
        while waiting:
            _, column = heappop(waiting)
            gain = gain_of(column)
            if gain <= least + 1e-9:
                continue
            if waiting and (-gain, column) > waiting[0]:
                heappush(waiting, (-gain, column))
                continue
            taken.append(column)
            take(column)
        return taken

    def _improve(self, new: list[int]) -> list[int]:
        """Move and add causes as long as that makes the sum lower."""
        best = self._total(new)
        for _ in range(_MOST_STEPS):
            total, tried = min((self._total(each), each) for each in (self._moved(new), self._added(new)))
            if total >= best - 1e-9:
                break
            best, new = total, tried
        return new

    def _total(self, new: Sequence[int]) -> float:
        return sum(self._nearest(new)[1]) + A_CAUSE * len(new)

    def _moved(self, new: list[int]) -> list[int]:
        """Return the new causes, each at the best position for its rows."""
        rows = self._rows_of(new)
        return [
            _best_of([self._costs[row] for row in rows[number]]) if rows[number] else column
            for number, column in enumerate(new, start=len(self._known))
        ]

    def _rows_of(self, new: Sequence[int]) -> list[list[int]]:
        """Return the rows of each cause."""
        rows: list[list[int]] = [[] for _ in range(len(self._known) + len(new))]
        for row, cause in enumerate(self._nearest(new)[0]):
            rows[cause].append(row)
        return rows

    def _added(self, new: list[int]) -> list[int]:
        """Return the new causes, and those that would save more than they cost."""
        _, least = self._nearest(new)

        def gain_of(column: int) -> float:
            return sum(max(least[row] - cost, 0.0) for row, cost in self._rows_at[column])

        def take(column: int) -> None:
            for row, cost in self._rows_at[column]:
                least[row] = min(least[row], cost)

        return [*new, *self._take_best(gain_of, A_CAUSE, take)]

    def _join(self, new: list[int]) -> list[int]:
        """Join new causes with their neighbours, those that differ least first, as long as two say no more than one."""
        rows = self._rows_of(new)
        sites = [
            _Site(column, rows[number], number < len(self._known))
            for number, column in enumerate([*self._known, *new])
        ]
        sites.sort(key=lambda site: (site.column, not site.is_known))
        gains = [self._gain(*pair) for pair in pairwise(sites)]
        while gains and (gain := max(gains)) > 0:
            at = gains.index(gain)
            sites[at : at + 2] = [self._joined(sites[at], sites[at + 1])]
            del gains[at]
            for near in (at - 1, at):
                if 0 <= near < len(gains):
                    gains[near] = self._gain(sites[near], sites[near + 1])
        return [site.column for site in sites if not site.is_known]

    def _joined(self, one: _Site, other: _Site) -> _Site:
        """Return what two neighbours become: a known one stays where it is."""
        rows = [*one.rows, *other.rows]
        known = next((site for site in (one, other) if site.is_known), None)
        if known:
            return _Site(known.column, rows, is_known=True)
        return _Site(_best_of([self._costs[row] for row in rows]) if rows else one.column, rows)

    def _gain(self, one: _Site, other: _Site) -> float:
        """Return what joining two neighbours saves; known causes are never joined."""
        if one.is_known and other.is_known:
            return -math.inf
        into = self._joined(one, other).column
        more = sum(
            self._costs[row].get(into, _NEVER) - self._costs[row].get(site.column, _NEVER)
            for site in (one, other)
            for row in site.rows
        )
        return A_CAUSE + self._told(one.rows, other.rows) - more

    def _told(self, one: Sequence[int], other: Sequence[int]) -> float:
        """Return what it takes to say which rows have which of two causes."""
        counts = [sum(self._weights[row] for row in rows) for rows in (one, other)]
        return sum(count * math.log(sum(counts) / count) for count in counts if count)


def _best_of(rows: Sequence[Mapping[int, float]]) -> int:
    """Return the column with the lowest sum, of those that explain most rows."""
    counts: Counter[int] = Counter()
    totals: dict[int, float] = {}
    for costs in rows:
        for column, cost in costs.items():
            counts[column] += 1
            totals[column] = totals.get(column, 0.0) + cost
    return min(counts, key=lambda column: (-counts[column], totals[column], column))


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
