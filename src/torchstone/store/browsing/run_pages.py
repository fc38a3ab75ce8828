"""Read a page of the runs of a store, newest first, with counts for the filters beside it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from torchstone.store.database.connection import Database, Value
from torchstone.store.reading_runs import STORED_RUNS, stored_run
from torchstone.store.stored import StoredRun

_FROM = " FROM runs r JOIN revisions v ON v.id = r.revision_id JOIN environments e ON e.id = r.environment_id"
_NEWEST_FIRST = " ORDER BY v.position DESC, v.id DESC, r.id DESC"
_MAIN = ("main", "master")


class RunFilter(Struct, frozen=True):
    """Which runs: of a branch (None for all), with a text in their name, revision, file or torch version, and measured in a time."""

    branch: str | None = None
    text: str = ""
    excludes: str = ""
    since: str = ""
    until: str = ""


class FilterCount(Struct, frozen=True, gc=False):
    """A value of a filter, with the number of rows that have it."""

    value: str
    count: int


def count_runs(database: Database, chosen: RunFilter) -> int:
    """Return the number of runs that match."""
    where, values = _conditions(chosen)
    ((found,),) = database.query(f"SELECT count(*){_FROM}{where}", values)
    return int(found)


def read_run_page(database: Database, chosen: RunFilter, most: int, skipped: int = 0) -> list[StoredRun]:
    """Return some of the runs that match, newest first."""
    where, values = _conditions(chosen)
    rows = database.query(f"{STORED_RUNS}{where}{_NEWEST_FIRST} LIMIT ? OFFSET ?", [*values, most, skipped])
    return [stored_run(row) for row in rows]


def read_runs_by_id(database: Database, ids: Sequence[int]) -> dict[int, StoredRun]:
    """Return runs by their ids."""
    if not ids:
        return {}
    marks = ", ".join("?" * len(ids))
    rows = database.query(f"{STORED_RUNS} WHERE r.id IN ({marks})", list(ids))
    return {run.id: run for run in map(stored_run, rows)}


def count_statuses(database: Database, ids: Sequence[int]) -> dict[int, list[FilterCount]]:
    """Return how many cases of each of these runs have each status; an empty status stands for a planned case without an outcome."""
    if not ids:
        return {}
    marks = ", ".join("?" * len(ids))
    rows = database.query(
        "SELECT o.run_id, t.name, count(*) FROM outcomes o LEFT JOIN statuses t ON t.id = o.status_id"
        f" WHERE o.run_id IN ({marks}) GROUP BY o.run_id, t.name ORDER BY o.run_id, count(*) DESC, t.name",
        list(ids),
    )
    found: dict[int, list[FilterCount]] = {}
    for run_id, status, count in rows:
        found.setdefault(run_id, []).append(FilterCount(str(status or ""), int(count)))
    return found


def count_branches(database: Database) -> list[FilterCount]:
    """Return the branches with their numbers of runs, most first."""
    rows = database.query("SELECT branch, count(*) FROM runs GROUP BY branch ORDER BY count(*) DESC, branch")
    return [FilterCount(str(branch), int(count)) for branch, count in rows]


def main_branch(branches: Sequence[FilterCount]) -> str | None:
    """Return the branch that pages show unless another one is asked for: main or master, else that with most runs."""
    names = [each.value for each in branches]
    return next((name for name in _MAIN if name in names), names[0] if names else None)


def _conditions(chosen: RunFilter) -> tuple[str, list[Value]]:
    parts: list[str] = []
    values: list[Value] = []
    if chosen.branch is not None:
        parts.append("r.branch = ?")
        values.append(chosen.branch)
    for text, how in ((chosen.text, ""), (chosen.excludes, "NOT ")):
        if text:
            pattern = f"%{_literal(text.lower())}%"
            columns = ("r.name", "v.name", "v.label", "r.source", "e.torch")
            any_of = " OR ".join(f"lower({column}) LIKE ? ESCAPE '!'" for column in columns)
            parts.append(f"{how}({any_of})")
            values += [pattern] * len(columns)
    if chosen.since:
        parts.append("coalesce(r.measured_at, r.recorded_at) >= ?")
        values.append(chosen.since)
    if chosen.until:
        parts.append("coalesce(r.measured_at, r.recorded_at) <= ?")
        values.append(chosen.until)
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), values


def _literal(text: str) -> str:
    """Return a text as part of a LIKE pattern that stands for itself."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
