"""Verify the changes of a store: each lies in its series, its interval and levels make sense."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.text.units import count_of
from torchstone.store.database.connection import Database

_CHANGE = "FROM changes x JOIN detections d ON d.id = x.detection_id"
_ENDS = (
    " JOIN runs o ON o.id = x.last_old_run_id JOIN revisions v ON v.id = o.revision_id"
    " JOIN runs n ON n.id = x.first_new_run_id JOIN revisions w ON w.id = n.revision_id"
)
_SETTLED = "d.point_count >= 0 AND x.vanished_at IS NULL"
_NO_STATUS = (
    "coalesce(x.old_status, '') = '' OR coalesce(x.new_status, '') = '' OR x.old_status = x.new_status"
)
_CHECKS = {
    f"{_CHANGE}{_ENDS} WHERE {_SETTLED} AND (v.position, v.id, o.id) >= (w.position, w.id, n.id)": "{} whose interval ends before it begins",
    f"{_CHANGE}{_ENDS} WHERE o.branch <> d.branch OR n.branch <> d.branch": "{} of a run on another branch",
    f"{_CHANGE} WHERE x.earliest > x.latest": "{} whose earliest position is behind its latest",
    f"{_CHANGE} WHERE d.series_id IS NULL AND ({_NO_STATUS})": "{} between two statuses that are none, or equal",
    f"{_CHANGE} WHERE d.series_id IS NOT NULL AND (x.before IS NULL OR x.after IS NULL)": "{} without a level",
    f"{_CHANGE} WHERE NOT (x.certainty >= 0 AND x.certainty <= 1)": "{} whose certainty is none",
    f"{_CHANGE} WHERE x.direction NOT IN ('regression', 'improvement', 'neutral')": "{} whose direction is none",
    f"{_CHANGE} WHERE {_SETTLED} AND d.series_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM points p"
    " WHERE p.series_id = d.series_id AND p.run_id = x.first_new_run_id AND p.value IS NOT NULL)": "{} at a run that has no point",
    f"{_CHANGE} WHERE {_SETTLED} AND d.series_id IS NULL AND NOT EXISTS (SELECT 1 FROM outcomes p"
    " WHERE p.case_id = d.case_id AND p.run_id = x.first_new_run_id AND p.status_id IS NOT NULL)": "{} at a run that has no status",
    "FROM detections d WHERE d.series_id IS NOT NULL AND NOT EXISTS"
    " (SELECT 1 FROM series s WHERE s.id = d.series_id AND s.case_id = d.case_id AND s.machine_id = d.machine_id)": "{} of a series of another case or machine",
}
"""Rows that must not be, and what is said of them."""


def find_wrong_changes(connection: Database) -> Iterator[str]:
    """Yield what is wrong with the changes."""
    for rows, problem in _CHECKS.items():
        ((found,),) = connection.query(f"SELECT count(*) {rows}")
        if found:
            noun = "change" if rows.startswith(_CHANGE) else "row"
            table = "changes" if noun == "change" else "detections"
            yield f"{table}: {problem.format(count_of(int(found), noun))}"
