"""Open a store by its path or URL: create it, bring it up to date, or refuse it."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from importlib import import_module

from torchstone.core.errors import UsageError
from torchstone.core.text.redaction import redact
from torchstone.store.database.connection import Database
from torchstone.store.database.migrations import NEWEST, migrate, refuse_newer

URLS = ("postgresql://", "postgres://")
_SQLITE, _POSTGRES = "torchstone.store.database.sqlite", "torchstone.store.database.postgres"


def is_url(location: str) -> bool:
    """Return whether a location is a database of a server."""
    return location.startswith(URLS)


def connect(location: str, *, creates: bool = False) -> Database:
    """Open a store of the newest version; one of an older version is brought up to date."""
    connection = _connect(location, creates=creates)
    try:
        if refuse_newer(connection) < NEWEST:
            migrate(connection)
        if creates:
            _name_once(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(location: str, *, creates: bool) -> Database:
    if "://" in location and not is_url(location):
        raise UsageError(
            f"--store {redact(location)}: no such kind of store",
            advice="expected a path, or postgresql://USER@HOST/DATABASE",
        )
    # Each database is imported only when a store is in it.
    module = import_module(_POSTGRES if is_url(location) else _SQLITE)
    found: Database = module.open_database(location, creates=creates)
    return found


def _name_once(connection: Database) -> None:
    """Give a new store an id, which a copy of it keeps."""
    if connection.query("SELECT 1 FROM store_info WHERE name = 'id'"):
        return
    with connection.writing():
        if not connection.query("SELECT 1 FROM store_info WHERE name = 'id'"):
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            connection.insert(
                "store_info", ("name", "value"), [("id", secrets.token_hex(8)), ("created_at", now)]
            )
