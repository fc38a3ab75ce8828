"""Describe a store: what is in it, and how much room it takes."""

from __future__ import annotations

from msgspec import Struct

from torchstone.store.database.connection import Database, Value
from torchstone.store.database.migrations import version_of
from torchstone.store.upkeep.renaming import Renaming

_COUNTED = (
    "runs",
    "revisions",
    "environments",
    "machines",
    "cases",
    "series",
    "points",
    "outcomes",
    "samples",
    "changes",
    "change_groups",
)


class StoreInfo(Struct, frozen=True):
    """A store: its place without a password, its kind and version, the number of rows of each table, bytes, times and renames."""

    place: str
    kind: str
    version: int
    id: str
    counts: dict[str, int]
    size: int
    raw_bytes: int
    pinned: int
    unfinished: int
    first_recorded: str
    last_recorded: str
    newest_revision: str
    renames: tuple[Renaming, ...] = ()


def describe(connection: Database) -> StoreInfo:
    """Return what is in a store."""
    with connection.reading():
        counts = {table: _number(connection, f"SELECT count(*) FROM {table}") for table in _COUNTED}
        raw = sum(
            _number(connection, f"SELECT coalesce(sum(length(data)), 0) FROM {table}")
            for table in ("samples", "run_details")
        )
        ((first, last),) = connection.query("SELECT min(recorded_at), max(recorded_at) FROM runs")
        newest = connection.query("SELECT name FROM revisions ORDER BY position DESC, id DESC LIMIT 1")
        renames = connection.query("SELECT suite, old, new FROM renames ORDER BY suite, old")
        return StoreInfo(
            connection.place,
            connection.dialect,
            version_of(connection),
            _text(connection.query("SELECT value FROM store_info WHERE name = 'id'")),
            counts,
            connection.size(),
            raw,
            _number(connection, "SELECT count(*) FROM runs WHERE pinned IS NOT NULL"),
            _number(connection, "SELECT count(*) FROM runs WHERE finished = 0"),
            str(first or ""),
            str(last or ""),
            _text(newest),
            tuple(Renaming(str(suite), str(old), str(new), 0, 0) for suite, old, new in renames),
        )


def _number(connection: Database, sql: str) -> int:
    ((found,),) = connection.query(sql)
    return int(found or 0)


def _text(rows: list[tuple[Value, ...]]) -> str:
    return str(rows[0][0]) if rows else ""
