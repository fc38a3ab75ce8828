"""A store in PostgreSQL, for a team: in the schema ``torchstone`` of a database, through psycopg 3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString

from torchstone.core.errors import InputError, TorchstoneError
from torchstone.core.text.redaction import MASK, redact
from torchstone.store.database import connection
from torchstone.store.database.connection import ReadOnlyStoreError, Row, Value

if TYPE_CHECKING:
    from psycopg import Connection

SCHEMA = "torchstone"
_LOCK = 0x746F7263  # of all writers of a database
_CONNECT_WITHIN = 10  # seconds
_AT_ONCE = 10_000  # rows of a stream
_PROBLEMS = {
    "host": "write special characters of a password as %XX, or keep it in ~/.pgpass",
    "28P01": "check the user and the password",
    "28000": "check the user, and what the server permits",
    "3D000": "create the database first: createdb NAME",
    "42501": "ask the owner of the database for the permission",
    "53100": "make room, and try again: nothing was written",
}
_PROTECTED = {"25006", "42501"}
"""Codes of errors that say that this user, or everybody, may only read."""


class PostgresDatabase:
    """An open database of a PostgreSQL server."""

    dialect = "postgres"

    def __init__(self, url: str, *, creates: bool) -> None:
        self.place = redact(url)
        self._secret = ""
        psycopg = _import_driver()
        try:
            stated = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:  # its message may contain the password
            raise InputError(
                "not a URL of PostgreSQL", path=self.place, advice="expected postgresql://USER@HOST/DATABASE"
            ) from None
        self._secret = str(stated.get("password") or "")
        self._errors = psycopg.Error
        limits = f"-c lock_timeout={connection.PATIENCE * 1000:.0f} -c search_path={SCHEMA}"
        self._hides_host = str(stated.get("host") or "") not in self.place
        with self._told():
            self._database: Connection[Row] = psycopg.connect(
                url,
                autocommit=True,
                connect_timeout=int(stated.get("connect_timeout") or _CONNECT_WITHIN),
                options=f"{stated.get('options') or ''} {limits}".strip(),
                application_name="torchstone",
            )
        try:
            self._find_store(creates=creates)
        except BaseException:
            self.close()
            raise

    def _find_store(self, *, creates: bool) -> None:
        """Make the schema, or raise an error if there is no store in it."""
        if not self.is_empty():
            return
        if not creates:
            advice = "record runs first: torchstone record FILES --store URL"
            raise InputError("there is no store in this database", path=self.place, advice=advice)
        with self.writing():  # two processes may create a store at once
            self.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise errors of the driver as InputErrors, without the password."""
        try:
            yield
        except self._errors as error:
            state = getattr(error, "sqlstate", None) or ""
            text = " ".join(str(error).split())
            if self._secret:
                text = text.replace(self._secret, MASK)
            if not state and self._hides_host:  # what the driver takes for the host is a part of the password
                text, state = "the server cannot be reached", "host"
            if state == "55P03":
                text = f"another process has been writing to it for {connection.PATIENCE:g} s"
            advice = _PROBLEMS.get(state, "try again later" if state == "55P03" else "")
            if not state and "password authentication failed" in text:
                advice = _PROBLEMS["28P01"]
            kind = ReadOnlyStoreError if state in _PROTECTED else InputError
            raise kind(redact(text), path=self.place, advice=advice) from None

    def query(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of a query."""
        with self._told():
            return list(self._database.execute(*_arguments(sql, values)))

    def stream(self, sql: str) -> Iterator[Row]:
        """Yield the rows of a query, some thousands at a time from the server."""
        with self._told(), self._database.transaction(), self._database.cursor("torchstone_stream") as cursor:
            cursor.itersize = _AT_ONCE
            yield from cursor.execute(_literal(sql))

    def execute(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Execute a statement; return the number of rows that it changed."""
        with self._told():
            changed: int = self._database.execute(*_arguments(sql, values)).rowcount
            return changed

    def execute_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Execute a statement once for each row of values."""
        with self._told(), self._database.cursor() as cursor:
            cursor.executemany(_literal(sql), rows)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
        """Insert rows into a table, by COPY."""
        sql = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
        with self._told(), self._database.cursor() as cursor, cursor.copy(_literal(sql)) as copy:
            for row in rows:
                copy.write_row(row)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that no other writer disturbs; readers see the state before."""
        with self._told(), self._database.transaction():
            self._database.execute(_literal(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction that sees one state of the store."""
        with self._told(), self._database.transaction():
            self._database.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield

    def is_empty(self) -> bool:
        """Return whether the schema has no tables."""
        return not self.query("SELECT 1 FROM pg_tables WHERE schemaname = ? LIMIT 1", (SCHEMA,))

    def has_table(self, table: str) -> bool:
        """Return whether the store has this table."""
        sql = "SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = ?"
        return bool(self.query(sql, (SCHEMA, table)))

    def size(self) -> int:
        """Return the bytes of all tables with their indexes."""
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)::regclass)), 0)::bigint"
            f" FROM pg_tables WHERE schemaname = '{SCHEMA}'"
        )
        ((found,),) = self.query(sql)
        return int(found or 0)

    def find_damage(self) -> list[str]:
        """Return nothing: a server checks its own files."""
        return []

    def learn_sizes(self) -> None:
        """Let the server count rows, without which it plans queries badly until it does so by itself."""
        with self._told():
            self._database.execute("ANALYZE")

    def give_back_space(self) -> None:
        """Let the server use the space of removed rows again."""
        with self._told():
            self._database.execute("VACUUM")

    def close(self) -> None:
        """Close the connection."""
        self._database.close()


def open_database(url: str, *, creates: bool) -> PostgresDatabase:
    """Open a store in PostgreSQL; with ``creates``, it may be new."""
    return PostgresDatabase(url, creates=creates)


def _import_driver() -> Any:  # noqa: ANN401  (a module)
    try:
        import psycopg  # noqa: PLC0415  (optional, and slow to import)
    except ImportError:
        raise TorchstoneError(
            "a store in PostgreSQL requires psycopg, which is not installed",
            advice="pip install 'torchstone[postgres]'",
        ) from None
    return psycopg


def _literal(sql: str) -> LiteralString:
    """Return SQL of ours with the driver's mark for values."""
    return sql.replace("?", "%s")


def _arguments(sql: str, values: Sequence[Value]) -> tuple[Any, ...]:
    """Return the arguments of a call: without values, the driver leaves ``%`` alone."""
    return (_literal(sql), values) if values else (_literal(sql),)
