"""What the data decides about groups, in a store: after changes were found and grouped."""

from __future__ import annotations

from functools import partial

from msgspec import structs

from torchstone.history.causes.stored_groups import read_groups
from torchstone.history.change_records import OPEN_STATES, SeriesChange, TriageEvent, TriageState
from torchstone.history.stored_changes import ChangeQuery, read_changes
from torchstone.history.triage.points_after import count_points
from torchstone.history.triage.triage_log import add_event
from torchstone.history.triage.triage_rules import ChangeHistory, index_changes, settle
from torchstone.store.database.connection import Database

_MOST_STEPS = 5


def settle_automatically(database: Database) -> list[TriageEvent]:
    """Close groups whose level is back, open those that relapsed, and put aside what is no regression. Return the new events.

    Nothing is locked while there is nothing to decide.
    """
    with database.reading():
        history = _read_history(database)
        if history is None or not any(settle(history)):
            return []
    with database.writing():
        history = _read_history(database)
        return _settle(database, history) if history is not None else []


def _settle(database: Database, history: ChangeHistory) -> list[TriageEvent]:
    groups = {group.id: group for group in history.groups}
    done: list[TriageEvent] = []
    for _ in range(_MOST_STEPS):
        decisions = list(settle(structs.replace(history, groups=list(groups.values()))))
        for number, decision in decisions:
            event = add_event(database, number, decision)
            before = groups[number]
            groups[number] = structs.replace(before, state=event.state, events=(*before.events, event))
            done.append(event)
        if not decisions:
            break
    return done


def _read_history(database: Database) -> ChangeHistory | None:
    """Return what the rules look at; None if no group is open."""
    wanted = _find_related(database, _read_states(database))
    if not wanted:
        return None
    groups = read_groups(database, numbers=wanted)
    return ChangeHistory(
        groups, index_changes(_read_siblings(database, wanted)), partial(count_points, database)
    )


def _read_states(database: Database) -> dict[int, tuple[TriageState, int | None]]:
    """Return the state of each group, and what it is a duplicate of."""
    states: dict[int, tuple[TriageState, int | None]] = {
        number: (TriageState.NEW, None) for (number,) in database.query("SELECT id FROM change_groups")
    }
    for group, state, other in database.query(
        "SELECT group_id, state, duplicate_of FROM triage_events ORDER BY id"
    ):
        states[group] = TriageState(state), other
    return states


def _find_related(database: Database, states: dict[int, tuple[TriageState, int | None]]) -> tuple[int, ...]:
    """Return the open groups, their duplicates, and the fixed groups with changes in the same series, of which they may be a relapse."""
    opened = {number for number, (state, _) in states.items() if state in OPEN_STATES}
    if not opened:
        return ()
    duplicates = {number for number, (_, other) in states.items() if other in opened}
    fixed = {number for number, (state, _) in states.items() if state is TriageState.FIXED}
    by_detection: dict[int, set[int]] = {}
    for detection, group in database.query(
        "SELECT detection_id, group_id FROM changes WHERE group_id IS NOT NULL"
    ):
        by_detection.setdefault(detection, set()).add(group)
    before = {number for groups in by_detection.values() if groups & opened for number in groups & fixed}
    return tuple(sorted(opened | duplicates | before))


def _read_siblings(database: Database, groups: tuple[int, ...]) -> list[SeriesChange]:
    """Return all changes of the series that have a change in one of these groups."""
    marks = ", ".join("?" * len(groups))
    rows = database.query(
        f"SELECT id FROM changes WHERE detection_id IN (SELECT detection_id FROM changes WHERE group_id IN ({marks}))",
        list(groups),
    )
    return read_changes(database, ChangeQuery(ids=tuple(number for (number,) in rows))) if rows else []
