"""Read the newest points and statuses of all cases at once: those of some runs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Case, Number
from torchstone.store.database.connection import Database
from torchstone.store.reading_runs import details_of, exact_number, is_counted
from torchstone.store.stored import StoredRun


class RecentSeries(Struct, frozen=True):
    """The points of a series in some runs, in the order of revisions; ``runs`` has the run of each."""

    id: int
    runs: tuple[int, ...]
    case: Case
    metric: str
    machine: str
    details: MeasurementDetails
    is_counted: bool
    values: tuple[Number, ...]


class RecentPoints(Struct, frozen=True):
    """What some runs have: series, and the last status of each case on each machine, with the place of its run among them.

    ``case_ids`` are the ids of all cases.
    """

    series: tuple[RecentSeries, ...]
    statuses: dict[tuple[Case, str], tuple[str, int]]
    case_ids: dict[Case, int] = {}


def read_recent(database: Database, runs: Sequence[StoredRun]) -> RecentPoints:
    """Return what these runs have, which are in the order of revisions."""
    if not runs:
        return RecentPoints((), {})
    places = {run.id: place for place, run in enumerate(runs)}
    marks = ", ".join("?" * len(runs))
    cases = _read_cases(database)
    found: dict[int, list[tuple[int, float]]] = {}
    for series_id, run_id, value in database.query(
        f"SELECT series_id, run_id, value FROM points WHERE run_id IN ({marks}) AND value IS NOT NULL",
        list(places),
    ):
        found.setdefault(series_id, []).append((places[run_id], value))
    statuses: dict[tuple[Case, str], tuple[str, int]] = {}
    for case_id, machine, run_id, status in database.query(
        "SELECT o.case_id, a.name, o.run_id, t.name FROM outcomes o JOIN machines a ON a.id = o.machine_id"
        f" JOIN statuses t ON t.id = o.status_id WHERE o.run_id IN ({marks})",
        list(places),
    ):
        key = cases[case_id], str(machine)
        if key not in statuses or statuses[key][1] < places[run_id]:
            statuses[key] = str(status), places[run_id]
    numbers = {case: number for number, case in cases.items()}
    ids = [run.id for run in runs]
    return RecentPoints(tuple(_read_series(database, cases, found, ids)), statuses, numbers)


def _read_cases(database: Database) -> dict[int, Case]:
    decoder = msgspec.json.Decoder(Case)
    return {
        number: decoder.decode(record) for number, record in database.query("SELECT id, record FROM cases")
    }


def _read_series(
    database: Database, cases: dict[int, Case], found: dict[int, list[tuple[int, float]]], runs: Sequence[int]
) -> list[RecentSeries]:
    rows = database.query(
        "SELECT s.id, s.case_id, m.name, m.unit, m.better, a.name, s.counter, s.start_method, s.cache, s.definition"
        " FROM series s JOIN metrics m ON m.id = s.metric_id JOIN machines a ON a.id = s.machine_id ORDER BY s.id"
    )
    return [
        RecentSeries(
            number,
            tuple(runs[place] for place, _ in sorted(found[number])),
            cases[case_id],
            metric,
            machine,
            details_of(metric, unit, better, (counter, start, cache, definition)),
            is_counted(metric, better),
            tuple(exact_number(value, metric, better) for _, value in sorted(found[number])),
        )
        for number, case_id, metric, unit, better, machine, counter, start, cache, definition in rows
        if number in found
    ]
