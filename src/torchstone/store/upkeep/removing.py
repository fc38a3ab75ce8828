"""Remove runs from a store, with everything that only they used."""

from __future__ import annotations

from torchstone.store.database.connection import Database
from torchstone.store.database.schema import OF_RUNS
from torchstone.store.upkeep.detections import detach_changes, forget_detections

_UNUSED = {
    "cases": "SELECT case_id FROM series UNION SELECT case_id FROM outcomes",
    "metrics": "SELECT metric_id FROM series",
    "machines": "SELECT machine_id FROM series UNION SELECT machine_id FROM outcomes",
    "statuses": "SELECT status_id FROM outcomes WHERE status_id IS NOT NULL",
    "revisions": "SELECT revision_id FROM runs",
    "environments": "SELECT environment_id FROM runs",
}
"""The tables of names, with the ids that are still used."""


def remove_rows(connection: Database, run_id: int) -> None:
    """Remove all rows of a run except the run itself."""
    for table in OF_RUNS:
        connection.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))


def remove_run(connection: Database, run_id: int) -> None:
    """Remove a run, its series without other points, and the names that nothing uses any more. The caller begins the transaction."""
    detach_changes(connection, run_id)
    remove_rows(connection, run_id)
    stale = connection.query("SELECT id FROM series WHERE latest_run_id = ?", (run_id,))
    for (series_id,) in stale:
        newest = connection.query(
            "SELECT r.id FROM points p JOIN runs r ON r.id = p.run_id JOIN revisions v ON v.id = r.revision_id"
            " WHERE p.series_id = ? ORDER BY v.position DESC, v.id DESC, r.id DESC LIMIT 1",
            (series_id,),
        )
        if newest:
            connection.execute("UPDATE series SET latest_run_id = ? WHERE id = ?", (newest[0][0], series_id))
        else:
            forget_detections(connection, "series_id = ?", (series_id,))
            connection.execute("DELETE FROM series WHERE id = ?", (series_id,))
    forget_detections(
        connection,
        "series_id IS NULL AND point_count < 0 AND NOT EXISTS (SELECT 1 FROM outcomes o"
        " WHERE o.case_id = detections.case_id AND o.machine_id = detections.machine_id)",
    )
    connection.execute("DELETE FROM runs WHERE id = ?", (run_id,))
    for table, used in _UNUSED.items():
        connection.execute(f"DELETE FROM {table} WHERE id NOT IN ({used})")
