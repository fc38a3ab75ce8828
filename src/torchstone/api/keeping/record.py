"""``record``: record runs in a store, and load many of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.keeping.files_to_record import RevisionFinder, list_files, read_results
from torchstone.api.requests import Sources, make_request
from torchstone.api.showing import show_rows
from torchstone.api.sources import Axes, Input, require_given
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution, merged
from torchstone.core.config import find_store
from torchstone.core.records import Reading
from torchstone.core.text.units import count_of, some_of
from torchstone.history.update import HistoryUpdate, bring_up_to_date
from torchstone.measure.code.ancestry import find_heights, has_history
from torchstone.store.database.connection import Database
from torchstone.store.database.opening import connect
from torchstone.store.ordering import History, is_another_history, read_order
from torchstone.store.record_runs import Recorded, RecordEffect, ToRecord, count_effects, record_runs

if TYPE_CHECKING:
    from typing import Unpack

AT_ONCE = 1000
"""Files of one transaction of ``HistoryStore.load``."""
_MOST_WAITING = 500_000
"""Outcomes of one transaction of ``HistoryStore.load``: more take too much memory."""


class RecordRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Files and folders to record, and where. ``repository`` is a folder in the repository of the revisions, by default the current one.

    ``in_batches`` makes a transaction of each thousand files instead of one of all.
    """

    results: tuple[Input, ...]
    store: str = ""
    revision: str = ""
    revision_from: str = ""
    branch: str = ""
    repository: str = ""
    axes: Axes = ()
    kind: str = ""
    summaries_only: bool = False
    in_batches: bool = False
    config: str | None = None


class RecordOptions(TypedDict, total=False):
    """Options of ``record`` and ``HistoryStore.load``, explained in docs/history.md."""

    store: str
    revision: str
    revision_from: str
    branch: str
    repository: str
    axes: Mapping[str, object]
    kind: str
    summaries_only: bool
    config: str | None


class RecordResult(Struct, frozen=True):
    """What was recorded: one entry for each file; and what that did to the changes of the store."""

    store: str
    runs: tuple[Recorded, ...]
    cautions: tuple[Caution, ...] = ()
    update: HistoryUpdate = HistoryUpdate()

    @property
    def points(self) -> int:
        """The number of new points."""
        return sum(each.points for each in self.runs)

    @property
    def summary(self) -> str:
        """What was done, in one line."""
        counts = count_effects(self.runs)
        parts = [
            f"{count} {effect.value}"
            if effect is not RecordEffect.RECORDED
            else f"{count_of(count, 'run')} recorded"
            for effect, count in counts.items()
            if count
        ]
        told = (
            f"{', '.join(parts) or 'nothing to record'} in {self.store}: {count_of(self.points, 'new point')}"
        )
        return f"{told}; {self.update.summary}" if self.update.summary else told

    def __str__(self) -> str:
        return self.summary

    def _repr_html_(self) -> str:
        return show_rows(self.summary, (), (), self.cautions)


def record(results: Sources, **options: Unpack[RecordOptions]) -> RecordResult:
    """Record runs in a store, as ``torchstone record`` does: all of them, or none.

        torchstone.record("run.jsonl")
        torchstone.record("nightly/", store="postgresql://me@db/benchmarks")

    A run that is recorded already is not recorded again.
    """
    return record_results(make_request(RecordRequest, {"results": results, **options}))


def record_results(request: RecordRequest) -> RecordResult:
    """Record as requested."""
    require_given(request.results, "torchstone record run.jsonl")
    location = find_store(request.store, request.config)
    folder = request.repository or os.getcwd()
    finder = RevisionFinder(folder, request.revision, request.revision_from, request.branch)
    cautions: list[Caution] = []
    recorded: list[Recorded] = []
    batches = _read_batches(request, cautions)
    batch = next(batches, [])  # before the store is created: a bad file leaves nothing behind
    first = finder.find(batch)
    knows_git = has_history(folder)
    with closing(connect(location, creates=True)) as connection:
        while batch:
            runs = first or finder.find(batch)
            first = []
            recorded += _record(connection, runs, folder if knows_git else "", request, cautions)
            batch = next(batches, [])
        if request.in_batches:
            connection.learn_sizes()
        update = bring_up_to_date(connection)
        place = connection.place
    cautions += _find_clocks_ahead(recorded)
    return RecordResult(place, tuple(recorded), merged(cautions), update)


def try_store(store: str, config: str | None = None) -> None:
    """Raise an error if runs cannot be recorded in a store; create it if it does not exist."""
    connection = connect(find_store(store, config), creates=True)
    try:
        with connection.writing():
            pass
    finally:
        connection.close()


def _read_batches(request: RecordRequest, cautions: list[Caution]) -> Iterator[list[Reading]]:
    """Yield the readings of each transaction; without batches, all at once."""
    batch: list[Reading] = []
    outcomes = 0
    for given, was_found in list_files(request.results):
        reading = read_results(given, request.kind, request.axes, was_found=was_found, cautions=cautions)
        if reading is None:
            continue
        cautions += reading.cautions
        batch.append(reading)
        outcomes += len(reading.run.outcomes)
        if request.in_batches and (len(batch) == AT_ONCE or outcomes > _MOST_WAITING):
            yield batch
            batch, outcomes = [], 0
    if batch:
        yield batch


def _record(
    connection: Database,
    runs: Sequence[ToRecord],
    folder: str,
    request: RecordRequest,
    cautions: list[Caution],
) -> list[Recorded]:
    """Record runs in one transaction, in the order of git's history as far as it is known."""
    order = read_order(connection)
    history = History()
    commits = [each.revision.commit for each in runs if each.revision.commit]
    if folder and commits:
        known = {each.commit: each.height for each in order if each.height is not None}
        history = History(find_heights(folder, commits, known), is_there=True)
        unknown = dict.fromkeys(each for each in commits if each not in history.heights)
        if unknown:
            cautions.append(
                make_caution(
                    CautionKind.UNKNOWN_REVISIONS, revisions=some_of([each[:12] for each in unknown])
                )
            )
        elif is_another_history(order, history):
            cautions.append(make_caution(CautionKind.ANOTHER_HISTORY))
    return record_runs(connection, runs, history, keeps_raw=not request.summaries_only)


def _find_clocks_ahead(recorded: Sequence[Recorded]) -> Iterator[Caution]:
    """Yield a caution for each run that was measured in the future, more than a day ahead."""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for each in recorded:
        if each.measured_at and each.measured_at > tomorrow:
            yield make_caution(CautionKind.CLOCK_AHEAD, path=each.path, day=each.measured_at[:10])
