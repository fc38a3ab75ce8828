"""The log of triage in a store: events, which are only ever added."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime

from torchstone.core.text.redaction import redact
from torchstone.history.change_records import TriageEvent, TriageState
from torchstone.history.triage.triage_rules import Decision
from torchstone.store.database.connection import Database, Row

_COLUMNS = (
    "id",
    "group_id",
    "state",
    "at",
    "reason",
    "link",
    "owner",
    "author",
    "is_automatic",
    "duplicate_of",
)


def read_events(database: Database, groups: Collection[int] = ()) -> dict[int, tuple[TriageEvent, ...]]:
    """Return the events of these groups, or of all, by group, oldest first."""
    marks = ", ".join("?" * len(groups))
    chosen = f" WHERE group_id IN ({marks})" if groups else ""
    rows = database.query(
        f"SELECT {', '.join(_COLUMNS)} FROM triage_events{chosen} ORDER BY id", list(groups)
    )
    found: dict[int, list[TriageEvent]] = {}
    for row in rows:
        event = _event(row)
        found.setdefault(event.group, []).append(event)
    return {group: tuple(events) for group, events in found.items()}


def add_event(database: Database, group: int, decision: Decision) -> TriageEvent:
    """Add an event. The caller holds a ``writing()`` transaction, in which it has checked the decision."""
    ((newest,),) = database.query("SELECT max(id) FROM triage_events")
    event = TriageEvent(
        id=(newest or 0) + 1,
        group=group,
        state=decision.state,
        at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        reason=redact(decision.reason),
        link=redact(decision.link),
        owner=decision.owner,
        author=decision.author,
        is_automatic=decision.is_automatic,
        duplicate_of=decision.duplicate_of,
    )
    values = [getattr(event, "group" if name == "group_id" else name) for name in _COLUMNS]
    values[_COLUMNS.index("state")] = event.state.value
    values[_COLUMNS.index("is_automatic")] = int(event.is_automatic)
    database.insert("triage_events", _COLUMNS, [values])
    return event


def _event(row: Row) -> TriageEvent:
    number, group, state, at, reason, link, owner, author, is_automatic, duplicate_of = row
    return TriageEvent(
        id=number,
        group=group,
        state=TriageState(state),
        at=at,
        reason=reason,
        link=link,
        owner=owner,
        author=author,
        is_automatic=bool(is_automatic),
        duplicate_of=duplicate_of,
    )
