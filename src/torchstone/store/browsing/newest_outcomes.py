"""Find the newest outcome of every case on every class of machines, without reading the whole history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from torchstone.core.records import Case
from torchstone.store.browsing.run_pages import RunFilter, read_run_page, read_runs_by_id
from torchstone.store.database.connection import Database
from torchstone.store.stored import StoredRun

NEWEST_RUNS = 60
"""In so many of the newest runs, outcomes are looked for; those of other cases are looked up one by one."""
_ENOUGH_ROWS = 20_000
_AT_ONCE = 500


class KnownCase(Struct, frozen=True):
    """A case of a store, with its number."""

    id: int
    case: Case


class NewestOutcome(Struct, frozen=True, gc=False):
    """The newest outcome of a case on a class of machines; ``status`` is None if the case was planned, and has no outcome."""

    case_id: int
    machine: str
    status: str | None
    run_id: int


class NewestOutcomes(Struct, frozen=True):
    """The newest outcomes of a branch, newest run first, with their cases and runs. ``newest`` are the newest runs of the branch."""

    cases: dict[int, Case]
    outcomes: tuple[NewestOutcome, ...]
    runs: dict[int, StoredRun]
    newest: tuple[StoredRun, ...]


def read_known_cases(database: Database) -> list[KnownCase]:
    """Return all cases, by their numbers."""
    decode = msgspec.json.Decoder(Case).decode
    rows = database.query("SELECT id, record FROM cases ORDER BY id")
    return [KnownCase(number, decode(record)) for number, record in rows]


def read_newest_outcomes(database: Database, branch: str | None) -> NewestOutcomes:
    """Return the newest outcome of every case on every class of machines, of the runs of one branch, or of all."""
    cases = {each.id: each.case for each in read_known_cases(database)}
    newest = read_run_page(database, RunFilter(branch), NEWEST_RUNS)
    runs = {run.id: run for run in newest}
    found: dict[tuple[int, str], NewestOutcome] = {}
    rows = 0
    for run in newest:
        for each in _of_run(database, run.id):
            rows += 1
            found.setdefault((each.case_id, each.machine), each)
        if rows >= _ENOUGH_ROWS:
            break
    seen = {case_id for case_id, _ in found}
    older = list(_older(database, (number for number in cases if number not in seen)))
    runs |= read_runs_by_id(database, sorted({each.run_id for each in older} - runs.keys()))
    kept = (each for each in older if branch is None or runs[each.run_id].branch == branch)
    return NewestOutcomes(cases, (*found.values(), *kept), runs, tuple(newest))


def _of_run(database: Database, run_id: int) -> Iterator[NewestOutcome]:
    rows = database.query(
        "SELECT o.case_id, a.name, t.name FROM outcomes o JOIN machines a ON a.id = o.machine_id"
        " LEFT JOIN statuses t ON t.id = o.status_id WHERE o.run_id = ? ORDER BY o.case_id",
        (run_id,),
    )
    for case_id, machine, status in rows:
        yield NewestOutcome(case_id, str(machine), None if status is None else str(status), run_id)


def _older(database: Database, cases: Iterable[int]) -> Iterator[NewestOutcome]:
    """Yield the last outcome of each of these cases: that of the run that was recorded last."""
    wanted = list(cases)
    for start in range(0, len(wanted), _AT_ONCE):
        part = wanted[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(part))
        rows = database.query(
            "SELECT o.case_id, a.name, t.name, o.run_id FROM cases c JOIN outcomes o ON o.case_id = c.id"
            " AND o.run_id = (SELECT max(x.run_id) FROM outcomes x WHERE x.case_id = c.id)"
            " JOIN machines a ON a.id = o.machine_id LEFT JOIN statuses t ON t.id = o.status_id"
            f" WHERE c.id IN ({marks})",
            part,
        )
        for case_id, machine, status, run_id in rows:
            yield NewestOutcome(case_id, str(machine), None if status is None else str(status), run_id)
