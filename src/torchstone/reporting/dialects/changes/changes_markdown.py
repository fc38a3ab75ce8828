"""Render changes as Markdown: all groups for a job summary, one group for the body of an issue or a comment."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.reporting.dialects.changes.group_text import facts_of
from torchstone.reporting.dialects.markdown_page import code, escape, make_table
from torchstone.reporting.views.changes.change_view import (
    ChangesView,
    ChangeView,
    GroupView,
    certainty_text,
    short,
)
from torchstone.reporting.views.changes.group_page import GroupPage

_MEMBERS = 20
_HEADER = ["case", "metric", "change", "levels", "certainty"]


def render_changes_markdown(view: ChangesView) -> str:
    """Render all groups: a table of the open regressions with their members folded, then the others."""
    return "\n".join(_lines(view)).rstrip("\n") + "\n"


def _lines(view: ChangesView) -> Iterator[str]:
    yield "## Changes"
    yield ""
    yield escape(view.headline)
    for title, groups in (
        ("Open regressions", view.open_regressions),
        ("Other open changes", [each for each in view.groups if each.is_open and not each.needs_somebody]),
        ("Closed", [each for each in view.groups if not each.is_open]),
    ):
        if groups:
            yield ""
            yield f"### {title}"
            yield ""
            head = ["group", "what", "effect", "revisions", "certainty", "state"]
            yield make_table([head, *(_group_row(group) for group in groups)]).rstrip("\n")
        if title == "Open regressions":
            yield from (line for group in groups for line in _folded(group))
    for note in view.notes:
        yield ""
        yield escape(note)


def _group_row(group: GroupView) -> list[str]:
    state = f"duplicate of {group.duplicate_of}" if group.duplicate_of else group.state
    return [
        str(group.id),
        escape(group.name),
        escape(group.effects),
        code(group.interval, in_table=True),
        "provisional" if group.is_provisional else escape(certainty_text(group.certainty)),
        escape(f"{state} ({group.owner})" if group.owner else state),
    ]


def _folded(group: GroupView) -> Iterator[str]:
    yield ""
    yield f"<details><summary>Group {group.id}: {escape(group.name)}</summary>"
    yield ""
    yield from members_table(group)
    for command in group.confirm:
        yield ""
        yield f"To confirm or refute it: {code(command)}"
    yield ""
    yield "</details>"


def members_table(group: GroupView) -> Iterator[str]:
    """Yield a table of the worst members."""
    yield make_table([_HEADER, *(_member_row(each) for each in group.changes[:_MEMBERS])]).rstrip("\n")
    if len(group.changes) > _MEMBERS:
        yield ""
        yield f"... and {len(group.changes) - _MEMBERS} more"


def _member_row(change: ChangeView) -> list[str]:
    certain = "provisional" if change.is_provisional else certainty_text(change.certainty)
    return [
        code(change.name, in_table=True),
        escape(change.metric),
        escape(change.change),
        escape(change.levels),
        escape(certain),
    ]


def render_group_markdown(page: GroupPage) -> str:
    """Render one group as the body of an issue or a comment."""
    return "\n".join(_issue_lines(page)).rstrip("\n") + "\n"


def title_of(group: GroupView) -> str:
    """Return the title of an issue about a group."""
    return f"Performance change {group.id}: {group.name} ({group.effects})"


def _issue_lines(page: GroupPage) -> Iterator[str]:
    group = page.group
    yield f"## {escape(title_of(group))}"
    yield ""
    yield from (f"- {escape(fact)}" for fact in facts_of(group))
    yield ""
    yield from members_table(group)
    if page.commits or page.commits_note:
        yield ""
        yield f"### Commits in {code(group.interval)}"
        yield ""
        for each in page.commits:
            yield f"- {code(short(each.commit)[:10])} {escape(each.title)} ({escape(each.author)}, {each.date[:10]})"
        if page.commits_note:
            yield escape(page.commits_note)
    if page.evidence:
        yield ""
        yield "### What the worst of them shows"
        yield ""
        yield from (f"- {escape(each)}" for each in page.evidence)
    yield ""
    yield "### What to do"
    yield ""
    yield from (f"- {escape(what)}: {code(command)}" for what, command in page.commands)
