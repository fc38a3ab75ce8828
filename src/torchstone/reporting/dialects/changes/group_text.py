"""Render everything about one group of changes as text of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.text.safe_text import escape_commands, escape_line, escape_lines
from torchstone.reporting.dialects.changes.changes_text import member_lines
from torchstone.reporting.dialects.columns import WIDTH, cut_middle
from torchstone.reporting.run_text.blocks import wrapped
from torchstone.reporting.views.changes.change_view import (
    DATE,
    GroupView,
    certainty_text,
    count_members,
    short,
)
from torchstone.reporting.views.changes.group_page import GroupPage

_INDENT = "  "
_MOST = 50


def render_group_text(page: GroupPage, most: int = _MOST) -> str:
    """Render a group: facts, members with the worst first, commits, evidence, the audit trail, and commands."""
    return escape_commands(escape_lines("\n".join(_lines(page, most)))) + "\n"


def _lines(page: GroupPage, most: int) -> Iterator[str]:
    group = page.group
    yield from _wrap(f"group {group.id}: {group.name}")
    yield from (line for fact in facts_of(group) for line in _wrap(f"{_INDENT}{fact}", _INDENT * 2))
    yield ""
    yield f"{count_members(group)}, worst first"
    yield from member_lines(group.changes[:most], _INDENT)
    if len(group.changes) > most:
        yield f"{_INDENT}... and {len(group.changes) - most} more; --format json has all"
    yield from _commits(page)
    if page.evidence:
        yield ""
        yield "What the worst of them shows"
        yield from (line for text in page.evidence for line in _wrap(f"{_INDENT}{text}", _INDENT * 2))
    if group.notes:
        yield ""
        yield "What was decided"
        for note in group.notes:
            by = f" by {note.author}" if note.author else ""
            told = f": {note.text}" if note.text else ""
            yield from _wrap(f"{_INDENT}{note.at[:16].replace('T', ' ')} {note.state}{by}{told}", _INDENT * 2)
    yield ""
    yield "What to do"
    for what, command in page.commands:
        yield f"{_INDENT}{what}:"
        yield f"{_INDENT * 2}{escape_line(command)}"


def _commits(page: GroupPage) -> Iterator[str]:
    if not page.commits and not page.commits_note:
        return
    yield ""
    yield f"Commits in {page.group.interval}"
    for each in page.commits:
        line = f"{_INDENT}{each.commit[:10]} {each.date[:DATE]} {each.author}: {each.title}"
        yield cut_middle(line, WIDTH)
    if page.commits_note:
        yield from _wrap(f"{_INDENT}{page.commits_note}", _INDENT)


def facts_of(group: GroupView) -> Iterator[str]:
    """Yield the facts about a group, a sentence each."""
    owner = f", looked after by {group.owner}" if group.owner else ""
    other = f" of group {group.duplicate_of}" if group.duplicate_of else ""
    reason = f": {group.reason}" if group.reason else ""
    yield f"state: {group.state}{other}{owner}{reason}"
    branch = f" on {group.branch}" if group.branch else ""
    cause = {"machine": " (the whole machine)", "environment": " (the environment changed)"}.get(
        group.cause, ""
    )
    yield f"{group.effects}{cause}, {_how_certain(group)}"
    day = group.first_new_at[:DATE]
    at = f", {day}" if day and day not in group.first_new else ""
    yield f"after {short(group.last_old)}, at {short(group.first_new)} at the latest{branch}{at}"
    if group.link:
        yield group.link
    if group.is_provisional and group.is_open:
        yield "provisional: more points, or measuring again, will confirm or refute it"


def _how_certain(group: GroupView) -> str:
    return f"{'provisional, ' if group.is_provisional else ''}certainty {certainty_text(group.certainty)}"


def _wrap(text: str, indent: str = "") -> list[str]:
    inner = len(text) - len(text.lstrip())
    return wrapped(escape_line(text.strip()), text[:inner], indent, WIDTH).splitlines()
