"""What upkeep does to the changes of a store: series that lose or gain points are looked at again as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.store.database.connection import Database, Value
from torchstone.store.identity import name_detection

_STALE = "UPDATE detections SET point_count = -1, newest_run_id = NULL"


def detach_changes(connection: Database, run_id: int) -> None:
    """Let no change refer to a run that is removed: its neighbours take its place until the series is looked at again."""
    connection.execute(
        f"{_STALE} WHERE branch = (SELECT branch FROM runs WHERE id = ?)"
        " AND (series_id IN (SELECT series_id FROM points WHERE run_id = ?)"
        " OR (series_id IS NULL AND case_id IN (SELECT case_id FROM outcomes WHERE run_id = ?)))",
        (run_id, run_id, run_id),
    )
    before, after = (_find_neighbour(connection, run_id, is_before=is_before) for is_before in (True, False))
    nearest = {"last_old_run_id": before or after, "first_new_run_id": after or before}
    for column, neighbour in nearest.items():
        if neighbour is None:  # the branch has no other run
            connection.execute(f"DELETE FROM changes WHERE {column} = ?", (run_id,))
        else:
            connection.execute(f"UPDATE changes SET {column} = ? WHERE {column} = ?", (neighbour, run_id))


def _find_neighbour(connection: Database, run_id: int, *, is_before: bool) -> int | None:
    """Return the run next to one on its branch, in the order of revisions."""
    sign, way = ("<", "DESC") if is_before else (">", "ASC")
    rows = connection.query(
        "SELECT r.id FROM runs r JOIN revisions v ON v.id = r.revision_id, runs o JOIN revisions w ON w.id = o.revision_id"
        f" WHERE o.id = ? AND r.branch = o.branch AND (v.position, v.id, r.id) {sign} (w.position, w.id, o.id)"
        f" ORDER BY v.position {way}, v.id {way}, r.id {way} LIMIT 1",
        (run_id,),
    )
    return int(rows[0][0]) if rows else None


def forget_detections(connection: Database, where: str, given: Sequence[Value] = ()) -> None:
    """Remove what is known of series that have no points any more, with their changes."""
    connection.execute(
        f"DELETE FROM changes WHERE detection_id IN (SELECT id FROM detections WHERE {where})", given
    )
    connection.execute(f"DELETE FROM detections WHERE {where}", given)


def move_series_detections(connection: Database, old: int, new: int, case_id: int) -> None:
    """Give the changes of a series to another one, or to the same one of another case."""
    rows = connection.query("SELECT id, machine_id, branch FROM detections WHERE series_id = ?", (old,))
    for number, machine_id, branch in rows:
        _move(connection, number, (new, case_id, machine_id, branch))


def move_status_detections(connection: Database, old_case: int, new_case: int) -> None:
    """Give the changes of the statuses of a case to another one."""
    rows = connection.query(
        "SELECT id, machine_id, branch FROM detections WHERE series_id IS NULL AND case_id = ?", (old_case,)
    )
    for number, machine_id, branch in rows:
        _move(connection, number, (None, new_case, machine_id, branch))


def _move(connection: Database, number: int, series: tuple[int | None, int, int, str]) -> None:
    """Give what is known of one series to another, which is then looked at as a whole."""
    name = name_detection(*series)
    there = connection.query("SELECT id FROM detections WHERE name = ? AND id <> ?", (name, number))
    if there:
        ((kept,),) = there
        connection.execute("UPDATE changes SET detection_id = ? WHERE detection_id = ?", (kept, number))
        connection.execute("DELETE FROM detections WHERE id = ?", (number,))
        connection.execute(f"{_STALE} WHERE id = ?", (kept,))
    else:
        connection.execute(
            f"{_STALE}, name = ?, series_id = ?, case_id = ? WHERE id = ?", (name, *series[:2], number)
        )
