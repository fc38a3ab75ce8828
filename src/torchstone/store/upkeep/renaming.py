"""Rename a benchmark without losing its history.

Series under both names become one, and files with the old name stay usable.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from torchstone.core.errors import UsageError
from torchstone.core.records import Case
from torchstone.core.text.safe_text import is_plain
from torchstone.core.text.suggestions import did_you_mean
from torchstone.core.text.units import count_of
from torchstone.store.database.connection import Database, Value
from torchstone.store.identity import renamed
from torchstone.store.naming import SERIES_KEY, case_columns
from torchstone.store.upkeep.detections import move_series_detections, move_status_detections

_METHOD = SERIES_KEY[1:]


class Renaming(Struct, frozen=True):
    """A benchmark that was renamed: its suite, both names, its cases, and how many of them joined a case that had the new name already."""

    suite: str
    old: str
    new: str
    cases: int
    joined: int


def rename(connection: Database, old: str, new: str) -> Renaming:
    """Rename a benchmark, given as ``NAME`` or ``SUITE::NAME``."""
    suite, _, name = old.rpartition("::")
    if not new or not is_plain(new) or "::" in new:
        raise UsageError(
            f"'{new}': no usable name of a benchmark", advice="expected a name on one line, without '::'"
        )
    if name == new:
        raise UsageError(f"{old} has this name already")
    with connection.writing():
        cases = _cases_of(connection, suite, name)
        by_id = {str(row[0]): int(row[1] or 0) for row in connection.query("SELECT name, id FROM cases")}
        joined = 0
        for case_id, case in cases:
            kept = renamed(case, new)
            if kept.id in by_id:
                _join(connection, (case_id, case), (by_id[kept.id], kept))
                joined += 1
            else:
                connection.execute(
                    "UPDATE cases SET name = ?, suite = ?, benchmark = ?, probe = ?, device = ?, backend = ?, mode = ?,"
                    " dtype = ?, dynamic = ?, batch_size = ?, record = ? WHERE id = ?",
                    (kept.id, *case_columns(kept), case_id),
                )
        found = cases[0][1].suite
        _note(connection, found, name, new)
    return Renaming(found, name, new, len(cases), joined)


def _cases_of(connection: Database, suite: str, name: str) -> list[tuple[int, Case]]:
    """Return the cases of a benchmark with their ids; raise an error if there are none, or if several suites have it."""
    rows = connection.query("SELECT id, record FROM cases WHERE benchmark = ? ORDER BY id", (name,))
    found = [(int(number or 0), msgspec.json.decode(str(record), type=Case)) for number, record in rows]
    suites = sorted({case.suite for _, case in found})
    if suite:
        found = [(number, case) for number, case in found if case.suite == suite]
    elif len(suites) > 1:
        listed = ", ".join(f"{each}::{name}" for each in suites)
        raise UsageError(f"{name}: {count_of(len(suites), 'suite')} have it", advice=f"name one: {listed}")
    if not found:
        known = [str(row[0]) for row in connection.query("SELECT DISTINCT benchmark FROM cases")]
        raise UsageError(
            f"{name}: no such benchmark in {connection.place}", advice=did_you_mean(name, known).rstrip()
        )
    return found


def _join(connection: Database, old: tuple[int, Case], new: tuple[int, Case]) -> None:
    """Move all rows of a case to another one."""
    (old_id, case), (new_id, kept) = old, new
    both = connection.query(
        "SELECT r.name FROM outcomes a JOIN outcomes b ON b.run_id = a.run_id JOIN runs r ON r.id = a.run_id"
        " WHERE a.case_id = ? AND b.case_id = ? LIMIT 1",
        (old_id, new_id),
    )
    if both:
        raise UsageError(
            f"{both[0][0]} has both {case.id} and {kept.id}: they are two benchmarks",
            advice="nothing was renamed",
        )
    columns = ", ".join(_METHOD)
    for series_id, *method in connection.query(
        f"SELECT id, {columns} FROM series WHERE case_id = ?", (old_id,)
    ):
        _move_series(connection, series_id, (new_id, *method))
    for table in ("outcomes", "failures"):
        connection.execute(f"UPDATE {table} SET case_id = ? WHERE case_id = ?", (new_id, old_id))
    move_status_detections(connection, old_id, new_id)
    connection.execute("DELETE FROM cases WHERE id = ?", (old_id,))


def _move_series(connection: Database, series_id: int, key: tuple[int, *tuple[Value, ...]]) -> None:
    same = " AND ".join(f"{column} = ?" for column in SERIES_KEY)
    there = connection.query(f"SELECT id FROM series WHERE {same}", key)
    if not there:
        connection.execute("UPDATE series SET case_id = ? WHERE id = ?", (key[0], series_id))
        move_series_detections(connection, series_id, series_id, key[0])
        return
    ((target,),) = there
    for table in ("points", "samples"):
        connection.execute(f"UPDATE {table} SET series_id = ? WHERE series_id = ?", (target, series_id))
    move_series_detections(connection, series_id, target, key[0])
    connection.execute("DELETE FROM series WHERE id = ?", (series_id,))
    connection.execute(
        "UPDATE series SET latest_run_id = (SELECT r.id FROM points p JOIN runs r ON r.id = p.run_id"
        " JOIN revisions v ON v.id = r.revision_id WHERE p.series_id = series.id"
        " ORDER BY v.position DESC, v.id DESC, r.id DESC LIMIT 1) WHERE id = ?",
        (target,),
    )


def _note(connection: Database, suite: str, old: str, new: str) -> None:
    """Remember the rename, for files that still have the old name; a name that is in use again stands for itself."""
    connection.execute("DELETE FROM renames WHERE suite = ? AND old = ?", (suite, new))
    connection.execute("UPDATE renames SET new = ? WHERE suite = ? AND new = ?", (new, suite, old))
    connection.execute("DELETE FROM renames WHERE suite = ? AND old = ?", (suite, old))
    connection.insert("renames", ("suite", "old", "new"), [(suite, old, new)])
