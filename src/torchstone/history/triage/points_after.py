"""The points of a series after a change: how many there are, and the newest ones."""

from __future__ import annotations

from torchstone.history.change_records import SeriesChange
from torchstone.store.database.connection import Database, Value

_JOINED = (
    " JOIN runs r ON r.id = p.run_id JOIN revisions v ON v.id = r.revision_id"
    " WHERE r.branch = ? AND v.position >= ?"
)


def count_points(database: Database, first: SeriesChange, last: SeriesChange | None, since: str) -> int:
    """Return how many points of a series there are from a change on, up to another one, of runs recorded after a time."""
    (table, where), _, chosen = _source(database, first)
    given: list[Value] = [first.branch, first.first_new.position, since, *chosen]
    until = ""
    if last is not None:
        until = " AND v.position < ?"
        given.append(last.first_new.position)
    ((count,),) = database.query(
        f"SELECT count(*) FROM {table} p{_JOINED} AND r.recorded_at > ? AND {where}{until}", given
    )
    return int(count)


def newest_values(database: Database, change: SeriesChange, most: int) -> list[float | str]:
    """Return the newest values of a series after a change, at most so many, the newest one last."""
    (table, where), value, chosen = _source(database, change)
    statuses = " JOIN statuses t ON t.id = p.status_id" if table == "outcomes" else ""
    joined = _JOINED.replace(" WHERE", f"{statuses} WHERE")
    rows = database.query(
        f"SELECT {value} FROM {table} p{joined} AND {where} ORDER BY v.position DESC, v.id DESC, r.id DESC LIMIT ?",
        [change.branch, change.first_new.position, *chosen, most],
    )
    return [found for (found,) in reversed(rows)]


def _source(database: Database, change: SeriesChange) -> tuple[tuple[str, str], str, list[Value]]:
    """Return the table and condition that select the points of a change's series, the column of their values, and what is selected by."""
    ((series, case, machine),) = database.query(
        "SELECT d.series_id, d.case_id, d.machine_id FROM changes c JOIN detections d ON d.id = c.detection_id WHERE c.id = ?",
        (change.id,),
    )
    if series is None:
        where = "p.case_id = ? AND p.machine_id = ? AND p.status_id IS NOT NULL"
        return ("outcomes", where), "t.name", [case, machine]
    return ("points", "p.series_id = ? AND p.value IS NOT NULL"), "p.value", [series]
