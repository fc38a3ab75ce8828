"""Runs to record, and a look at all rows of a store."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from comparison_files import case_of, counts, failed, passed, times
from torchstone.core.records import Measurement, Outcome, Reading, Revision, Run
from torchstone.core.run_settings import environment_from
from torchstone.store.database.change_tables import CHANGE_VIEWS
from torchstone.store.database.connection import Database
from torchstone.store.database.opening import connect
from torchstone.store.database.schema import TABLES, VIEWS
from torchstone.store.record_runs import Recorded, ToRecord, record_runs

EPYC: Mapping[str, Any] = {"machine": {"cpu": {"model": "EPYC"}}, "versions": {"torch": "2.13.0"}}


def run_of(
    number: int = 1,
    outcomes: Sequence[Outcome] | None = None,
    *,
    commit: str = "",
    branch: str = "main",
    dirty: bool = False,
    environment: Mapping[str, Any] = EPYC,
    finished: bool = True,
    planned: Sequence[Outcome] = (),
    day: str = "20261118",
) -> Run:
    """A run of three cases: one with times and graph breaks, one with times, one that failed."""
    if outcomes is None:
        outcomes = (
            passed("net", times(2.0, seed=number), counts("graph_breaks", 1, 1)),
            passed("mlp", times(5.0, seed=number + 1000)),
            failed("bad"),
        )
    cases = tuple(each.case for each in planned or outcomes)
    revision = Revision(commit or f"{number:040x}", branch, dirty)
    run_id = f"{day}T2031{number % 60:02d}-{number:06x}"
    return Run(run_id, cases, tuple(outcomes), revision, environment_from(environment), finished=finished)


def reading_of(run: Run, kind: str = "run", path: str = "") -> Reading:
    return Reading(path or f"{run.id}.jsonl", kind, run, range(2, 2 + len(run.outcomes)))


def to_record(*runs: Run) -> list[ToRecord]:
    return [ToRecord(reading_of(run), run.revision) for run in runs]


def recorded(database: Database, *runs: Run) -> list[Recorded]:
    return record_runs(database, to_record(*runs))


def rows_of(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, without the times of recording."""
    kept = {
        table.name: [name for name in table.names if name != "recorded_at"]
        for table in TABLES
        if table.name != "store_info"
    }
    return {
        table: sorted(database.query(f"SELECT {', '.join(names)} FROM {table}"), key=repr)  # noqa: S608  (names of our tables)
        for table, names in kept.items()
    }


def new_database(postgres: str) -> str:
    """Creates a database on the server, and returns its URL."""
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(f"{postgres}postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    return f"{postgres}{name}?connect_timeout=60"  # a busy machine takes its time


@contextmanager
def opened(location: str, *, creates: bool = True) -> Iterator[Database]:
    with closing(connect(location, creates=creates)) as database:
        yield database


def one_number(name: str, value: float, metric: str = "abs_latency", **axes: Any) -> Outcome:  # noqa: ANN401  (axes of any kind)
    return Outcome(case_of(name, **axes), "pass", (Measurement(metric, (value,)),))


def make_older(database: Database) -> None:
    """Make a store one of version 1: without views, changes and triage."""
    for view in (*VIEWS, *CHANGE_VIEWS):
        database.execute(f"DROP VIEW {view}")
    for table in reversed(TABLES):
        if table.since > 1:
            database.execute(f"DROP TABLE {table.name}")
    database.execute("DELETE FROM migrations WHERE number > 1")
