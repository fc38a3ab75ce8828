"""Read series from a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Struct

from torchstone.core.errors import UsageError
from torchstone.core.records import Case, matches_metric, matches_name
from torchstone.core.text.suggestions import did_you_mean
from torchstone.core.vocabulary import ACCURACY, METRICS, reported_metric
from torchstone.store.database.connection import Database, Value
from torchstone.store.stored import Series, SeriesKey, SeriesPoint

_RUN = (
    "r.id, r.name, v.name, v.commit_hash, r.branch, v.position, {values}, r.attempt, r.measured_at, r.recorded_at,"
    " e.torch, e.driver, e.image, e.fingerprint"
)
_OF_RUN = (
    " JOIN runs r ON r.id = p.run_id JOIN revisions v ON v.id = r.revision_id"
    " JOIN environments e ON e.id = r.environment_id"
)
_FEW = 200
"""So many cases are looked up by their ids; of more, all series are read."""
_IN_ORDER = " ORDER BY v.position, v.id, r.id"


class SeriesQuery(Struct, frozen=True):
    """Which series, and which of their points. Cases and metrics are names, ids or patterns; none means all.

    ``since`` is a date, or the first moment a run was measured (or recorded, where that is unknown); ``last`` is the most points of a series, newest first kept.
    """

    cases: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    branch: str = ""
    since: str = ""
    last: int | None = None


def find_series(connection: Database, query: SeriesQuery) -> Iterator[Series]:
    """Yield the series that match, each with its points in the order of revisions. Statuses are a series of the metric ``accuracy``."""
    cases = _find_cases(connection, query.cases)
    if not cases:
        return
    wants = _metric_filter(query.metrics)
    of_cases = f" WHERE s.case_id IN ({', '.join(map(str, cases))})" if len(cases) <= _FEW else ""
    rows = connection.query(
        "SELECT s.id, s.case_id, m.name, m.unit, m.better, a.name, s.counter, s.start_method, s.cache, s.preset, s.definition"
        " FROM series s JOIN metrics m ON m.id = s.metric_id JOIN machines a ON a.id = s.machine_id"
        f"{of_cases} ORDER BY s.case_id, s.id"
    )
    for series_id, case_id, name, unit, better, machine, *method in rows:
        case = cases.get(_int(case_id))
        if case is not None and wants(str(name)) and _is_chosen(query.machines, str(machine)):
            key = SeriesKey(case, str(name), str(machine), *map(str, method))
            metric = METRICS.get(str(name)) or reported_metric(str(name), str(unit), str(better) or "lower")
            points = read_points(connection, "points", "p.series_id = ?", (series_id,), query)
            if points:
                yield Series(_int(series_id), key, metric, points)
    if wants(ACCURACY):
        yield from _find_statuses(connection, cases, query)


def _find_statuses(connection: Database, cases: dict[int, Case], query: SeriesQuery) -> Iterator[Series]:
    machines = connection.query("SELECT id, name FROM machines ORDER BY id")
    for case_id, case in cases.items():
        for machine_id, machine in machines:
            if _is_chosen(query.machines, str(machine)):
                given = (case_id, machine_id)
                points = read_points(
                    connection, "outcomes", "p.case_id = ? AND p.machine_id = ?", given, query
                )
                if points:
                    yield Series(0, SeriesKey(case, ACCURACY, str(machine)), METRICS[ACCURACY], points)


def read_points(
    connection: Database, table: str, where: str, given: tuple[Value, ...], query: SeriesQuery
) -> tuple[SeriesPoint, ...]:
    """Return the points of a series, or the outcomes of a case, that a condition selects."""
    is_status = table == "outcomes"
    values = "t.name, 0, 0, NULL" if is_status else "p.value, p.samples, p.trials, p.spread"
    statuses = " LEFT JOIN statuses t ON t.id = p.status_id" if is_status else ""
    limits, chosen = [where], [*given]
    if query.branch:
        limits.append("r.branch = ?")
        chosen.append(query.branch)
    if query.since:
        limits.append("coalesce(r.measured_at, r.recorded_at) >= ?")
        chosen.append(query.since)
    sql = f"SELECT {_RUN.format(values=values)} FROM {table} p{_OF_RUN}{statuses} WHERE {' AND '.join(limits)}{_IN_ORDER}"
    rows = connection.query(sql, chosen)
    kept = rows[-query.last :] if query.last else rows
    return tuple(SeriesPoint(*row) for row in kept)


def _find_cases(connection: Database, patterns: Sequence[str]) -> dict[int, Case]:
    """Return the cases that match, by their ids."""
    rows = connection.query("SELECT id, name, benchmark, record FROM cases ORDER BY id")
    decode = msgspec.json.Decoder(Case).decode
    if not patterns:
        return {number: decode(record) for number, _, _, record in rows}
    chosen = {
        number: decode(record)
        for number, name, benchmark, record in rows
        if any(matches_name(pattern, benchmark) or matches_name(pattern, name) for pattern in patterns)
    }
    if not chosen:
        advice = did_you_mean(patterns[0], [benchmark for _, _, benchmark, _ in rows])
        raise UsageError(f"{', '.join(patterns)}: no such case in the store", advice=advice)
    return chosen


def _metric_filter(patterns: Sequence[str]) -> Callable[[str], bool]:
    return lambda name: not patterns or any(matches_metric(pattern, name) for pattern in patterns)


def _is_chosen(wanted: Sequence[str], name: str) -> bool:
    return not wanted or name in wanted


def _int(value: Value) -> int:
    return int(value or 0)
