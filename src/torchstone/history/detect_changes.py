"""Bring the changes of a store up to date: look at every series that has points which were not looked at yet.

    stale runs -> their series -> unremarkable? -> else: points -> detector -> changes, written beside those that are known

Runs are stale from the transaction that records them until the one that updates the changes: an update that was
interrupted is made up for by the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.history.change_rows import ChangesUpdate, ChangeWriter
from torchstone.history.close_look import Look, is_unremarkable, look
from torchstone.history.run_order import RunOrder
from torchstone.history.series_values import load_points
from torchstone.history.stale_series import find_stale_series
from torchstone.history.watched_series import Detection, encode_looked
from torchstone.store.database.connection import Database, Value

_COLUMNS = (
    "id",
    "name",
    "series_id",
    "case_id",
    "machine_id",
    "branch",
    "point_count",
    "newest_run_id",
    "decided",
)


def update_changes(database: Database, *, thorough: bool = False) -> ChangesUpdate:
    """Bring the changes up to date, in one transaction.

    A long series whose newest points are unremarkable is looked at closely only once in a few points; with ``thorough``, every
    series is that has points since its last close look.
    """
    if not thorough and not is_stale(database):
        return ChangesUpdate()
    with database.writing():
        return _Updating(database).update(thorough=thorough)


def is_stale(database: Database) -> bool:
    """Return whether the store has points that were not looked at yet."""
    questions = (
        "SELECT 1 FROM stale_runs LIMIT 1",
        "SELECT 1 FROM detections WHERE point_count < 0 LIMIT 1",
    )
    return any(database.query(question) for question in questions)


class _Updating:
    """One update."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._order = RunOrder(database)
        self._writer = ChangeWriter(database, self._order)
        rows = database.query("SELECT id, name FROM statuses")
        self._statuses = {number: name in {PASSED, SKIPPED} for number, name in rows}
        ((highest,),) = database.query("SELECT max(id) FROM detections")
        self._next = int(highest or 0) + 1

    def update(self, *, thorough: bool) -> ChangesUpdate:
        """Look at all series concerned, and write what was found."""
        count, closely = 0, []
        quiet: list[tuple[Value, ...]] = []
        for each in find_stale_series(self._database, self._order, thorough=thorough):
            count += 1
            detection = each.detection
            kept = is_unremarkable(detection, each.news) if each.news else None
            if kept is None:
                closely.append(detection)
            else:
                points = detection.points + len(each.news or ())
                quiet.append((points, each.newest_run, encode_looked(kept), detection.id))
        self._write_looked(quiet)
        for some in load_points(self._database, self._order, closely):
            self._write(
                look([each for each in some if each.detection.id or each.runs], self._order, self._statuses)
            )
        self._writer.write()
        self._database.execute("DELETE FROM stale_runs")
        found, moved, vanished = self._writer.found, self._writer.moved, self._writer.vanished
        return ChangesUpdate(count, tuple(found), tuple(moved), tuple(vanished))

    def _write(self, looks: Sequence[Look]) -> None:
        """Write what close looks found of some series; one without points is forgotten."""
        new: list[tuple[Value, ...]] = []
        changed: list[tuple[Value, ...]] = []
        kept: list[Look] = []
        for each in looks:
            detection, runs = each.loaded.detection, each.loaded.runs
            points = detection.looked.decided.needed_from + len(runs)
            state = points, runs[-1] if runs else None, encode_looked(each.looked)
            if detection.id:
                changed.append((*state, detection.id))
                kept.append(each)
            else:
                number, self._next = self._next, self._next + 1
                watched = detection.watched
                series = watched.series_id, watched.case_id, watched.machine_id, watched.branch
                new.append((number, watched.name, *series, *state))
                kept.append(each.of(Detection(watched, number)))
        self._database.insert("detections", _COLUMNS, new)
        self._write_looked(changed)
        self._writer.write_changes(kept)

    def _write_looked(self, rows: Sequence[tuple[Value, ...]]) -> None:
        sql = "UPDATE detections SET point_count = ?, newest_run_id = ?, decided = ? WHERE id = ?"
        self._database.execute_many(sql, rows)
