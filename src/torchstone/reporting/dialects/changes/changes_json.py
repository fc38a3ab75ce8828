"""Render changes and their groups as JSON, for programs."""

from __future__ import annotations

import msgspec

from torchstone.core.text.safe_text import escape_json
from torchstone.reporting.views.changes.change_view import ChangesView, ChangeView, GroupView


def render_changes_json(view: ChangesView) -> str:
    """Render a flat list of changes, and the groups with the ids of their changes."""
    document = {
        "store": view.store,
        "newest": view.newest,
        "series": view.series,
        "open_regressions": len(view.open_regressions),
        "confirmed_regressions": len(view.confirmed),
        "changes": [change_record(change) for group in view.groups for change in group.changes],
        "groups": [
            {**group_record(group), "changes": [change.id for change in group.changes]}
            for group in view.groups
        ],
        "notes": view.notes,
    }
    return encode_document(document)


def render_groups_json(groups: tuple[GroupView, ...], store: str) -> str:
    """Render groups, each with all of its changes."""
    return encode_document({"store": store, "groups": [whole_group_record(group) for group in groups]})


def whole_group_record(group: GroupView) -> dict[str, object]:
    """Return a group with its changes and its audit trail."""
    return {
        **group_record(group),
        "changes": [change_record(change) for change in group.changes],
        "events": [msgspec.to_builtins(note) for note in group.notes],
    }


def change_record(change: ChangeView) -> dict[str, object]:
    """Return one change. ``effect`` is the ratio after / before; null for a status."""
    record: dict[str, object] = msgspec.to_builtins(change)
    return record


def group_record(group: GroupView) -> dict[str, object]:
    """Return a group without its changes."""
    record: dict[str, object] = msgspec.to_builtins(group)
    return {name: value for name, value in record.items() if name not in {"changes", "notes", "show"}} | {
        "effects": group.effects,
        "cases": group.cases,
    }


def encode_document(document: object) -> str:
    """Return a value as indented JSON that is safe to print."""
    return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"
