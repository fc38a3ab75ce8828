"""``HistoryStore``: what is in a store, and what can be done with it, one function a capability."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from torchstone.api.keeping.record import RecordOptions, RecordRequest, RecordResult, record_results
from torchstone.api.keeping.series import SeriesOptions, SeriesRequest, SeriesResult, find_all
from torchstone.api.requests import Path, Sources, Texts, make_request, take
from torchstone.api.results import RunResult
from torchstone.api.value_checks import MOST_DAYS, check_count
from torchstone.core.config import find_store
from torchstone.core.errors import InputError, UsageError
from torchstone.core.text.redaction import redact
from torchstone.history.update import bring_up_to_date
from torchstone.store.database.connection import Database
from torchstone.store.database.opening import connect
from torchstone.store.reading_runs import find_run, list_runs, read_run
from torchstone.store.stored import StoredRun
from torchstone.store.upkeep.copying import Copied, copy
from torchstone.store.upkeep.describing import StoreInfo, describe
from torchstone.store.upkeep.renaming import Renaming, rename
from torchstone.store.upkeep.retention import DAYS, Pruning, pin, prune, remove
from torchstone.store.upkeep.verifying import Verification, verify

if TYPE_CHECKING:
    from typing import Unpack


def _run_name(run: str | int) -> str:
    return str(take("run", run, str | int))


class HistoryStore:
    """A store of runs, by its path or URL; without one, the store of the configuration. It is opened for each call.

    store = torchstone.HistoryStore("history.db")
    store.info(), store.series("resnet*", metrics="speedup").to_frame()
    """

    def __init__(self, location: Path = "", config: str | None = None) -> None:
        config = take("config", config, str | None)
        self._location = find_store(take("location", location, str), config)

    @contextmanager
    def _opened(self) -> Iterator[Database]:
        with closing(connect(self._location)) as connection:
            yield connection

    def record(self, results: Sources, **options: Unpack[RecordOptions]) -> RecordResult:
        """Record runs: all of them, or none."""
        given = {**options, "results": results, "store": self._location}
        return record_results(make_request(RecordRequest, given))

    def load(self, results: Sources, **options: Unpack[RecordOptions]) -> RecordResult:
        """Record many files, a thousand in each transaction."""
        given = {**options, "results": results, "store": self._location, "in_batches": True}
        return record_results(make_request(RecordRequest, given))

    def series(self, cases: Texts = (), **options: Unpack[SeriesOptions]) -> SeriesResult:
        """Return the history of metrics."""
        return find_all(make_request(SeriesRequest, {**options, "cases": cases, "store": self._location}))

    def info(self) -> StoreInfo:
        """Return what is in the store, and how much room it takes."""
        with self._opened() as connection:
            return describe(connection)

    def runs(self) -> list[StoredRun]:
        """Return all runs, in the order of revisions."""
        with self._opened() as connection, connection.reading():
            return list_runs(connection)

    def read(self, run: str | int) -> RunResult:
        """Return a run as it was recorded, by its id, number or revision. After its raw data was pruned, each measurement is one number with its spread."""
        with self._opened() as connection, connection.reading():
            return RunResult(read_run(connection, find_run(connection, _run_name(run))))

    def prune(self, days: int = DAYS, *, apply: bool = False) -> Pruning:
        """Find raw data older than some days; remove it if ``apply`` is set. Points, statuses and pinned runs are kept for ever."""
        check_count("--days", take("days", days, int), least=0, most=MOST_DAYS)
        applies = take("apply", apply, bool)
        with self._opened() as connection:
            return prune(connection, days, applies=applies)

    def pin(self, run: str | int, reason: str = "") -> StoredRun:
        """Keep the raw data of a run for ever."""
        name, reason = _run_name(run), take("reason", reason, str)
        with self._opened() as connection:
            return pin(connection, name, reason)

    def release(self, run: str | int) -> StoredRun:
        """Let the raw data of a pinned run be pruned again."""
        with self._opened() as connection:
            return pin(connection, _run_name(run), None)

    def remove(self, run: str | int) -> StoredRun:
        """Remove a run with all its points."""
        with self._opened() as connection:
            removed = remove(connection, _run_name(run))
            bring_up_to_date(connection)
            return removed

    def rename(self, old: str, new: str) -> Renaming:
        """Rename a benchmark, ``NAME`` or ``SUITE::NAME``; its history stays, and files with the old name stay usable."""
        old, new = take("old", old, str), take("new", new, str)
        with self._opened() as connection:
            done = rename(connection, old, new)
            bring_up_to_date(connection)
            return done

    def verify(self) -> Verification:
        """Check that every run is whole, and all data can be read."""
        with self._opened() as connection:
            return verify(connection)

    def copy_to(self, target: Path) -> Copied:
        """Copy everything to a new store, in SQLite or PostgreSQL."""
        location = take("target", target, str)
        if not location:
            raise UsageError("no target given", advice="expected a path, or postgresql://USER@HOST/DATABASE")
        with self._opened() as source:
            if location == self._location:
                raise InputError("source and target are the same store", path=source.place)
            with closing(connect(location, creates=True)) as copied:
                return copy(source, copied)

    def __repr__(self) -> str:
        return f"HistoryStore({redact(self._location)!r})"
