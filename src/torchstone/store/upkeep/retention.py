"""What is kept for how long: raw data for 90 days; summaries, pinned runs and what is near a change for ever."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from msgspec import Struct, structs

from torchstone.core.errors import UsageError
from torchstone.store.database.connection import Database
from torchstone.store.reading_runs import find_run
from torchstone.store.stored import StoredRun
from torchstone.store.upkeep.kept_around import find_around_changes
from torchstone.store.upkeep.removing import remove_run

DAYS = 90
"""Days for which raw samples and details are kept."""
# Whichever is earlier: a clock that was wrong must not keep a run for ever.
_DAY_OF_RUN = "CASE WHEN r.measured_at < r.recorded_at THEN r.measured_at ELSE r.recorded_at END"


class Pruning(Struct, frozen=True):
    """Runs whose raw data is older than the limit, and the bytes of this data. ``kept`` is the number of runs that are old, but pinned.

    ``around`` is the number of measurements that are as old, but lie within some points of a change of their series.
    """

    before: str
    runs: int
    samples: int
    bytes: int
    kept: int
    is_applied: bool = False
    around: int = 0


def prune(
    connection: Database, days: int = DAYS, *, applies: bool = False, now: datetime | None = None
) -> Pruning:
    """Find raw data older than some days, and remove it if asked to. Points, statuses and failures stay."""
    before = ((now or datetime.now(UTC)) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")
    if not applies:
        with connection.reading():
            return _measure(connection, before)
    with connection.writing():
        found = _measure(connection, before)
        for part in _parts(connection):
            connection.execute(f"DELETE FROM {part.rows}", (before,))
    connection.give_back_space()
    return structs.replace(found, is_applied=True)


class _Part(NamedTuple):
    """Rows to remove: what follows ``FROM`` in a statement about them, and their table."""

    table: str
    rows: str


def _parts(connection: Database) -> list[_Part]:
    """Return what is old and is not kept: details, samples of series without changes, and samples far from the changes of each other series."""
    around = find_around_changes(connection)
    old = f"run_id IN (SELECT r.id FROM runs r WHERE {_DAY_OF_RUN} < ? AND r.pinned IS NULL)"
    parts = [_Part("run_details", f"run_details WHERE {old} AND {_not_in('run_id', around.details)}")]
    changed = sorted(around.samples)
    parts.append(_Part("samples", f"samples WHERE {old} AND {_not_in('series_id', changed)}"))
    for series_id in changed:
        kept = _not_in("run_id", around.samples[series_id])
        parts.append(_Part("samples", f"samples WHERE {old} AND series_id = {series_id} AND {kept}"))
    return parts


def _not_in(column: str, ids: Collection[int]) -> str:
    return f"{column} NOT IN ({', '.join(map(str, sorted(ids)))})" if ids else "1 = 1"


def _measure(connection: Database, before: str) -> Pruning:
    old = f"SELECT r.id FROM runs r WHERE {_DAY_OF_RUN} < ? AND r.pinned IS NULL"
    counts = {"samples": 0, "run_details": 0}
    size, runs = 0, set[int]()
    for part in _parts(connection):
        for run_id, count, length in connection.query(
            f"SELECT run_id, count(*), coalesce(sum(length(data)), 0) FROM {part.rows} GROUP BY run_id",
            (before,),
        ):
            counts[part.table] += count
            size += int(length)
            runs.add(run_id)
    ((there,),) = connection.query(f"SELECT count(*) FROM samples WHERE run_id IN ({old})", (before,))
    ((kept,),) = connection.query(
        f"SELECT count(*) FROM runs r WHERE {_DAY_OF_RUN} < ? AND r.pinned IS NOT NULL", (before,)
    )
    around = int(there or 0) - counts["samples"]
    return Pruning(before, len(runs), counts["samples"], size, int(kept or 0), around=around)


def pin(connection: Database, name: str, reason: str | None) -> StoredRun:
    """Keep the raw data of a run for ever, for a reason; None lets it go again. Return the run."""
    with connection.writing():
        run = find_run(connection, name)
        connection.execute("UPDATE runs SET pinned = ? WHERE id = ?", (reason, run.id))
    return run


def remove(connection: Database, name: str) -> StoredRun:
    """Remove a run with all its points. Return what it was."""
    with connection.writing():
        run = find_run(connection, name)
        if run.pinned is not None:
            raise UsageError(
                f"{run.name} is pinned ({run.pinned or 'no reason given'})",
                advice=f"first let it go: torchstone store pin {run.id} --release",
            )
        remove_run(connection, run.id)
    connection.give_back_space()
    return run
