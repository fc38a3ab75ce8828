"""Tell whether anything in a store has changed since a page was made."""

from __future__ import annotations

from torchstone.store.database.connection import Database

_COUNTED = (
    "SELECT count(*), max(id), sum(outcome_count), sum(point_count), sum(finished), count(pinned), max(recorded_at) FROM runs",
    "SELECT count(*) FROM renames",
    "SELECT count(*), max(id), sum(is_provisional), sum(certainty), count(vanished_at), sum(group_id) FROM changes",
    "SELECT count(*), max(id) FROM change_groups",
    "SELECT max(id) FROM triage_events",
    "SELECT count(*) FROM run_details",
)


def read_stamp(database: Database) -> str:
    """Return a text that is another one after anything that pages show has changed."""
    return "|".join(str(value) for sql in _COUNTED for row in database.query(sql) for value in row)
