"""Collect everything about one group of changes: its commits, the evidence of its worst member, and what can be done."""

from __future__ import annotations

from torchstone.api.keeping.group_views import list_commands, view_group
from torchstone.history.change_records import ChangeGroup
from torchstone.reporting.views.changes.group_page import GroupPage
from torchstone.store.database.connection import Database


def describe_group(
    database: Database, group: ChangeGroup, store: str = "", repository: str = ""
) -> GroupPage:
    """Return what is shown of a group. ``store`` is named in commands; ``repository`` is a folder in that of the revisions."""
    view = view_group(group, store=store)
    return GroupPage(
        store=database.place,
        group=view,
        commands=list_commands(group, view, store),
    )
