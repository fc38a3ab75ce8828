"""Define what is shown of one group: its members, commits, evidence, log, and what can be done."""

from __future__ import annotations

from msgspec import Struct

from torchstone.reporting.views.changes.change_view import GroupView


class CommitLine(Struct, frozen=True):
    """A commit of the interval."""

    commit: str
    author: str
    date: str
    title: str


class GroupPage(Struct, frozen=True, kw_only=True):
    """Everything about a group. ``commits_note`` says why there are no commits, or that there are more."""

    store: str
    group: GroupView
    commits: tuple[CommitLine, ...] = ()
    commits_note: str = ""
    evidence: tuple[str, ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
