"""Render a group as a message for a chat, of the shape that Slack's incoming webhooks take."""

from __future__ import annotations

import msgspec

from torchstone.core.text.safe_text import escape_line
from torchstone.reporting.dialects.changes.group_text import facts_of
from torchstone.reporting.views.changes.change_view import GroupView
from torchstone.reporting.views.changes.group_page import GroupPage

_MEMBERS = 5
_LONGEST = 2900  # characters of a section; Slack takes 3,000


def render_chat_message(page: GroupPage) -> str:
    """Render a group as JSON: ``text`` for notifications, ``blocks`` for the message."""
    group = page.group
    title = f"{_what(group)} {group.id}: {group.name}"
    sections = [
        f"*{_escape(title)}*\n" + "\n".join(_escape(fact) for fact in facts_of(group)),
        "\n".join(_member(group)),
        "\n".join(f"{_escape(what)}: `{_escape(command)}`" for what, command in page.commands[:2]),
    ]
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": text[:_LONGEST]}} for text in sections if text
    ]
    payload = {"text": _escape(f"{title}, {group.effects}"), "blocks": blocks}
    return msgspec.json.encode(payload).decode()


def _what(group: GroupView) -> str:
    return "Regression" if group.is_regression else "Change"


def _member(group: GroupView) -> list[str]:
    lines = [
        f"• {_escape(each.name)} {each.metric}: {each.change} ({_escape(each.levels)})"
        if each.change
        else f"• {_escape(each.name)} {each.metric}: {_escape(each.levels)}"
        for each in group.changes[:_MEMBERS]
    ]
    left = len(group.changes) - _MEMBERS
    return [*lines, f"... and {left} more"] if left > 0 else lines


def _escape(text: str) -> str:
    """Escape what Slack would read as markup of its own: ``<!channel>`` in the name of a case must not call everybody."""
    plain = escape_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("`", "'")
