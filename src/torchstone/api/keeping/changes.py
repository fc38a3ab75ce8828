"""``changes``: what changed in a store, in groups of one cause, brought up to date first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct, structs

from torchstone.api.keeping.group_views import view_groups
from torchstone.api.requests import Texts, make_request
from torchstone.api.showing import show_html
from torchstone.core.config import find_store
from torchstone.core.errors import UsageError
from torchstone.core.text.suggestions import did_you_mean
from torchstone.history.causes.stored_groups import read_groups
from torchstone.history.change_records import ChangeGroup, SeriesChange
from torchstone.history.update import bring_up_to_date
from torchstone.reporting.dialects.changes.changes_json import render_changes_json
from torchstone.reporting.dialects.changes.changes_markdown import render_changes_markdown
from torchstone.reporting.dialects.changes.changes_text import render_changes_text
from torchstone.reporting.views.changes.change_view import (
    ChangesView,
    ChangeView,
    GroupView,
    certainty_text,
    short,
)
from torchstone.reporting.views.result_table import ResultTable, show_most
from torchstone.store.database.connection import Database, ReadOnlyStoreError
from torchstone.store.database.opening import connect
from torchstone.store.identity import find_day
from torchstone.store.reading_runs import find_runs, list_runs

if TYPE_CHECKING:
    from typing import Unpack

STYLES = ("text", "json", "markdown")
_RENDERERS: dict[str, Callable[[ChangesView], str]] = {
    "text": render_changes_text,
    "json": render_changes_json,
    "markdown": render_changes_markdown,
}
READ_ONLY = "The store is read-only: the changes are those found when it was last written to."


class ChangesRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which changes: of benchmarks whose names match all of the regular expressions ``filters``, on a branch, ``since`` a day or a revision."""

    filters: tuple[str, ...] = ()
    branch: str = ""
    since: str = ""
    store: str = ""
    config: str | None = None


class ChangesOptions(TypedDict, total=False):
    """Options of ``changes``, explained in docs/changes.md."""

    branch: str
    since: str
    store: str
    config: str | None


class ChangesResult(Struct, frozen=True):
    """Changes in groups, open regressions first. ``passed`` is False if a confirmed regression is open."""

    view: ChangesView

    @property
    def groups(self) -> tuple[GroupView, ...]:
        """The groups, open regressions first."""
        return self.view.groups

    @property
    def changes(self) -> tuple[ChangeView, ...]:
        """All changes, in the order of their groups."""
        return tuple(change for group in self.view.groups for change in group.changes)

    @property
    def open_regressions(self) -> tuple[GroupView, ...]:
        """The groups that need somebody."""
        return self.view.open_regressions

    @property
    def passed(self) -> bool:
        """Whether no confirmed regression is open."""
        return not self.view.confirmed

    @property
    def exit_code(self) -> int:
        """The exit code of ``torchstone changes --gate``."""
        return int(not self.passed)

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[ChangeView]:
        return iter(self.changes)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return a dictionary for each change."""
        return [structs.asdict(change) for change in self.changes]

    def render(self, style: str = "text") -> str:
        """Return the changes as text, JSON or Markdown."""
        check_style(style)
        return _RENDERERS[style](self.view)

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        return show_html(tabulate_groups(self.view))


def changes(filters: Texts = (), **options: Unpack[ChangesOptions]) -> ChangesResult:
    """Return the changes in a store, in groups of one cause; what was recorded meanwhile is looked at first.

    torchstone.changes("resnet", branch="main", since="2026-10-01")
    """
    return find_all_changes(make_request(ChangesRequest, {"filters": filters, **options}))


def find_all_changes(request: ChangesRequest) -> ChangesResult:
    """Return the changes as requested."""
    wanted = compile_filters(request.filters)
    with closing(connect(find_store(request.store, request.config))) as database:
        notes = update_if_possible(database)
        with database.reading():
            since = find_since(database, request.since)
            found = read_groups(database, branch=request.branch)
            ((series,),) = database.query("SELECT count(*) FROM detections")
            runs = list_runs(database)
            kept = [group for group in (_keep(each, wanted, since) for each in found) if group]
            if not runs:
                notes = (*notes, "The store has no runs yet: torchstone record FILES adds some.")
            return ChangesResult(
                ChangesView(
                    store=database.place,
                    groups=view_groups(database, kept, request.store),
                    series=int(series),
                    newest=runs[-1].revision if runs else "",
                    is_filtered=bool(request.filters or request.since or request.branch),
                    notes=notes,
                )
            )


def check_style(style: str) -> None:
    """Raise an error for a style that there is not."""
    if style not in STYLES:
        raise UsageError(
            f"{style}: no such style",
            advice=f"{did_you_mean(style, STYLES)}the styles are {', '.join(STYLES)}",
        )


def update_if_possible(database: Database) -> tuple[str, ...]:
    """Look at what was recorded since the last time; a store that cannot be written to is shown as it is, with a note."""
    try:
        bring_up_to_date(database)
    except ReadOnlyStoreError:
        return (READ_ONLY,)
    return ()


def compile_filters(filters: Sequence[str]) -> Callable[[SeriesChange], bool]:
    """Return a function that finds out whether a change is of a benchmark whose name matches all filters."""
    patterns = []
    for text in filters:
        try:
            patterns.append(re.compile(text, re.IGNORECASE))
        except re.error as error:
            raise UsageError(f"-k {text}: not a regular expression: {error}") from None
    return lambda change: all(each.search(change.series.case.benchmark) for each in patterns)


def find_since(database: Database, since: str) -> Callable[[SeriesChange], bool]:
    """Return a function that finds out whether a change is not older than a day or a revision."""
    if not since:
        return lambda _: True
    if find_day(since) == since[:10]:
        return lambda change: (change.first_new.measured_at or "9") >= since
    runs = find_runs(database, since)
    if not runs:
        raise UsageError(
            f"--since {since}: neither a date such as 2026-12-31 nor a revision in the store",
            advice="'torchstone store info --runs' lists the revisions",
        )
    return lambda change: change.first_new.position >= runs[0].position


def _keep(
    group: ChangeGroup, wanted: Callable[[SeriesChange], bool], since: Callable[[SeriesChange], bool]
) -> ChangeGroup | None:
    """Return a group with the changes that are wanted; None if there are none."""
    kept = tuple(each for each in group.changes if wanted(each) and since(each))
    return structs.replace(group, changes=kept) if kept else None


def tabulate_groups(view: ChangesView) -> ResultTable:
    """Tabulate groups: a row each."""
    rows = [
        (
            str(group.id),
            f"duplicate of {group.duplicate_of}" if group.duplicate_of else group.state,
            group.effects,
            "provisional" if group.is_provisional else certainty_text(group.certainty),
            short(group.first_new),
            group.owner,
            group.name,
        )
        for group in view.groups
    ]
    shown, notes = show_most(rows)
    header = ("group", "state", "effect", "certainty", "since", "owner", "what")
    return ResultTable(view.headline, header, shown, (*notes, *view.notes))
