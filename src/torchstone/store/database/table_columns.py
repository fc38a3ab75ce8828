"""Tables and columns as data, whatever the database."""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """A column: its type, whether it may be NULL, and the table whose ``id`` it holds."""

    name: str
    kind: str
    nullable: bool = False
    references: str = ""


class Table(NamedTuple):
    """A table. ``key`` is its primary key; ``unique`` are columns that are unique together; ``indexes`` are single columns.

    ``is_clustered`` stores the rows in the order of the key where the database can. ``since`` is the migration that creates it.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ("id",)
    unique: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    is_clustered: bool = False
    since: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def integer(name: str, *, nullable: bool = False, references: str = "") -> Column:
    """Return a column of whole numbers."""
    return Column(name, "integer", nullable, references)


def number(name: str) -> Column:
    """Return a column of numbers, NULL where there is none."""
    return Column(name, "real", nullable=True)


def text(*names: str) -> tuple[Column, ...]:
    """Return columns of text."""
    return tuple(Column(name, "text") for name in names)


def nullable_text(name: str) -> Column:
    """Return a column of text, NULL where there is none."""
    return Column(name, "text", nullable=True)


ID = integer("id")
