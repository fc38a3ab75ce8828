"""Read groups of changes from a store, with their members and what was decided about them."""

from __future__ import annotations

from collections.abc import Sequence

from torchstone.core.errors import UsageError
from torchstone.core.text.units import count_of, some_of
from torchstone.history.causes.worst_first import worst_first
from torchstone.history.change_records import Cause, ChangeGroup, SeriesChange, TriageEvent, TriageState
from torchstone.history.stored_changes import ChangeQuery, read_changes
from torchstone.store.database.connection import Database

_FEW = 3
_EVENT = "id, group_id, state, at, reason, link, owner, author, is_automatic, duplicate_of"


def read_groups(database: Database, numbers: Sequence[int] = (), branch: str = "") -> list[ChangeGroup]:
    """Return these groups, or all, in the order of the revisions at which they begin; the members of each with the worst first.

    A change that vanished after somebody decided about it is a member still, behind the others.
    """
    chosen = f" WHERE id IN ({', '.join(map(str, map(int, numbers)))})" if numbers else ""
    rows = database.query(f"SELECT id, name, branch, cause, opened_at FROM change_groups{chosen} ORDER BY id")
    rows = [row for row in rows if not branch or row[2] == branch]
    members: dict[int, list[SeriesChange]] = {number: [] for number, *_ in rows}
    if rows:
        query = ChangeQuery(groups=tuple(members) if numbers else (), branch=branch, with_vanished=True)
        for change in read_changes(database, query):
            if change.group in members:
                members[change.group].append(change)
    events = _read_events(database, chosen.replace("id IN", "group_id IN"))
    groups = [
        _group(number, (name, on, cause, opened), members[number], events.get(number, ()))
        for number, name, on, cause, opened in rows
    ]
    return sorted(groups, key=_begin)


def find_group(database: Database, name: str) -> ChangeGroup:
    """Return the group of this number; raise an error if there is none."""
    number = int(name) if name.isascii() and name.isdecimal() and len(name) < 10 else None
    found = read_groups(database, (number,)) if number is not None else []
    if not found:
        problem = f"{name}: no such group of changes in {database.place}"
        raise UsageError(problem, advice=_name_nearest(database, number))
    return found[0]


def _name_nearest(database: Database, number: int | None) -> str:
    known = [int(each) for (each,) in database.query("SELECT id FROM change_groups ORDER BY id")]
    if not known:
        return "the store has no groups: 'torchstone changes' says what was found"
    if number is None or len(known) <= _FEW:
        listed = some_of([str(each) for each in known])
        return f"expected the number of a group: {listed}"
    nearest = sorted(known, key=lambda each: (abs(each - number), each))[:2]
    listed = ", ".join(map(str, sorted(nearest)))
    return f"the groups are {known[0]} to {known[-1]}; the nearest: {listed}"


def _group(
    number: int,
    row: tuple[str, str, str, str],
    members: Sequence[SeriesChange],
    events: Sequence[TriageEvent],
) -> ChangeGroup:
    name, branch, cause, opened_at = row
    present = worst_first(each for each in members if not each.is_vanished)
    gone = worst_first(each for each in members if each.is_vanished)
    cases = len({each.series.case for each in present})
    return ChangeGroup(
        id=number,
        name=name if cases == 1 else f"{name}, {count_of(cases, 'case')}",
        branch=branch,
        cause=Cause(cause),
        opened_at=opened_at,
        changes=(*present, *gone),
        state=events[-1].state if events else TriageState.NEW,
        events=tuple(events),
    )


def _begin(group: ChangeGroup) -> tuple[str, int, int]:
    first = min((each.first_new.position for each in group.changes), default=0)
    return group.branch, first, group.id


def _read_events(database: Database, chosen: str) -> dict[int, list[TriageEvent]]:
    found: dict[int, list[TriageEvent]] = {}
    for number, group, state, at, *texts, automatic, other in database.query(
        f"SELECT {_EVENT} FROM triage_events{chosen} ORDER BY id"
    ):
        reason, link, owner, author = texts
        event = TriageEvent(
            id=number,
            group=group,
            state=TriageState(state),
            at=at,
            reason=reason,
            link=link,
            owner=owner,
            author=author,
            is_automatic=bool(automatic),
            duplicate_of=other,
        )
        found.setdefault(group, []).append(event)
    return found
