"""Add to the log of triage in a store: events are only ever added."""

from __future__ import annotations

from datetime import UTC, datetime

from torchstone.core.text.redaction import redact
from torchstone.history.change_records import TriageEvent
from torchstone.history.triage.triage_rules import Decision
from torchstone.store.database.connection import Database

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
