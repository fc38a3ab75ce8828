"""``Triage``: what was decided about groups of changes, and what can be."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from torchstone.api.keeping.changes import check_style, tabulate_groups, update_if_possible
from torchstone.api.keeping.group_pages import describe_group
from torchstone.api.keeping.group_views import view_group, view_groups
from torchstone.api.requests import Path, Texts, make_request, take
from torchstone.api.showing import show_html
from torchstone.core.config import find_store
from torchstone.core.errors import UsageError
from torchstone.core.text.safe_text import escape_json
from torchstone.core.text.units import count_of
from torchstone.history.causes.stored_groups import find_group, read_groups
from torchstone.history.change_records import ChangeGroup, TriageState
from torchstone.history.triage.points_after import newest_values
from torchstone.history.triage.triage_log import add_event
from torchstone.history.triage.triage_rules import (
    Decision,
    check_decision,
    check_fixed,
    is_open,
    newest_members,
    parse_state,
)
from torchstone.reporting.dialects.changes.changes_json import (
    encode_document,
    render_changes_json,
    whole_group_record,
)
from torchstone.reporting.dialects.changes.changes_markdown import (
    render_changes_markdown,
    render_group_markdown,
)
from torchstone.reporting.dialects.changes.changes_text import render_changes_text
from torchstone.reporting.dialects.changes.group_text import render_group_text
from torchstone.reporting.views.changes.change_view import ChangesView, GroupView
from torchstone.reporting.views.changes.group_page import GroupPage
from torchstone.reporting.views.result_table import ResultTable
from torchstone.store.database.connection import Database
from torchstone.store.database.opening import connect
from torchstone.store.reading_runs import list_runs

if TYPE_CHECKING:
    from torchstone.history.change_records import SeriesChange

_JUDGED_BY = 3
"""How many of the newest points must be back before a person can say that a group is fixed."""


class TriageResult(Struct, frozen=True):
    """The groups of a store, open regressions first."""

    view: ChangesView

    @property
    def groups(self) -> tuple[GroupView, ...]:
        """The groups."""
        return self.view.groups

    def __len__(self) -> int:
        return len(self.view.groups)

    def __iter__(self) -> Iterator[GroupView]:
        return iter(self.view.groups)

    def render(self, style: str = "text") -> str:
        """Return the groups as text, JSON or Markdown."""
        check_style(style)
        if style == "json":
            return render_changes_json(self.view)
        if style == "markdown":
            return render_changes_markdown(self.view)
        return render_changes_text(self.view, 0)

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        return show_html(tabulate_groups(self.view))


class GroupResult(Struct, frozen=True):
    """Everything about one group: members, commits, evidence, what was decided, and what can be done."""

    page: GroupPage

    @property
    def group(self) -> GroupView:
        """The group and its changes."""
        return self.page.group

    def render(self, style: str = "text") -> str:
        """Return the group as text, JSON or Markdown; the latter is the body of an issue."""
        check_style(style)
        if style == "json":
            return render_page_json(self.page)
        return render_group_markdown(self.page) if style == "markdown" else render_group_text(self.page)

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        group = self.group
        rows = [
            (each.name, each.metric, each.change or each.levels, each.levels if each.change else "")
            for each in group.changes
        ]
        title = f"group {group.id} ({group.state}): {group.name}, {group.interval}"
        notes = tuple(f"{what}: {command}" for what, command in self.page.commands)
        return show_html(ResultTable(title, ("case", "metric", "change", "levels"), rows, notes))


def render_page_json(page: GroupPage) -> str:
    """Render everything about a group as JSON."""
    return encode_document(_page_record(page))


def render_page_line(page: GroupPage) -> str:
    """Render everything about a group as JSON in one line."""
    return escape_json(msgspec.json.encode(_page_record(page)).decode()) + "\n"


def _page_record(page: GroupPage) -> dict[str, object]:
    return {
        "store": page.store,
        "group": whole_group_record(page.group),
        "commits": page.commits,
        "commits_note": page.commits_note,
        "evidence": page.evidence,
        "commands": dict(page.commands),
    }


class _ListRequest(Struct, frozen=True, kw_only=True):
    """Which groups: in these states, or all with ``closed``; of an owner, on a branch."""

    states: tuple[str, ...] = ()
    closed: bool = False
    owner: str = ""
    branch: str = ""


class _SetRequest(Struct, frozen=True, kw_only=True):
    """A decision about a group. ``of`` is the group of which it is a duplicate, ``seen`` the last event that was known."""

    group: int | str
    state: str
    reason: str = ""
    link: str = ""
    owner: str = ""
    author: str = ""
    of: int | str | None = None
    seen: int | None = None


class Triage:
    """The triage of a store, by its path or URL; without one, the store of the configuration.

    triage = torchstone.Triage("history.db")
    triage.list(), triage.show(3), triage.set(3, "expected", reason="more precise matmul")
    """

    def __init__(self, store: Path = "", config: str | None = None) -> None:
        self._named = take("store", store, str)
        self._location = find_store(self._named, take("config", config, str | None))

    @contextmanager
    def _opened(self) -> Iterator[Database]:
        with closing(connect(self._location)) as database:
            yield database

    def list(
        self, states: Texts = (), *, closed: bool = False, owner: str = "", branch: str = ""
    ) -> TriageResult:
        """Return the open groups; with ``closed`` all, with ``states`` those in these states."""
        given = {"states": states, "closed": closed, "owner": owner, "branch": branch}
        request = make_request(_ListRequest, given)
        chosen = {parse_state(each) for each in request.states if each}
        with self._opened() as database:
            notes = update_if_possible(database)
            with database.reading():
                groups = read_groups(database, branch=branch)
                ((series,),) = database.query("SELECT count(*) FROM detections")
                runs = list_runs(database)
                shown = view_groups(database, groups, self._named)
        views = [
            view
            for view in shown
            if (view.state in chosen if chosen else closed or view.is_open)
            and (not owner or view.owner == owner)
        ]
        left = sum(not is_open(group) for group in groups)
        if left and not closed and not chosen:
            notes = (*notes, f"{count_of(left, 'closed group')} not shown: torchstone triage list --all")
        return TriageResult(
            ChangesView(
                store=database.place,
                groups=tuple(views),
                series=int(series),
                newest=runs[-1].revision if runs else "",
                closed=left,
                is_filtered=bool(chosen or owner or branch),
                notes=notes,
            )
        )

    def show(self, group: int | str, *, repository: str = "") -> GroupResult:
        """Return everything about a group. ``repository`` is a folder in the repository of the revisions, by default the current one."""
        group, repository = take("group", group, int | str), take("repository", repository, str)
        with self._opened() as database:
            update_if_possible(database)
            with database.reading():
                found = find_group(database, str(group))
                return GroupResult(describe_group(database, found, self._named, repository))

    def set(
        self,
        group: int | str,
        state: str,
        *,
        reason: str = "",
        link: str = "",
        owner: str = "",
        author: str = "",
        of: int | str | None = None,
        seen: int | None = None,
    ) -> GroupView:
        """Decide about a group; return it as it is then. ``of`` is the group of which it is a duplicate.

        ``seen`` is the last event that was known: if somebody has decided otherwise since then, nothing is changed.
        """
        texts = {"state": state, "reason": reason, "link": link, "owner": owner, "author": author}
        request = make_request(_SetRequest, {"group": group, "of": of, "seen": seen, **texts})
        wanted = parse_state(request.state)
        with self._opened() as database, database.writing():
            found = find_group(database, str(request.group))
            other = None if request.of is None else find_group(database, str(request.of))
            _refuse_stale(found, request.seen)
            decision = Decision(
                state=wanted,
                reason=request.reason,
                link=request.link,
                owner=request.owner,
                author=request.author or _user(),
                duplicate_of=_duplicate_of(found, wanted, other),
            )
            check_decision(found, decision, other)
            if wanted is TriageState.FIXED and found.state is not wanted:
                check_fixed(found, _newest_of(database, found))
            add_event(database, found.id, decision)
            return view_group(database, find_group(database, str(found.id)), self._named)

    def __repr__(self) -> str:
        return f"Triage({self._named!r})"


def _duplicate_of(group: ChangeGroup, state: TriageState, other: ChangeGroup | None) -> int | None:
    """Return what the group is a duplicate of: as named, or as before if something is only noted about a duplicate."""
    if other is not None:
        return other.id
    is_repeated = state is TriageState.DUPLICATE and group.state is state
    return group.events[-1].duplicate_of if is_repeated else None


def _refuse_stale(group: ChangeGroup, seen: int | None) -> None:
    newest = group.events[-1] if group.events else None
    if seen is not None and (newest.id if newest else 0) != seen:
        told = f"{newest.state.value}, by {newest.author or 'torchstone'} at {newest.at}" if newest else "new"
        raise UsageError(
            f"group {group.id} was changed meanwhile: it is {told}",
            advice="look at it again, and decide then",
        )


def _newest_of(
    database: Database, group: ChangeGroup
) -> Sequence[tuple[SeriesChange, Sequence[float | str]]]:
    duplicates = [each for each in read_groups(database) if each.state is TriageState.DUPLICATE]
    members = newest_members(group, duplicates)
    return [(change, newest_values(database, change, _JUDGED_BY)) for change in members]


def _user() -> str:
    """Return the name of the user, for the audit trail; empty if the system knows none."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
