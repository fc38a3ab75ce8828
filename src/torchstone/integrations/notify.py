"""``notify``: tell people about open regressions, once for each group and kind of target."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.keeping.changes import find_since, update_if_possible
from torchstone.api.keeping.group_pages import describe_group
from torchstone.api.keeping.triage import render_page_json, render_page_line
from torchstone.api.requests import Path, make_request
from torchstone.api.showing import show_html
from torchstone.core.config import find_store, find_webhooks
from torchstone.core.disk import read_text, write_text
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.text.units import count_of
from torchstone.history.causes.stored_groups import read_groups
from torchstone.history.change_records import ChangeGroup
from torchstone.history.triage.triage_rules import is_open_regression, regressions_of
from torchstone.integrations.delivery import NotificationChannel, check_url, post_json
from torchstone.integrations.notification_log import claim, find_told, finish, is_news
from torchstone.reporting.dialects.changes.changes_markdown import render_group_markdown
from torchstone.reporting.dialects.changes.chat_message import render_chat_message
from torchstone.reporting.views.changes.group_page import GroupPage
from torchstone.reporting.views.result_table import ResultTable
from torchstone.store.database.connection import Database
from torchstone.store.database.opening import connect

if TYPE_CHECKING:
    from typing import Unpack

RENDERERS: dict[NotificationChannel, Callable[[GroupPage], str]] = {
    NotificationChannel.WEBHOOK: render_page_json,
    NotificationChannel.SLACK: render_chat_message,
    NotificationChannel.GITHUB: render_group_markdown,
    NotificationChannel.FILE: render_page_line,
}


class NotifyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is told: URLs of a webhook and of Slack, files for Markdown (``github``) and JSON (``file``). A dry run only says what would be sent.

    ``since`` leaves out groups that began before a day or a revision. Without any target, the URLs of the configuration are used. ``repository`` is a folder in the repository of the revisions.
    """

    webhook: str = ""
    slack: str = ""
    github: str = ""
    file: str = ""
    since: str = ""
    dry_run: bool = False
    repository: str = ""
    store: str = ""
    config: str | None = None


class NotifyOptions(TypedDict, total=False):
    """Options of ``notify``, explained in docs/triage.md."""

    webhook: str
    slack: str
    github: Path
    file: Path
    since: str
    dry_run: bool
    repository: Path
    store: str
    config: str | None


class Delivery(Struct, frozen=True):
    """One message: about which group, to what kind of target, its text, and why it failed; empty if it did not."""

    group: int
    name: str
    channel: NotificationChannel
    message: str
    problem: str = ""


class NotifyResult(Struct, frozen=True):
    """What was sent, what failed, and how many groups wait because they are provisional."""

    store: str
    deliveries: tuple[Delivery, ...]
    is_dry_run: bool = False
    waiting: int = 0
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[Delivery, ...]:
        """The deliveries that failed; they are tried again next time."""
        return tuple(each for each in self.deliveries if each.problem)

    @property
    def exit_code(self) -> int:
        """1 if a delivery failed."""
        return int(bool(self.failed))

    @property
    def summary(self) -> str:
        """What was done, in one line."""
        sent = len(self.deliveries) - len(self.failed)
        waiting = f"; {count_of(self.waiting, 'group')} provisional, not told yet" if self.waiting else ""
        if not self.deliveries:
            return f"nothing new to tell{waiting}"
        verb = "would send" if self.is_dry_run else "sent"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return f"{verb} {count_of(sent, 'message')}{failed}{waiting}"

    def __len__(self) -> int:
        return len(self.deliveries)

    def __iter__(self) -> Iterator[Delivery]:
        return iter(self.deliveries)

    def __str__(self) -> str:
        lines = [
            f"group {each.group}, {each.channel.value}: {each.problem or ('would be sent' if self.is_dry_run else 'sent')}"
            for each in self.deliveries
        ]
        return "\n".join([*lines, self.summary, *self.notes])

    def _repr_html_(self) -> str:
        rows = [
            (str(each.group), each.name, each.channel.value, each.problem or "sent")
            for each in self.deliveries
        ]
        return show_html(ResultTable(self.summary, ("group", "what", "channel", "result"), rows, self.notes))


def notify(**options: Unpack[NotifyOptions]) -> NotifyResult:
    """Tell people about open regressions, each group once: a webhook, Slack, a file for GitHub, or a file.

    torchstone.notify(github="body.md"), torchstone.notify(dry_run=True)
    """
    return send_notifications(make_request(NotifyRequest, options))


def send_notifications(request: NotifyRequest) -> NotifyResult:
    """Notify as requested. A delivery that fails is part of the result, and no error."""
    targets = _find_targets(request)
    with closing(connect(find_store(request.store, request.config))) as database:
        notes = update_if_possible(database)
        with database.reading():
            is_recent = find_since(database, request.since)
            groups = [
                group
                for group in read_groups(database)
                if is_open_regression(group) and any(map(is_recent, regressions_of(group)))
            ]
        ready = [group for group in groups if not all(each.is_provisional for each in regressions_of(group))]
        deliveries: list[Delivery] = []
        for channel, target in targets.items():
            deliveries += _tell(database, ready, channel, target, request)
        return NotifyResult(
            database.place, tuple(deliveries), request.dry_run, len(groups) - len(ready), notes
        )


def _find_targets(request: NotifyRequest) -> dict[NotificationChannel, str]:
    given = {
        NotificationChannel.WEBHOOK: request.webhook,
        NotificationChannel.SLACK: request.slack,
        NotificationChannel.GITHUB: request.github,
        NotificationChannel.FILE: request.file,
    }
    targets = {channel: target for channel, target in given.items() if target}
    if not targets:
        webhook, slack = find_webhooks(request.config)
        known = ((NotificationChannel.WEBHOOK, webhook), (NotificationChannel.SLACK, slack))
        targets = {channel: target for channel, target in known if target}
    if not targets and request.dry_run:
        targets = {NotificationChannel.GITHUB: ""}
    if not targets:
        raise UsageError(
            "nobody to tell",
            advice="give --webhook, --slack, --github or --file, or set TORCHSTONE_WEBHOOK or TORCHSTONE_SLACK_WEBHOOK",
        )
    for channel in (NotificationChannel.WEBHOOK, NotificationChannel.SLACK):
        if channel in targets:
            check_url(targets[channel], channel)
    return targets


def _tell(
    database: Database,
    groups: Sequence[ChangeGroup],
    channel: NotificationChannel,
    target: str,
    request: NotifyRequest,
) -> Iterator[Delivery]:
    """Yield what became of the news for one target. After a failure, the other groups wait for the next time, too."""
    told = find_told(database, channel)
    is_first = True
    for group in groups:
        if not is_news(group, told.get(group.id)):
            continue
        with database.reading():
            page = describe_group(database, group, request.store, request.repository)
        message = RENDERERS[channel](page)
        delivery = Delivery(group.id, group.name, channel, message)
        if request.dry_run:
            yield delivery
            continue
        number = claim(database, group, channel)
        if number is None:
            continue
        try:
            _deliver(channel, target, message, is_first=is_first)
        except TorchstoneError as error:
            finish(database, number, is_sent=False)
            yield Delivery(group.id, group.name, channel, message, error.message)
            return
        except BaseException:
            finish(database, number, is_sent=False)
            raise
        finish(database, number, is_sent=True)
        is_first = False
        yield delivery


def _deliver(channel: NotificationChannel, target: str, message: str, *, is_first: bool) -> None:
    """Deliver one message. The file for GitHub is made anew each time; JSON is added to its file, a line for each group."""
    if channel is NotificationChannel.GITHUB:
        before = "" if is_first else f"{read_text(target)}\n---\n\n"
        write_text(target, before + message)
    elif channel is NotificationChannel.FILE:
        write_text(target, (read_text(target) if os.path.exists(target) else "") + message)
    else:
        post_json(target, message, channel)
