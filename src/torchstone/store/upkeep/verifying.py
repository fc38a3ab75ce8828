"""Verify a store: every run is whole, every reference leads somewhere, all raw data can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from torchstone.core.text.units import count_of
from torchstone.store.database.connection import Database, Value
from torchstone.store.database.schema import TABLES
from torchstone.store.raw_data import decode_details, decode_samples
from torchstone.store.upkeep.verifying_changes import find_wrong_changes

_RAW: tuple[tuple[str, Callable[[bytes], object]], ...] = (
    ("samples", decode_samples),
    ("run_details", decode_details),
)


class Verification(Struct, frozen=True):
    """What was found wrong with a store, and the numbers of runs and points that were checked."""

    place: str
    problems: tuple[str, ...]
    runs: int
    points: int

    @property
    def is_valid(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(connection: Database) -> Verification:
    """Check the database, the references, the numbers of rows of each run, and all raw data."""
    problems = connection.find_damage()
    with connection.reading():
        if not problems:  # a damaged file may fail at any query
            problems = [*_find_orphans(connection), *_find_partial_runs(connection), *_find_wrong(connection)]
            problems += [*_find_unreadable(connection), *find_wrong_changes(connection)]
        ((runs,),) = connection.query("SELECT count(*) FROM runs")
        ((points,),) = connection.query("SELECT count(*) FROM points")
    return Verification(connection.place, tuple(problems), int(runs or 0), int(points or 0))


def _find_orphans(connection: Database) -> Iterator[str]:
    for table in TABLES:
        for column in table.columns:
            if column.references:
                yield from _count(
                    connection,
                    f"FROM {table.name} WHERE {column.name} IS NOT NULL"
                    f" AND {column.name} NOT IN (SELECT id FROM {column.references})",
                    f"{table.name}: {{}} whose {column.name} is unknown",
                )
    for table_name, owner, key in (("samples", "points", "series_id"), ("failures", "outcomes", "case_id")):
        yield from _count(
            connection,
            f"FROM {table_name} a WHERE NOT EXISTS (SELECT 1 FROM {owner} b WHERE b.{key} = a.{key} AND b.run_id = a.run_id)",
            f"{table_name}: {{}} without a row of {owner}",
        )


def _find_partial_runs(connection: Database) -> Iterator[str]:
    """Yield the runs that have more or fewer rows than were recorded."""
    for table, column, noun in (("outcomes", "outcome_count", "outcome"), ("points", "point_count", "point")):
        rows = connection.query(
            f"SELECT r.id, r.name, r.{column}, coalesce(f.found, 0) FROM runs r LEFT JOIN"
            f" (SELECT run_id, count(*) AS found FROM {table} GROUP BY run_id) f ON f.run_id = r.id"
            f" WHERE coalesce(f.found, 0) <> r.{column}"
        )
        for run_id, name, recorded, found in rows:
            yield f"run {run_id} ({name}): {count_of(_int(recorded), noun)} recorded, {_int(found):,} are here"


def _find_wrong(connection: Database) -> Iterator[str]:
    yield from _count(
        connection,
        "FROM series s WHERE NOT EXISTS"
        " (SELECT 1 FROM points p WHERE p.series_id = s.id AND p.run_id = s.latest_run_id)",
        "series: {} whose newest run has no point",
    )


def _find_unreadable(connection: Database) -> Iterator[str]:
    for table, decode in _RAW:
        bad = 0
        for (data,) in connection.stream(f"SELECT data FROM {table}"):
            try:
                decode(bytes(data) if isinstance(data, bytes | memoryview) else b"")
            except ValueError:
                bad += 1
        if bad:
            yield f"{table}: {count_of(bad, 'row')} cannot be decoded"


def _count(connection: Database, rows: str, problem: str) -> Iterator[str]:
    ((found,),) = connection.query(f"SELECT count(*) {rows}")
    if found:
        yield problem.format(count_of(_int(found), "row"))


def _int(value: Value) -> int:
    return int(value or 0)
