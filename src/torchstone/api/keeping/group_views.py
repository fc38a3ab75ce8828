"""Make what is shown of groups of changes from their records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, takewhile

from msgspec import structs

from torchstone.api.judging.missing_cases import run_words
from torchstone.api.keeping.remeasurement import propose_remeasurements
from torchstone.core.records import Case
from torchstone.core.text.safe_text import join_words, quote_word
from torchstone.core.vocabulary import Probe
from torchstone.history.change_records import (
    Cause,
    ChangeGroup,
    Direction,
    SeriesChange,
    TriageEvent,
    TriageState,
)
from torchstone.history.triage.triage_rules import (
    find_interval,
    is_open,
    is_open_regression,
    link_of,
    owner_of,
    reason_of,
    regressions_of,
)
from torchstone.reporting.views.changes.change_view import ChangeView, GroupView, NoteView, order_groups
from torchstone.reporting.views.names import Names
from torchstone.store.database.connection import Database
from torchstone.store.reading_runs import find_run, read_run

_AXES = {"--device", "--backend", "--mode", "--dtype"}
_SHORT = 12


def view_groups(database: Database, groups: Sequence[ChangeGroup], store: str = "") -> tuple[GroupView, ...]:
    """Return what is shown of groups, open regressions first. ``store`` is named in commands, unless it is the usual one."""
    names = _make_names(change for group in groups for change in group.changes)
    return order_groups([view_group(database, group, store, names) for group in groups if group.changes])


def view_group(
    database: Database, group: ChangeGroup, store: str = "", names: Names | None = None
) -> GroupView:
    """Return what is shown of one group."""
    known = names or _make_names(group.changes)
    worse = regressions_of(group)
    told = worse or [each for each in group.changes if not each.is_vanished] or list(group.changes)
    first, last = find_interval(told)
    is_provisional = all(each.is_provisional for each in told)
    return GroupView(
        id=group.id,
        name=group.name,
        branch=group.branch,
        cause=group.cause.value,
        state=group.state.value,
        is_open=is_open(group),
        is_regression=bool(worse) and group.cause is not Cause.MACHINE,
        owner=owner_of(group.events),
        link=link_of(group.events),
        reason=reason_of(group.events),
        duplicate_of=group.events[-1].duplicate_of if group.state is TriageState.DUPLICATE else None,
        opened_at=group.opened_at,
        last_old=first.revision,
        first_new=last.revision,
        first_new_at=last.measured_at or "",
        certainty=max(each.certainty for each in told),
        is_provisional=is_provisional,
        direction=told[0].direction.value if not worse else Direction.REGRESSION.value,
        changes=tuple(_view_change(each, group.state, known) for each in group.changes),
        notes=tuple(_view_event(event) for event in group.events),
        confirm=_confirm(database, told, store) if is_provisional and is_open_regression(group) else (),
        show=f"torchstone triage show {group.id}{_option(store)}",
    )


def _option(store: str) -> str:
    """Return the option that names a store in a command."""
    return f" --store {quote_word(store)}" if store else ""


def _make_names(changes: Iterable[SeriesChange]) -> Names:
    return Names(_without_probe(change.series.case) for change in changes)


def _without_probe(case: Case) -> Case:
    """Return a case as it is named beside its metric, which tells the probe."""
    return structs.replace(case, probe="")


def _confirm(database: Database, changes: Sequence[SeriesChange], store: str) -> tuple[str, ...]:
    return tuple(each.command for each in propose_remeasurements(database, changes, store))


def _view_change(change: SeriesChange, state: TriageState, names: Names) -> ChangeView:
    key = change.series
    return ChangeView(
        id=change.id,
        group=change.group,
        name=names.of(_without_probe(key.case)),
        case=key.case.id,
        metric=key.metric,
        unit=change.metric.unit,
        machine=key.machine,
        branch=change.branch,
        last_old=change.last_old.revision,
        first_new=change.first_new.revision,
        first_new_at=change.first_new.measured_at or "",
        direction=change.direction.value,
        before=change.before,
        after=change.after,
        effect=change.ratio,
        certainty=change.certainty,
        is_provisional=change.is_provisional,
        state=state.value,
    )


def _view_event(event: TriageEvent) -> NoteView:
    other = f"duplicate of group {event.duplicate_of}" if event.duplicate_of is not None else ""
    owner = f"owner {event.owner}" if event.owner else ""
    parts = [each for each in (other, event.reason, owner, event.link) if each]
    author = "torchstone" if event.is_automatic else event.author
    return NoteView(at=event.at, state=event.state.value, author=author, text=", ".join(parts))


def list_commands(
    database: Database, group: ChangeGroup, view: GroupView, store: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return what can be done about a group, each with its command."""
    at = _option(store)
    set_to = f"torchstone triage set {group.id}"
    if not is_open(group):
        return (("open it again", f"{set_to} new{at}"),)
    found = [("confirm or refute it", command) for command in view.confirm]
    if group.changes and (command := _measure_both(database, group.changes[0])):
        found.append(("measure both revisions of the worst, here and now", command))
    if group.state is TriageState.NEW:
        found.append(("take it", f"{set_to} acknowledged --owner NAME{at}"))
    found.append(("accept it: its level becomes the reference", f'{set_to} expected --reason "..."{at}'))
    return tuple(found)


def _measure_both(database: Database, change: SeriesChange) -> str:
    """Return the command that measures both ends of an interval in pairs; empty if a revision is no commit, or nobody knows what to run."""
    case = change.series.case
    old, new = change.last_old.commit, change.first_new.commit
    if not (old and new) or old == new or case.probe != Probe.PERFORMANCE:
        return ""
    words = run_words(case, read_run(database, find_run(database, str(change.first_new.run_id))).run)
    if not words:
        return ""
    targets = takewhile(lambda word: not word.startswith("-"), words[2:])
    axes = [each for pair in pairwise(words) if pair[0] in _AXES for each in pair]
    sides = ["--a", f"rev={old[:_SHORT]}", "--b", f"rev={new[:_SHORT]}"]
    return join_words(["torchstone", "ab", *targets, "--only", case.benchmark, *axes, *sides])
