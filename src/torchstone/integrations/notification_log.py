"""Record in a store who was told about a group, by kind of target; the target itself is a secret."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from torchstone.history.change_records import OPEN_STATES, ChangeGroup
from torchstone.integrations.delivery import NotificationChannel
from torchstone.store.database.connection import Database

_SENDING, _SENT = "sending", "sent"
_ABANDONED = timedelta(minutes=10)
"""A delivery that began so long ago and did not end was killed: it counts as failed."""


def find_told(database: Database, channel: NotificationChannel) -> dict[int, str]:
    """Return when each group was told on a channel, or has just begun to be."""
    before = _text(datetime.now(UTC) - _ABANDONED)
    rows = database.query(
        "SELECT group_id, max(at) FROM notifications WHERE channel = ? AND (state = ? OR (state = ? AND at >= ?))"
        " GROUP BY group_id",
        (channel.value, _SENT, _SENDING, before),
    )
    return {int(group): str(at) for group, at in rows}


def is_news(group: ChangeGroup, told_at: str | None) -> bool:
    """Return whether a group was not told yet, or has been opened again since then."""
    if told_at is None:
        return True
    was_closed, opened_at = False, ""
    for event in group.events:
        if event.state not in OPEN_STATES:
            was_closed = True
        elif was_closed:
            was_closed, opened_at = False, event.at
    return opened_at > told_at


def claim(database: Database, group: ChangeGroup, channel: NotificationChannel) -> int | None:
    """Note that a delivery begins, and return its number; None if another process was faster."""
    with database.writing():
        if not is_news(group, find_told(database, channel).get(group.id)):
            return None
        ((newest,),) = database.query("SELECT max(id) FROM notifications")
        number = (newest or 0) + 1
        row = (number, group.id, channel.value, _SENDING, _text(datetime.now(UTC)))
        database.insert("notifications", ("id", "group_id", "channel", "state", "at"), [row])
    return number


def finish(database: Database, number: int, *, is_sent: bool) -> None:
    """Note that a delivery has succeeded; or forget it, so that it is tried again."""
    with database.writing():
        if is_sent:
            database.execute("UPDATE notifications SET state = ? WHERE id = ?", (_SENT, number))
        else:
            database.execute("DELETE FROM notifications WHERE id = ?", (number,))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
