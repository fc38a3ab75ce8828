"""Render changes and their groups as text of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.text.safe_text import escape_commands, escape_line, escape_lines
from torchstone.reporting.dialects.columns import WIDTH, cut_middle
from torchstone.reporting.run_text.blocks import cut, wrapped
from torchstone.reporting.views.changes.change_view import ChangesView, ChangeView, GroupView

MEMBERS = 4
"""Members of a group in the list; 'triage show' has all."""
_INDENT = "      "
_SHORTEST_NAME = 16


def render_changes_text(view: ChangesView, most: int = MEMBERS) -> str:
    """Render all groups, open regressions first, each with its worst members."""
    return _safe(_lines_of_view(view, most))


def _lines_of_view(view: ChangesView, most: int) -> Iterator[str]:
    yield from _wrap(view.headline)
    for title, groups in _sections(view):
        if not groups:
            continue
        yield ""
        yield title
        for group in groups:
            yield from group_lines(group, most)
    closed = [group for group in view.groups if not group.is_open]
    if closed:
        yield ""
        yield f"Closed: {len(closed)}"
        yield from (line for group in closed for line in _closed_line(group))
    for note in view.notes:
        yield ""
        yield from _wrap(note)


def _sections(view: ChangesView) -> Iterator[tuple[str, list[GroupView]]]:
    others = [group for group in view.groups if group.is_open and not group.needs_somebody]
    yield "Open regressions", list(view.open_regressions)
    yield "Improvements", [group for group in others if group.direction == "improvement"]
    yield "Other changes", [group for group in others if group.direction != "improvement"]


def group_lines(group: GroupView, most: int = MEMBERS) -> Iterator[str]:
    """Yield the lines of a group in a list: number and name, numbers, the worst members, and how to confirm it."""
    yield from _wrap(f"{group.id:>4}  {group.name}", _INDENT)
    state = group.state + (f" ({group.owner})" if group.owner else "")
    cause = "" if group.cause == "code" else f"{group.cause}, "
    facts = f"{state}: {cause}{group.effects}, {group.interval}, {group.certainty_text}"
    yield from _wrap(f"{_INDENT}{facts}", _INDENT)
    yield from member_lines(group.changes[:most], _INDENT + "  ")
    left = len(group.changes) - most
    if most and left > 0:
        yield f"{_INDENT}  ... and {left} more: {escape_line(group.show)}"
    if group.confirm:
        yield f"{_INDENT}to confirm or refute it:"
        yield from (f"{_INDENT}  {escape_line(command)}" for command in group.confirm)


def member_lines(changes: Sequence[ChangeView], indent: str) -> Iterator[str]:
    """Yield a line for each change, in columns; a long name is cut where the line would be too long."""
    if not changes:
        return
    every = [(each.name, each.metric, each.change, each.levels) for each in changes]
    used = [column for column in range(4) if any(row[column] for row in every)]
    rows = [[row[column] for column in used] for row in every]
    widths = [max(len(row[column]) for row in rows) for column in range(len(used))]
    room = WIDTH - len(indent) - sum(widths[1:]) - 2 * len(used) + 2
    widths[0] = max(_SHORTEST_NAME, min(widths[0], room))
    for name, *cells in rows:
        shown = [cut_middle(name, widths[0]), *cells]
        yield f"{indent}{'  '.join(cell.ljust(width) for cell, width in zip(shown, widths, strict=True))}".rstrip()


def _closed_line(group: GroupView) -> Iterator[str]:
    state = f"duplicate of {group.duplicate_of}" if group.duplicate_of else group.state
    line = f"{group.id:>4}  {state}: {group.name}"
    whole = f"{line}, {group.effects}"
    yield cut(escape_line(whole if len(whole) <= WIDTH else line), WIDTH)


def _wrap(text: str, indent: str = "") -> list[str]:
    return wrapped(escape_line(text), "", indent, WIDTH).splitlines()


def _safe(lines: Iterator[str]) -> str:
    return escape_commands(escape_lines("\n".join(lines))) + "\n"
