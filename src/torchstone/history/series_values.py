"""Load the points of many watched series at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from msgspec import Struct

from torchstone.analyze.changepoints import Kind
from torchstone.core.vocabulary import NOT_AVAILABLE
from torchstone.history.run_order import RunOrder
from torchstone.history.watched_series import Detection, Key
from torchstone.store.database.connection import Database

UNTOLD = frozenset({NOT_AVAILABLE, "infra_error"})
"""Statuses that say nothing about the code: gaps in the series of statuses."""
_MOST_ROWS = 300_000
_MOST_SERIES = 400

Value = float | tuple[float, float]
"""A number, the id of a status, or how many passed of how many."""
_Point = tuple[int, int, Value]
"""The rank of a run, the run, and the value."""


class Loaded(Struct, frozen=True):
    """The points of a series from the first that is needed on, in the order of revisions: runs with their ranks, and values."""

    detection: Detection
    ranks: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()
    values: tuple[Value, ...] = ()


def load_points(database: Database, order: RunOrder, wanted: Sequence[Detection]) -> Iterator[list[Loaded]]:
    """Yield the points of the series, some hundred series of one kind at a time."""
    bounds = {
        each.watched.name: order.least_id(each.watched.branch, each.looked.first_run) for each in wanted
    }
    by_kind: dict[Kind, list[Detection]] = {}
    for each in sorted(
        wanted, key=lambda each: (each.watched.kind, bounds[each.watched.name], each.watched.key)
    ):
        by_kind.setdefault(each.watched.kind, []).append(each)
    for some in by_kind.values():
        while some:
            bound = bounds[some[0].watched.name]
            count = max(1, min(_MOST_SERIES, _MOST_ROWS // max(1, order.newest_id - bound)))
            yield _load(database, order, some[:count], bound)
            del some[:count]


def _load(database: Database, order: RunOrder, some: Sequence[Detection], bound: int) -> list[Loaded]:
    kind = some[0].watched.kind
    found: dict[Key, list[_Point]] = {each.watched.key: [] for each in some}
    ranks = {run_id: place.rank for run_id, place in order.places.items() if run_id >= bound}
    wanted = {each.watched.case_id if kind is Kind.STATUS else each.watched.series_id or 0 for each in some}
    for key, run_id, value in _read(database, kind, sorted(wanted), bound):
        if key in found:  # a case may have statuses on another machine
            found[key].append((ranks[run_id], run_id, value))
    for points in found.values():
        points.sort()
    return [_of_branch(each, found[each.watched.key], order) for each in some]


def _read(database: Database, kind: Kind, ids: Sequence[int], bound: int) -> Iterable[tuple[Key, int, Value]]:
    """Yield key, run and value of each point; gaps are left out."""
    marks = ", ".join("?" * len(ids))
    chosen = (*ids, bound)
    if kind is Kind.STATUS:
        untold = ", ".join(f"'{each}'" for each in sorted(UNTOLD))
        rows = database.query(
            "SELECT o.case_id, o.machine_id, o.run_id, o.status_id FROM outcomes o JOIN statuses t ON t.id = o.status_id"
            f" WHERE o.case_id IN ({marks}) AND o.run_id >= ? AND t.name NOT IN ({untold})",
            chosen,
        )
        return (((case, machine), run_id, status) for case, machine, run_id, status in rows)
    samples = ", samples" if kind is Kind.PASS_RATE else ""
    rows = database.query(
        f"SELECT series_id, run_id, value{samples} FROM points"
        f" WHERE series_id IN ({marks}) AND run_id >= ? AND value IS NOT NULL",
        chosen,
    )
    if kind is Kind.PASS_RATE:
        return ((key, run_id, to_value(kind, value, count)) for key, run_id, value, count in rows)
    return rows


def to_value(kind: Kind, value: float, samples: int) -> Value:
    """Return a stored value as it is looked at: a pass rate as how many passed of how many.

    >>> to_value(Kind.PASS_RATE, 0.75, 8), to_value(Kind.NUMBER, 0.75, 8)
    ((6.0, 8), 0.75)
    """
    return (value * samples, samples) if kind is Kind.PASS_RATE else value


def _of_branch(detection: Detection, points: Sequence[_Point], order: RunOrder) -> Loaded:
    first = order.rank_of(detection.looked.first_run)
    kept = points[bisect_left(points, first, key=itemgetter(0)) :]
    if order.has_branches:
        branch = detection.watched.branch
        kept = [each for each in kept if order.places[each[1]].branch == branch]
    return Loaded(detection, *zip(*kept, strict=True)) if kept else Loaded(detection)
