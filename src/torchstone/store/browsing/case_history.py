"""Read the history of one case: its series, the points and raw samples of one of them, its outcomes, and its changes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from torchstone.core.records import Case, Number, Outcome
from torchstone.core.vocabulary import METRICS, Metric, reported_metric
from torchstone.store.browsing.newest_outcomes import KnownCase
from torchstone.store.database.connection import Database, Row, Value
from torchstone.store.queries import SeriesQuery, read_points
from torchstone.store.raw_data import decode_details, decode_samples
from torchstone.store.stored import SeriesPoint

_ALL = SeriesQuery()


class SeriesOfCase(Struct, frozen=True):
    """One series of a case: its number and key, and its newest value."""

    id: int
    metric: Metric
    machine: str
    counter: str
    start: str
    cache: str
    preset: str
    definition: str
    newest: float | None


class StoredChange(Struct, frozen=True):
    """A change of a series, as it was detected: levels before and after it, and the runs on both sides."""

    last_old_run_id: int
    first_new_run_id: int
    direction: str
    before: float | None
    after: float | None
    old_status: str | None
    new_status: str | None
    certainty: float | None
    is_provisional: bool
    group: int | None


def find_stored_case(database: Database, name: str) -> list[KnownCase]:
    """Return the case of this number or id, or the cases of this benchmark."""
    columns = "SELECT id, record FROM cases"
    rows = []
    if name.isascii() and name.isdecimal() and len(name) < 10:
        rows = database.query(f"{columns} WHERE id = ?", (int(name),))
    if not rows:
        rows = database.query(f"{columns} WHERE name = ?", (name,))
    if not rows:
        rows = database.query(f"{columns} WHERE benchmark = ? ORDER BY id", (name,))
    decode = msgspec.json.Decoder(Case).decode
    return [KnownCase(number, decode(record)) for number, record in rows]


def read_series_of_case(database: Database, case_id: int) -> list[SeriesOfCase]:
    """Return the series of a case."""
    rows = database.query(
        "SELECT s.id, m.name, m.unit, m.better, a.name, s.counter, s.start_method, s.cache, s.preset, s.definition, p.value"
        " FROM series s JOIN metrics m ON m.id = s.metric_id JOIN machines a ON a.id = s.machine_id"
        " LEFT JOIN points p ON p.series_id = s.id AND p.run_id = s.latest_run_id WHERE s.case_id = ? ORDER BY s.id",
        (case_id,),
    )
    return [_series_of(row) for row in rows]


def _series_of(row: Row) -> SeriesOfCase:
    number, name, unit, better, machine, counter, start, cache, preset, definition, newest = row
    metric = METRICS.get(name) or reported_metric(name, unit, better or "lower")
    return SeriesOfCase(number, metric, machine, counter, start, cache, preset, definition, newest)


def read_points_of_series(database: Database, series_id: int, branch: str) -> tuple[SeriesPoint, ...]:
    """Return the points of a series, in the order of revisions; an empty branch means all."""
    query = msgspec.structs.replace(_ALL, branch=branch)
    return read_points(database, "points", "p.series_id = ?", (series_id,), query)


def read_outcomes_of_case(
    database: Database, case_id: int, machine: str, branch: str
) -> tuple[SeriesPoint, ...]:
    """Return the statuses of a case on a class of machines, in the order of revisions."""
    where = "p.case_id = ? AND p.machine_id = (SELECT id FROM machines WHERE name = ?)"
    given: tuple[Value, ...] = (case_id, machine)
    return read_points(database, "outcomes", where, given, msgspec.structs.replace(_ALL, branch=branch))


def read_raw_samples(database: Database, series_id: int) -> dict[int, tuple[Number, ...]]:
    """Return the raw samples of a series, by the number of their run, as far as they are kept."""
    rows = database.query("SELECT run_id, data FROM samples WHERE series_id = ?", (series_id,))
    return {run_id: decode_samples(bytes(data)) for run_id, data in rows}


def read_changes_of_series(database: Database, series_id: int, branch: str) -> list[StoredChange]:
    """Return the changes that were detected in a series on a branch, oldest first; an empty branch means all."""
    limit, values = (" AND d.branch = ?", [branch]) if branch else ("", [])
    rows = database.query(
        "SELECT c.last_old_run_id, c.first_new_run_id, c.direction, c.before, c.after, c.old_status, c.new_status,"
        " c.certainty, c.is_provisional, c.group_id FROM changes c JOIN detections d ON d.id = c.detection_id"
        f" WHERE d.series_id = ? AND c.vanished_at IS NULL{limit} ORDER BY c.earliest, c.id",
        [series_id, *values],
    )
    return [_change_of(row) for row in rows]


def _change_of(row: Row) -> StoredChange:
    old_run, new_run, direction, before, after, old_status, new_status, certainty, is_provisional, group = row
    return StoredChange(
        old_run,
        new_run,
        direction,
        before,
        after,
        old_status,
        new_status,
        certainty,
        bool(is_provisional),
        group,
    )


def read_outcome_details(database: Database, run_id: int, case: Case) -> Outcome | None:
    """Return the outcome of a case in a run with its texts, but without samples; None if its details were pruned."""
    rows = database.query("SELECT data FROM run_details WHERE run_id = ?", (run_id,))
    outcomes = decode_details(bytes(rows[0][0])).outcomes if rows else ()
    return next((each for each in outcomes if each.case == case), None)


def find_case_numbers(database: Database, ids: Sequence[str]) -> dict[str, int]:
    """Return the numbers of cases by their ids."""
    unique = list(dict.fromkeys(ids))
    if not unique:
        return {}
    marks = ", ".join("?" * len(unique))
    rows = database.query(f"SELECT name, id FROM cases WHERE name IN ({marks})", unique)
    return {str(name): int(number) for name, number in rows}
