"""Find the series with points that were not looked at yet, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from torchstone.analyze.changepoints import Kind
from torchstone.history.run_order import RunOrder
from torchstone.history.series_values import UNTOLD, Value, to_value
from torchstone.history.watched_series import (
    STALE,
    Detection,
    Looked,
    Watched,
    better_of,
    decode_looked,
    kind_of,
)
from torchstone.store.database.connection import Database

FEW = 20
"""Of so many stale runs, the new points are read one by one; of more, all series of their branches are looked at closely."""
_FEW_CASES = 500
_DETECTIONS = (
    "SELECT d.id, d.series_id, d.case_id, d.machine_id, d.branch, d.point_count, d.newest_run_id, d.decided, m.name, m.unit,"
    " m.better FROM detections d LEFT JOIN series s ON s.id = d.series_id LEFT JOIN metrics m ON m.id = s.metric_id"
)


class StaleSeries(Struct, frozen=True):
    """A series to look at. ``news`` are its new points in the order of revisions; None if only a close look can tell."""

    detection: Detection
    news: tuple[Value, ...] | None = None
    newest_run: int | None = None


def find_stale_series(database: Database, order: RunOrder, *, thorough: bool) -> Iterator[StaleSeries]:
    """Yield the series with points that were not looked at yet; with ``thorough``, or not closely."""
    stale = [run_id for (run_id,) in database.query("SELECT run_id FROM stale_runs")]
    news: dict[str, list[tuple[int, int, Value]]] = {}
    if not stale:
        watched = {}
    elif len(stale) <= FEW:
        watched = _read_news(database, order, stale, news)
    else:
        watched = _read_all(database, {order.places[run_id].branch for run_id in stale})
    late_from: dict[str, int] = {}
    for run_id in stale:
        place = order.places[run_id]
        late_from[place.branch] = min(place.rank, late_from.get(place.branch, place.rank))
    known = _read_detections(database, watched, reads_all=thorough)
    for name, detection in known.items():
        is_due = detection.points == STALE or (thorough and detection.looked.pending)
        if name not in watched and is_due:
            yield StaleSeries(_whole(detection) if detection.points == STALE else detection)
    for name, each in watched.items():
        detection = known.get(name) or Detection(each)
        points = sorted(news.get(name, ()))
        first = points[0][0] if points else late_from[each.branch]
        if detection.points == STALE or first < order.rank_of(detection.newest_run):
            yield StaleSeries(_whole(detection))
        elif points and not thorough:
            yield StaleSeries(detection, tuple(value for _, _, value in points), points[-1][1])
        else:
            yield StaleSeries(detection)


def _whole(detection: Detection) -> Detection:
    """Return a series about which nothing is settled."""
    return structs.replace(detection, looked=Looked())


def _read_news(
    database: Database, order: RunOrder, stale: Sequence[int], news: dict[str, list[tuple[int, int, Value]]]
) -> dict[str, Watched]:
    """Read the points of some runs into ``news``; return their series by name."""
    found: dict[tuple[int | None, int, int, str], Watched] = {}
    marks = ", ".join("?" * len(stale))
    rows = database.query(
        "SELECT p.run_id, p.value, p.samples, s.id, s.case_id, s.machine_id, m.name, m.unit, m.better FROM points p"
        " JOIN series s ON s.id = p.series_id JOIN metrics m ON m.id = s.metric_id"
        f" WHERE p.run_id IN ({marks}) AND p.value IS NOT NULL",
        stale,
    )
    for run_id, value, samples, series_id, case_id, machine_id, metric, unit, better in rows:
        place = order.places[run_id]
        key = series_id, case_id, machine_id, place.branch
        each = found.get(key)
        if each is None:
            each = found[key] = Watched(*key, kind_of(metric, unit, better), better_of(metric, better))
        news.setdefault(each.name, []).append((place.rank, run_id, to_value(each.kind, value, samples)))
    untold = ", ".join(f"'{each}'" for each in sorted(UNTOLD))
    outcomes = database.query(
        "SELECT o.run_id, o.case_id, o.machine_id, o.status_id FROM outcomes o JOIN statuses t ON t.id = o.status_id"
        f" WHERE o.run_id IN ({marks}) AND t.name NOT IN ({untold})",
        stale,
    )
    for run_id, case_id, machine_id, status_id in outcomes:
        place = order.places[run_id]
        each = Watched(None, case_id, machine_id, place.branch, Kind.STATUS, "equal")
        found[None, case_id, machine_id, place.branch] = each
        news.setdefault(each.name, []).append((place.rank, run_id, status_id))
    return {each.name: each for each in found.values()}


def _read_all(database: Database, branches: set[str]) -> dict[str, Watched]:
    """Return all series, on each of some branches, by name."""
    found = [
        Watched(number, case_id, machine_id, branch, kind_of(metric, unit, better), better_of(metric, better))
        for number, case_id, machine_id, metric, unit, better in database.query(
            "SELECT s.id, s.case_id, s.machine_id, m.name, m.unit, m.better FROM series s JOIN metrics m ON m.id = s.metric_id"
        )
        for branch in branches
    ]
    found += [
        Watched(None, case_id, machine_id, branch, Kind.STATUS, "equal")
        for case_id, machine_id in database.query("SELECT DISTINCT case_id, machine_id FROM outcomes")
        for branch in branches
    ]
    return {each.name: each for each in found}


def _read_detections(
    database: Database, watched: dict[str, Watched], *, reads_all: bool
) -> dict[str, Detection]:
    """Return what is known of series: of those that are watched, of stale ones, and, if they are many, of all."""
    cases = sorted({each.case_id for each in watched.values()})
    if reads_all or len(cases) > _FEW_CASES:
        rows = database.query(_DETECTIONS)
    else:
        marks = ", ".join("?" * len(cases)) or "NULL"
        rows = database.query(f"{_DETECTIONS} WHERE d.case_id IN ({marks}) OR d.point_count < 0", cases)
    found = {}
    for number, series_id, case_id, machine_id, branch, count, newest, text, metric, unit, better in rows:
        kind = Kind.STATUS if series_id is None else kind_of(metric, unit, better)
        way = "equal" if series_id is None else better_of(metric, better)
        each = Watched(series_id, case_id, machine_id, branch, kind, way)
        found[each.name] = Detection(each, number, count, newest, decode_looked(text))
    return found
