"""Bring everything that follows from the runs of a store up to date: changes first, then what builds on them."""

from __future__ import annotations

from msgspec import Struct

from torchstone.history.causes.update_groups import GroupsUpdate, update_groups
from torchstone.history.change_records import TriageEvent
from torchstone.history.change_rows import ChangesUpdate
from torchstone.history.detect_changes import update_changes
from torchstone.history.triage.settling import settle_automatically
from torchstone.store.database.connection import Database


class HistoryUpdate(Struct, frozen=True):
    """What bringing a store up to date did."""

    changes: ChangesUpdate = ChangesUpdate()
    groups: GroupsUpdate = GroupsUpdate()
    events: tuple[TriageEvent, ...] = ()

    @property
    def summary(self) -> str:
        """What became of the changes, in a few words; empty if none was found and none is gone."""
        counts = (
            (len(self.changes.found), "found"),
            (len(self.changes.moved), "moved"),
            (len(self.changes.vanished), "vanished"),
        )
        told = ", ".join(f"{count:,} {what}" for count, what in counts if count)
        return f"changes: {told}" if told else ""


def bring_up_to_date(database: Database, *, thorough: bool = False) -> HistoryUpdate:
    """Take each step in a transaction of its own: one that was interrupted is made up for by the next call."""
    changes = update_changes(database, thorough=thorough)
    groups = update_groups(database, changes.moved)
    return HistoryUpdate(changes, groups, tuple(settle_automatically(database)))
