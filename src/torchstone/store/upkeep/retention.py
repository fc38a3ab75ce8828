"""What is kept for how long: raw data for 90 days, summaries for ever, and raw data of chosen runs for ever, too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from torchstone.core.errors import UsageError
from torchstone.store.database.connection import Database
from torchstone.store.reading_runs import find_run
from torchstone.store.stored import StoredRun
from torchstone.store.upkeep.removing import remove_run

DAYS = 90
"""Days for which raw samples and details are kept."""
AROUND = 20
"""Points on each side of a change that keep their raw data."""

# Whichever is earlier: a clock that was wrong must not keep a run for ever.
_DAY_OF_RUN = "CASE WHEN r.measured_at < r.recorded_at THEN r.measured_at ELSE r.recorded_at END"


class Pruning(Struct, frozen=True):
    """Runs whose raw data is older than the limit, and the bytes of this data. ``kept`` is the number of runs that are old, but pinned."""

    before: str
    runs: int
    samples: int
    bytes: int
    kept: int
    is_applied: bool = False


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
        for table in ("samples", "run_details"):
            connection.execute(
                f"DELETE FROM {table} WHERE run_id IN (SELECT r.id FROM runs r WHERE {_DAY_OF_RUN} < ? AND r.pinned IS NULL)",
                (before,),
            )
    connection.give_back_space()
    return Pruning(found.before, found.runs, found.samples, found.bytes, found.kept, is_applied=True)


def _measure(connection: Database, before: str) -> Pruning:
    old = f"SELECT r.id FROM runs r WHERE {_DAY_OF_RUN} < ? AND r.pinned IS NULL"
    ((samples, size),) = connection.query(
        f"SELECT count(*), coalesce(sum(length(data)), 0) FROM samples WHERE run_id IN ({old})", (before,)
    )
    ((details,),) = connection.query(
        f"SELECT coalesce(sum(length(data)), 0) FROM run_details WHERE run_id IN ({old})", (before,)
    )
    ((runs,),) = connection.query(
        f"SELECT count(*) FROM runs WHERE id IN ({old}) AND"
        " (id IN (SELECT run_id FROM run_details) OR id IN (SELECT run_id FROM samples))",
        (before,),
    )
    ((kept,),) = connection.query(
        f"SELECT count(*) FROM runs r WHERE {_DAY_OF_RUN} < ? AND r.pinned IS NOT NULL", (before,)
    )
    return Pruning(
        before, int(runs or 0), int(samples or 0), int(size or 0) + int(details or 0), int(kept or 0)
    )


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
