"""Choose the level of a series that new results are judged by: the newest that nobody doubts.

An open regression does not become the reference: the level before it stays. What is ``expected`` (or will not be fixed)
moves the reference, and changes that are ``noise`` or of the ``machine`` divide no level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from torchstone.analyze.changepoints import find_changes_in_many
from torchstone.history.change_records import OPEN_STATES, Cause, Direction, TriageState
from torchstone.history.change_rows import MOST_MOVED
from torchstone.store.database.connection import Database

_IGNORED = frozenset({TriageState.NOISE, TriageState.MACHINE})


class Boundary(Struct, frozen=True):
    """Where a level begins: its first index, the levels on both sides, and whether it is a regression that is open."""

    index: int
    before: float
    after: float
    is_open: bool = False


class StoredBoundary(Struct, frozen=True):
    """A change that the store knows: the first run of the new level, and what was decided about it."""

    run_id: int
    before: float | str
    after: float | str
    is_open: bool
    is_ignored: bool


class Decisions(Struct, frozen=True):
    """The changes of some runs: by series, and, for statuses, by case and class of machines; in the order in which they were found."""

    series: dict[int, list[StoredBoundary]]
    statuses: dict[tuple[int, str], list[StoredBoundary]]


class LevelSeries(Struct, frozen=True):
    """The values of a series with their runs, in the order of revisions; a count is exact."""

    id: int
    runs: tuple[int, ...]
    values: tuple[float, ...]
    is_counted: bool


def read_decisions(database: Database, runs: Iterable[int]) -> Decisions:
    """Return the changes whose first new run is one of these, with what was decided about them."""
    states = _read_states(database)
    found = Decisions({}, {})
    counted = set(runs)
    for series_id, case_id, machine, run_id, group, way, *levels in database.query(
        "SELECT d.series_id, d.case_id, a.name, x.first_new_run_id, x.group_id, x.direction, x.before, x.after, x.old_status,"
        " x.new_status FROM changes x JOIN detections d ON d.id = x.detection_id JOIN machines a ON a.id = d.machine_id"
        " WHERE x.vanished_at IS NULL ORDER BY x.id"
    ):
        if run_id in counted:
            state = states.get(group, TriageState.NEW)
            before, after = levels[:2] if series_id is not None else levels[2:]
            is_open = state in OPEN_STATES and way != Direction.IMPROVEMENT
            boundary = StoredBoundary(run_id, before, after, is_open, state in _IGNORED)
            if series_id is None:
                found.statuses.setdefault((case_id, machine), []).append(boundary)
            else:
                found.series.setdefault(series_id, []).append(boundary)
    return found


def _read_states(database: Database) -> dict[int, TriageState]:
    """Return the state of each group that is not new; that of a duplicate is the other group's."""
    states = {
        group: TriageState.MACHINE
        for group, cause in database.query("SELECT id, cause FROM change_groups")
        if cause == Cause.MACHINE
    }
    other: dict[int, int] = {}
    for group, state, duplicate_of in database.query(
        "SELECT group_id, state, duplicate_of FROM triage_events ORDER BY id"
    ):
        states[group] = TriageState(state)
        other[group] = duplicate_of if state == TriageState.DUPLICATE else 0
    for group in list(states):
        seen, at = {group}, group
        while other.get(at) and other[at] not in seen:
            at = other[at]
            seen.add(at)
        states[group] = states.get(at, TriageState.NEW)
    return states


def find_references(series: Sequence[LevelSeries], decisions: Decisions) -> list[tuple[int, int]]:
    """Return where the reference level of each series begins and ends."""
    changes = find_changes_in_many([() if each.is_counted else each.values for each in series])
    found = []
    for each, detected in zip(series, changes, strict=True):
        known, places = [], []
        for stored in decisions.series.get(each.id, ()):
            index = each.runs.index(stored.run_id) if stored.run_id in each.runs else 0
            places.append(index)
            if 0 < index < len(each.runs) and not stored.is_ignored:
                known.append(Boundary(index, float(stored.before), float(stored.after), stored.is_open))
        also = [
            Boundary(change.index, change.before, change.after)
            for change in detected
            if not change.provisional and all(abs(change.index - place) > MOST_MOVED for place in places)
        ]
        boundaries = sorted([*known, *also], key=lambda boundary: boundary.index)
        found.append(find_reference(len(each.values), boundaries))
    return found


def find_reference(points: int, boundaries: Sequence[Boundary]) -> tuple[int, int]:
    """Return where the reference level of a series begins and ends.

    After an open regression, a later level is the reference again if it is nearer to the one before the regression than to the regression.

    >>> find_reference(30, [Boundary(10, 1.0, 1.2), Boundary(20, 1.2, 1.5, is_open=True)])
    (10, 20)
    >>> find_reference(30, [Boundary(10, 1.0, 1.2, is_open=True), Boundary(20, 1.2, 1.0)])
    (20, 30)
    """
    start, stop = 0, points
    reference, worse = 0.0, 0.0
    for each in boundaries:
        if stop == points:
            if each.is_open:
                stop, reference, worse = each.index, each.before, each.after
            else:
                start = each.index
        elif not each.is_open and abs(each.after - reference) < abs(each.after - worse):
            start, stop = each.index, points
    return start, stop


def find_status(newest: str, boundaries: Sequence[StoredBoundary]) -> str:
    """Return the status that is expected of a case: its newest, unless that came with an open regression or is noise."""
    if (
        boundaries
        and (boundaries[-1].is_open or boundaries[-1].is_ignored)
        and boundaries[-1].after == newest
    ):
        return str(boundaries[-1].before)
    return newest
