"""Collect everything about one group of changes: its commits, the evidence of its worst member, and what can be done."""

from __future__ import annotations

from torchstone.api.explaining.explain_change import explain_change
from torchstone.api.keeping.group_views import list_commands, view_group
from torchstone.core.text.units import count_of
from torchstone.history.causes.environment_causes import find_environment_changes
from torchstone.history.change_records import Cause, ChangeGroup
from torchstone.history.triage.triage_rules import find_interval, regressions_of
from torchstone.measure.code.commit_list import CommitList, list_commits
from torchstone.reporting.views.changes.group_page import CommitLine, GroupPage
from torchstone.store.database.connection import Database

MOST_COMMITS = 30


def describe_group(
    database: Database, group: ChangeGroup, store: str = "", repository: str = ""
) -> GroupPage:
    """Return what is shown of a group. ``store`` is named in commands; ``repository`` is a folder in that of the revisions."""
    view = view_group(database, group, store)
    commits = _list_commits(group, repository)
    return GroupPage(
        store=database.place,
        group=view,
        commits=tuple(
            CommitLine(each.name, each.author, each.date, each.subject) for each in commits.commits
        ),
        commits_note=_describe_commits(commits),
        evidence=_find_evidence(database, group),
        commands=list_commands(database, group, view, store),
    )


def _list_commits(group: ChangeGroup, repository: str) -> CommitList:
    """Return the commits of the interval that all members share."""
    members = regressions_of(group) or list(group.changes)
    if not members:
        return CommitList()
    after, until = find_interval(members)
    return list_commits(repository, after.commit, until.commit, MOST_COMMITS)


def _describe_commits(commits: CommitList) -> str:
    left = commits.total - len(commits.commits)
    parts = [commits.problem, commits.note, f"... and {count_of(left, 'older commit')}" if left > 0 else ""]
    return "; ".join(each for each in parts if each)


def _find_evidence(database: Database, group: ChangeGroup) -> tuple[str, ...]:
    """Return what differs between the two runs of the worst member, and what changed in the environment."""
    if not group.changes:
        return ()
    found = explain_change(database, group.changes[0])
    changed = (
        find_environment_changes(group.changes) if group.cause is Cause.ENVIRONMENT else found.differences
    )
    return (*map(str, changed), *found.lines)
