"""Define the protocol of a database that holds a store.

SQLite and PostgreSQL each implement it in one module; all other SQL is the same for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torchstone.core.errors import InputError

Value = int | float | str | bytes | None
Row = tuple[Any, ...]
"""A row of a query; the query says what is in it."""

PATIENCE = 30.0
"""Seconds that a command waits for another one to finish writing."""


class ReadOnlyStoreError(InputError):
    """The store can be read, but not written to."""


class Database(Protocol):
    """An open database. ``place`` names it in messages, without a password; ``dialect`` is ``sqlite`` or ``postgres``.

    SQL has ``?`` for each value. Every error of the database is raised as an InputError.
    """

    place: str
    dialect: str

    def query(self, sql: str, values: Sequence[Value] = ()) -> list[Row]:
        """Return all rows of a query."""

    def stream(self, sql: str) -> Iterator[Row]:
        """Yield the rows of a query one by one, without holding all of them."""

    def execute(self, sql: str, values: Sequence[Value] = ()) -> int:
        """Execute a statement; return the number of rows that it changed."""

    def execute_many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        """Execute a statement once for each row of values."""

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]]) -> None:
        """Insert rows into a table as fast as the database can."""

    def writing(self) -> AbstractContextManager[None]:
        """A transaction that no other writer disturbs: all of it is kept, or nothing. It waits for other writers."""

    def reading(self) -> AbstractContextManager[None]:
        """A transaction that sees one state of the store, whatever others write meanwhile."""

    def is_empty(self) -> bool:
        """Return whether the database has no tables."""

    def has_table(self, table: str) -> bool:
        """Return whether the store has this table."""

    def size(self) -> int:
        """Return the bytes that the store takes on disk."""

    def find_damage(self) -> list[str]:
        """Return what the database itself finds wrong with its files; usually nothing."""

    def learn_sizes(self) -> None:
        """Let the database count its rows after a bulk import, so that it plans queries well."""

    def give_back_space(self) -> None:
        """Return the space of removed rows to the system, as far as that takes no long lock."""

    def close(self) -> None:
        """Close the database."""
