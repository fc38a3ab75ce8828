"""Read the values of some metrics in some runs, and the newest value and noise of every series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from torchstone.store.database.connection import Database

_AT_ONCE = 400


class MeasuredValue(Struct, frozen=True, gc=False):
    """One value: its case, class of machines, metric and unit, and the noise between its trials."""

    case_id: int
    machine: str
    metric: str
    unit: str
    value: float
    spread: float | None


_COLUMNS = (
    "SELECT s.case_id, a.name, m.name, m.unit, p.value, p.spread FROM series s"
    " JOIN metrics m ON m.id = s.metric_id JOIN machines a ON a.id = s.machine_id"
)


# CROSS JOIN keeps SQLite from reading all points to find those of the newest runs.
_NEWEST = (
    "SELECT s.case_id, a.name, m.name, m.unit, p.value, p.spread FROM series s CROSS JOIN points p"
    " JOIN metrics m ON m.id = s.metric_id JOIN machines a ON a.id = s.machine_id"
    " WHERE p.series_id = s.id AND p.run_id = s.latest_run_id AND p.value IS NOT NULL"
)


def read_values_of_run(database: Database, run_id: int, metrics: Sequence[str]) -> Iterator[MeasuredValue]:
    """Yield the values of these metrics in a run."""
    marks = ", ".join("?" * len(metrics))
    rows = database.query(
        f"{_COLUMNS} JOIN points p ON p.series_id = s.id AND p.run_id = ?"
        f" WHERE m.name IN ({marks}) AND p.value IS NOT NULL",
        (run_id, *metrics),
    )
    return (MeasuredValue(*row) for row in rows)


def read_newest_values(
    database: Database, cases: Sequence[int], metrics: Sequence[str]
) -> Iterator[MeasuredValue]:
    """Yield the newest value of each series of these cases and metrics."""
    names = ", ".join("?" * len(metrics))
    for start in range(0, len(cases), _AT_ONCE):
        part = cases[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(part))
        rows = database.query(
            f"{_NEWEST} AND s.case_id IN ({marks}) AND m.name IN ({names})",
            (*part, *metrics),
        )
        yield from (MeasuredValue(*row) for row in rows)


def read_newest_of_all(database: Database) -> Iterator[MeasuredValue]:
    """Yield the newest value of each series."""
    rows = database.query(_NEWEST)
    return (MeasuredValue(*row) for row in rows)
