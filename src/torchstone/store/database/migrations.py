"""Define the numbered migrations of a store.

Each is one transaction with the row that records it, so it is applied completely or not at all.

A later migration is added at the end, with tables whose ``since`` is its number; those that are released never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from torchstone.core.errors import InputError
from torchstone.store.database.change_tables import CHANGE_VIEWS
from torchstone.store.database.connection import Database
from torchstone.store.database.schema import TABLES, VIEWS
from torchstone.store.database.table_columns import Table


class Migration(NamedTuple):
    """One step from a version of the schema to the next."""

    number: int
    name: str
    views: Mapping[str, str] = {}
    statements: tuple[str, ...] = ()


MIGRATIONS = (
    Migration(1, "runs, series and points"),
    Migration(2, "views", VIEWS),
    Migration(3, "changes and triage", CHANGE_VIEWS, ("INSERT INTO stale_runs SELECT id FROM runs",)),
)
NEWEST = MIGRATIONS[-1].number

_TYPES = {
    "sqlite": {"integer": "INTEGER", "text": "TEXT", "real": "REAL", "blob": "BLOB"},
    "postgres": {"integer": "bigint", "text": "text", "real": "double precision", "blob": "bytea"},
}
_RECORDED = "migrations"
_SMALL = frozenset({"id", "attempt", "finished", "samples", "trials", "dirty", "dynamic"})


def version_of(connection: Database) -> int:
    """Return the version of the store's schema; 0 if there is none yet."""
    if not connection.has_table(_RECORDED):
        return 0
    ((number,),) = connection.query(f"SELECT max(number) FROM {_RECORDED}")
    return int(number or 0)


def refuse_newer(connection: Database) -> int:
    """Return the version of the schema; raise an error if a newer torchstone made it."""
    version = version_of(connection)
    if version > NEWEST:
        raise InputError(
            f"a store of version {version}; this torchstone knows versions up to {NEWEST}",
            path=connection.place,
            advice="install a newer torchstone; nothing was changed",
        )
    return version


def migrate(connection: Database, newest: int = NEWEST) -> None:
    """Bring a store to the newest version, step by step; an empty database becomes a store."""
    for migration in MIGRATIONS[:newest]:
        if refuse_newer(connection) >= migration.number:
            continue
        with connection.writing():
            if refuse_newer(connection) < migration.number:  # else another process was faster
                _apply(connection, migration)


def _apply(connection: Database, migration: Migration) -> None:
    if migration.number == 1:
        connection.execute(
            f"CREATE TABLE {_RECORDED} (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL)"
            f"{' STRICT' if connection.dialect == 'sqlite' else ''}"
        )
    for table in TABLES:
        if table.since == migration.number:
            for statement in statements_for(table, connection.dialect):
                connection.execute(statement)
    for name, query in migration.views.items():
        connection.execute(f"CREATE VIEW {name} AS {query}")
    for statement in migration.statements:
        connection.execute(statement)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    connection.execute(
        f"INSERT INTO {_RECORDED} (number, name, applied_at) VALUES (?, ?, ?)",
        (migration.number, migration.name, now),
    )


def statements_for(table: Table, dialect: str) -> list[str]:
    """Return the statements that create a table and its indexes."""
    is_sqlite = dialect == "sqlite"
    parts = []
    for column in table.columns:
        kind = _TYPES[dialect][column.kind]
        if not is_sqlite and (column.name in _SMALL or column.references):
            kind = "integer"  # half the size; SQLite stores small numbers in few bytes anyway
        needed = "" if column.nullable else " NOT NULL"
        # PostgreSQL would check each of millions of rows by a query of its own; 'store verify' checks them all at once.
        is_checked = column.references and (is_sqlite or not table.is_clustered)
        refers = f" REFERENCES {column.references} (id)" if is_checked else ""
        parts.append(f"{column.name} {kind}{needed}{refers}")
    parts.append(f"PRIMARY KEY ({', '.join(table.key)})")
    if table.unique:
        parts.append(f"UNIQUE ({', '.join(table.unique)})")
    options = []
    if is_sqlite:
        options = ["STRICT", *(["WITHOUT ROWID"] if table.is_clustered else [])]
    lines = ",\n    ".join(parts)
    return [
        f"CREATE TABLE {table.name} (\n    {lines}\n) {', '.join(options)}".rstrip(),
        *(f"CREATE INDEX {table.name}_{name} ON {table.name} ({name})" for name in table.indexes),
    ]
