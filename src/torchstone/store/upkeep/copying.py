"""Copy a store to another database, in one transaction: the copy has every row, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from torchstone.core.errors import InputError, UsageError
from torchstone.store.database.connection import Database, Row
from torchstone.store.database.schema import TABLES
from torchstone.store.database.table_columns import Table


class Copied(Struct, frozen=True):
    """The number of rows of each table that were copied."""

    source: str
    target: str
    rows: dict[str, int]


def copy(source: Database, target: Database) -> Copied:
    """Copy all rows of a store to an empty one."""
    if source.place == target.place:
        raise UsageError("source and target are the same store")
    copied: dict[str, int] = {}
    with source.reading(), target.writing():
        if target.query("SELECT 1 FROM runs LIMIT 1"):
            raise InputError(
                "this store has runs already",
                path=target.place,
                advice="copy to a new store; nothing was written",
            )
        target.execute("DELETE FROM store_info")
        for table in TABLES:
            target.insert(table.name, table.names, _rows(source, table, copied))
        _compare(source, target, copied)
    return Copied(source.place, target.place, copied)


def _rows(source: Database, table: Table, copied: dict[str, int]) -> Iterator[Row]:
    """Yield the rows of a table in the order of its key, and count them."""
    count = 0
    sql = f"SELECT {', '.join(table.names)} FROM {table.name} ORDER BY {', '.join(table.key)}"
    for row in source.stream(sql):
        count += 1
        yield row
    copied[table.name] = count


def _compare(source: Database, target: Database, copied: dict[str, int]) -> None:
    """Raise an error, and so copy nothing, if the target has not all rows, or other values."""
    for table in TABLES:
        ((found,),) = target.query(f"SELECT count(*) FROM {table.name}")
        sums = [_sums(each, table) for each in (source, target)]
        if found != copied[table.name] or sums[0] != sums[1]:
            raise InputError(
                f"{table.name} was not copied whole", path=target.place, advice="nothing was written"
            )


def _sums(connection: Database, table: Table) -> Sequence[object]:
    """Return sums over the columns that hold numbers or bytes, which both databases compute alike."""
    parts = [
        f"coalesce(sum({column.name}), 0)"
        if column.kind == "integer"
        else f"coalesce(sum(length({column.name})), 0)"
        for column in table.columns
        if column.kind in {"integer", "blob"}
    ]
    if not parts:
        return ()
    (row,) = connection.query(f"SELECT {', '.join(parts)} FROM {table.name}")
    return [int(value or 0) for value in row]
