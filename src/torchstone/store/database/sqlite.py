"""A store in an SQLite file: embedded, in WAL mode, so that readers and a writer do not wait for each other."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from urllib.parse import quote

from torchstone.core.disk import make_folder
from torchstone.core.errors import InputError
from torchstone.core.text.safe_text import quote_word
from torchstone.store.database import connection
from torchstone.store.database.connection import ReadOnlyStoreError, Row, Value
from torchstone.store.database.schema import APPLICATION_ID

_OLDEST = (3, 37)  # the first with STRICT tables
_CACHE = 128 * 1024  # KiB of pages in memory: a bulk import touches every series
_FIRST_BYTES = b"SQLite format 3\0"
_LOOKING = Lock()
_LOOKED_AT: set[tuple[int, int]] = set()
"""The files that were looked at and are SQLite files: device and inode."""
_FULL = "the disk is full, or the file may not grow"
_PROBLEMS = (
    ("SQLITE_BUSY", "another process has been writing to it for {patience:g} s", "try again later"),
    ("SQLITE_LOCKED", "another process has been writing to it for {patience:g} s", "try again later"),
    ("SQLITE_READONLY", "it is read-only", "check the permissions of the file and its folder"),
    ("SQLITE_FULL", _FULL, "make room, and try again: nothing was written"),
    ("SQLITE_IOERR_WRITE", _FULL, "make room, and try again: nothing was written"),
    ("SQLITE_IOERR_SHMSIZE", _FULL, "make room, and try again: nothing was written"),
    ("SQLITE_IOERR_SHMOPEN", "its folder cannot be written", "check the permissions of the folder"),
    ("SQLITE_IOERR_FSYNC", _FULL, "make room, and try again: nothing was written"),
    ("SQLITE_NOTADB", "this is no SQLite database", "name another file with --store"),
    ("SQLITE_CORRUPT", "the database is damaged", "restore it from a copy, or record its runs anew"),
    ("SQLITE_CANTOPEN", "it cannot be opened", "check the permissions of the file and its folder"),
)


class SqliteDatabase:
    """An open SQLite file."""

    dialect = "sqlite"

    def __init__(self, path: str, *, creates: bool) -> None:
        self.place = path
        self._refuse_what_is_no_store(creates=creates)
        if sqlite3.sqlite_version_info < _OLDEST:
            raise InputError(
                f"SQLite {sqlite3.sqlite_version} is too old for a store",
                path=path,
                advice="use a Python with SQLite 3.37 or newer",
            )
        self._database = self._open(writes=creates)
        with suppress(OSError):
            found = os.stat(path)
            _LOOKED_AT.add((found.st_dev, found.st_ino))

    def _refuse_what_is_no_store(self, *, creates: bool) -> None:
        if os.path.isdir(self.place):
            raise InputError("this is a folder, expected a store", path=self.place)
        if not os.path.exists(self.place):
            if not creates:
                raise self._missing()
            make_folder(os.path.dirname(os.path.abspath(self.place)))
            return
        if not _begins_as_store(self.place):
            raise InputError(
                "this is no SQLite database", path=self.place, advice="name another file with --store"
            )

    def _missing(self) -> InputError:
        advice = f"record runs first: torchstone record FILES --store {quote_word(self.place)}"
        return InputError("there is no store", path=self.place, advice=advice)

    def _open(self, *, writes: bool) -> sqlite3.Connection:
        with self._told():
            try:
                return self._connect("mode=rwc" if writes else "mode=rw")
            except sqlite3.OperationalError as error:
                # A store on a read-only file system can be read, if its last writer has closed it.
                if writes or not _is_protected(error) or _size(f"{self.place}-wal"):
                    raise
                return self._connect("mode=ro&immutable=1")

    def _connect(self, mode: str) -> sqlite3.Connection:
        address = f"file:{quote(os.path.abspath(self.place))}?{mode}"
        database = sqlite3.connect(
            address, uri=True, timeout=connection.PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            is_empty = not database.execute("SELECT 1 FROM sqlite_master").fetchone()
            if is_empty and mode != "mode=rwc":
                raise self._missing()
            if is_empty:
                _prepare_new(database)
            ((found,),) = database.execute("PRAGMA application_id")
            if found != APPLICATION_ID:
                raise InputError(
                    "this SQLite database is no store of torchstone",
                    path=self.place,
                    advice="name another file with --store",
                )
            database.execute("PRAGMA foreign_keys = ON")
            database.execute(f"PRAGMA cache_size = -{_CACHE}")
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise errors of SQLite as InputErrors."""
        try:
            yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            for start, problem, advice in _PROBLEMS:
                if name.startswith(start):
                    told = problem.format(patience=connection.PATIENCE)
                    kind = ReadOnlyStoreError if start == "SQLITE_READONLY" else InputError
                    raise kind(told, path=self.place, advice=advice) from None
            raise InputError(f"the database failed: {error}", path=self.place) from None

    def query(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of a query."""
        with self._told():
            return self._database.execute(sql, values).fetchall()

    def stream(self, sql: str) -> Iterator[Row]:
        """Yield the rows of a query one by one."""
        with self._told():
            yield from self._database.execute(sql)

    def execute(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Execute a statement; return the number of rows that it changed."""
        with self._told():
            return self._database.execute(sql, values).rowcount

    def execute_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Execute a statement once for each row of values."""
        with self._told():
            self._database.executemany(sql, rows)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
        """Insert rows into a table."""
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
        self.execute_many(sql, rows)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that no other writer disturbs."""
        with self._transaction("BEGIN IMMEDIATE"):
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction that sees one state of the store."""
        with self._transaction("BEGIN"):
            yield

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        with self._told():
            self._database.execute(begin)
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # after some errors, SQLite has rolled back already
                    self._database.execute("ROLLBACK")
                raise

    def is_empty(self) -> bool:
        """Return whether the database has no tables."""
        return not self.query("SELECT 1 FROM sqlite_master LIMIT 1")

    def has_table(self, table: str) -> bool:
        """Return whether the store has this table."""
        return bool(self.query("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)))

    def size(self) -> int:
        """Return the bytes of the file and of its log."""
        return _size(self.place) + _size(f"{self.place}-wal")

    def find_damage(self) -> list[str]:
        """Return what SQLite finds wrong with the file."""
        found = [str(row[0]) for row in self.query("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def learn_sizes(self) -> None:
        """Do nothing: every query of ours has an index that fits, whatever the sizes."""

    def give_back_space(self) -> None:
        """Return free pages to the file system."""
        self.query("PRAGMA incremental_vacuum")
        self.query("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the file; the last process to close it empties its log."""
        with self._told():
            self._database.close()


def _begins_as_store(path: str) -> bool:
    """Return whether a file begins as an SQLite file, or is empty. A file of this process is looked at only once.

    Closing any handle on a file gives up all locks of the process on it, those of SQLite's connections too: then another process
    that closes the store takes itself for the last one, and removes the log that is in use.
    """
    with _LOOKING:
        try:
            found = os.stat(path)
            if (found.st_dev, found.st_ino) in _LOOKED_AT:
                return True
            with open(path, "rb") as file:
                start = file.read(len(_FIRST_BYTES))
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=path) from None
        if start == _FIRST_BYTES:
            _LOOKED_AT.add((found.st_dev, found.st_ino))
        return start in {b"", _FIRST_BYTES}


def open_database(path: str, *, creates: bool) -> SqliteDatabase:
    """Open a store in an SQLite file; with ``creates``, it may be new."""
    return SqliteDatabase(path, creates=creates)


def _prepare_new(database: sqlite3.Connection) -> None:
    """Set what must be set before the first table; two processes may create a store at once."""
    deadline = time.monotonic() + connection.PATIENCE
    while True:
        try:
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        except sqlite3.OperationalError as error:
            # To change the mode of its log, SQLite does not wait for other processes.
            if (
                not getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")
                or time.monotonic() > deadline
            ):
                raise
            time.sleep(0.02)
        else:
            return


def _is_protected(error: sqlite3.OperationalError) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(
        ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR")
    )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
