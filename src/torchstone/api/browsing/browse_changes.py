"""Make the pages of changes: the queue of groups, and one group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import structs

from torchstone.api.browsing.browsing import Browsing, NothingThereError
from torchstone.api.explaining.explain_change import explain_change
from torchstone.api.keeping.triage import Triage
from torchstone.core.errors import UsageError
from torchstone.core.text.units import format_change, format_value
from torchstone.history.causes.stored_groups import read_groups
from torchstone.history.change_records import (
    OPEN_STATES,
    ChangeGroup,
    Direction,
    SeriesChange,
    TriageState,
)
from torchstone.history.triage.triage_rules import is_open_regression
from torchstone.reporting.views.changes.change_view import certainty_text
from torchstone.reporting.views.history.changes_view import (
    ChangeGroupView,
    ChangeQueueView,
    DecisionLine,
    GroupLine,
    MemberLine,
)
from torchstone.reporting.views.history.page_filters import (
    MOST_ROWS,
    FilterBar,
    PageFilters,
    axis_fields,
    case_field,
    case_filter,
    choice_field,
    find_unknown_values,
    value_filter,
)
from torchstone.reporting.views.names import Names
from torchstone.store.browsing.case_history import find_case_numbers

CHANGES_FILTERS = (
    "case",
    "suite",
    "device",
    "mode",
    "backend",
    "dtype",
    "probe",
    "state",
    "direction",
    "cause",
    "branch",
    "all",
    "page",
)
_TONES = {Direction.REGRESSION: "worse", Direction.IMPROVEMENT: "better", Direction.NEUTRAL: ""}
_LONGEST = 300
_LONGEST_TEXT = 2_000
_SHOWN = 20


def groups_of(browsing: Browsing, branch: str | None) -> list[ChangeGroup]:
    """Return the groups of a branch that have members, the newest first."""

    def read() -> list[ChangeGroup]:
        found = read_groups(browsing.database)
        return [each for each in reversed(found) if each.changes and branch in {None, each.branch}]

    return browsing.recall(("groups", branch), read)


def count_open(browsing: Browsing, branch: str | None) -> int:
    """Return how many groups of a branch are open regressions, by the rule of ``torchstone changes``."""
    return sum(is_open_regression(each) for each in groups_of(browsing, branch))


def browse_changes(browsing: Browsing, filters: PageFilters, problems: tuple[str, ...]) -> ChangeQueueView:
    """Return the queue: open groups, regressions first; closed ones, too, if they are asked for."""
    branch = browsing.branch(filters)
    groups = groups_of(browsing, branch.name)
    by_case = case_filter(filters)
    by_state, by_direction, by_cause = (
        value_filter(text) for text in (filters.state, filters.direction, filters.cause)
    )
    chosen = [
        each
        for each in groups
        if by_state(each.state.value)
        and by_direction(_direction_of(each).value)
        and by_cause(each.cause.value)
        and any(by_case(change.series.case) for change in each.changes)
    ]
    shown = chosen if filters.all or filters.state else [each for each in chosen if _is_open(each)]
    shown.sort(key=lambda each: (not _is_open(each), _direction_of(each) is Direction.IMPROVEMENT))
    cases = list({change.series.case: None for each in groups for change in each.changes})
    fields = (
        case_field(filters),
        *axis_fields(filters, cases),
        choice_field("state", filters, Counter(each.state.value for each in groups)),
        choice_field("direction", filters, Counter(_direction_of(each).value for each in groups)),
        choice_field("cause", filters, Counter(each.cause.value for each in groups)),
    )
    told = (*problems, *branch.problems, *find_unknown_values(fields))
    bar = FilterBar((*fields, branch.field), told, len(chosen), len(groups), "group", (("all", filters.all),))
    pages = max(1, -(-len(shown) // MOST_ROWS))
    page = min(filters.page, pages)
    rows = tuple(map(_line, shown[(page - 1) * MOST_ROWS : page * MOST_ROWS]))
    return ChangeQueueView(
        structs.replace(filters, page=page), bar, rows, len(chosen) - len(shown), page, pages
    )


def browse_change(browsing: Browsing, name: str) -> ChangeGroupView:
    """Return the page of the group with this number; raise an error with the newest ones if there is none."""
    is_number = name.isascii() and name.isdecimal() and len(name) < 10
    found = read_groups(browsing.database, (int(name),)) if is_number else []
    if not found or not found[0].changes:
        newest = groups_of(browsing, None)[:_SHOWN]
        others = tuple((f"{each.id}: {each.name[:_LONGEST]}", f"change/{each.id}") for each in newest)
        raise NothingThereError(f"{name[:80]}: no such group of changes in the store", others)
    group = found[0]
    members = group.changes[:MOST_ROWS]
    worst = group.changes[0]
    numbers = find_case_numbers(browsing.database, [each.series.case.id for each in members])
    names = Names(each.series.case for each in group.changes)
    explained = explain_change(browsing.database, worst)
    link = next((event.link for event in reversed(group.events) if event.link), "")
    return ChangeGroupView(
        _line(group),
        tuple(_member(each, names, numbers.get(each.series.case.id, 0)) for each in members),
        len(group.changes) - len(members),
        tuple(text[:_LONGEST] for text in explained.lines if text),
        tuple(text[:_LONGEST] for text in explained.differences),
        tuple(_decisions(group)),
        (worst.last_old.run_id, worst.first_new.run_id),
        _commits(group.changes),
        link[:_LONGEST],
        tuple(state.value for state in TriageState),
        group.events[-1].id if group.events else 0,
    )


def decide_change(store: str, name: str, given: Mapping[str, str]) -> None:
    """Decide about a group, as ``torchstone triage set`` does; raise an error if that is not allowed, or if somebody was faster."""
    seen = given.get("seen", "")
    if not (seen.isascii() and seen.isdecimal() and len(seen) < 15):
        raise UsageError(
            "the decision does not say what was seen", advice="send it from the page of the group"
        )
    long = next((key for key, text in given.items() if len(text) > _LONGEST_TEXT), "")
    if long:
        raise UsageError(f"{long}: longer than {_LONGEST_TEXT:,} characters")
    texts = {key: given.get(key, "").strip() for key in ("reason", "link", "owner")}
    of = given.get("of", "").strip() or None
    Triage(store).set(name, given.get("state", ""), of=of, seen=int(seen), **texts)


def _is_open(group: ChangeGroup) -> bool:
    return group.state in OPEN_STATES


def _direction_of(group: ChangeGroup) -> Direction:
    """Return the direction of the worst member."""
    return group.changes[0].direction


def _line(group: ChangeGroup) -> GroupLine:
    worst = group.changes[0]
    direction = _direction_of(group)
    owner = next((event.owner for event in reversed(group.events) if event.owner), "")
    return GroupLine(
        group.id,
        group.name[:_LONGEST],
        group.state.value,
        _is_open(group),
        direction.value,
        group.cause.value,
        group.branch[:_LONGEST],
        len(group.changes),
        len({each.series.case for each in group.changes}),
        f"{worst.series.case.name[:_LONGEST]} {worst.metric.name}",
        _change_text(worst),
        _TONES[direction],
        _between(group.changes),
        group.opened_at,
        worst.first_new.measured_at or "",
        owner[:_LONGEST],
    )


def _change_text(change: SeriesChange) -> str:
    if isinstance(change.before, str) or isinstance(change.after, str):
        return f"{change.before} to {change.after}"[:_LONGEST]
    return format_change(change.after, change.before)


def _between(changes: Sequence[SeriesChange]) -> tuple[str, str]:
    """Return the revisions between which all members began: the latest old one, and the earliest new one."""
    old = max(changes, key=lambda each: each.last_old.position).last_old
    new = min(changes, key=lambda each: each.first_new.position).first_new
    return old.revision[:_LONGEST], new.revision[:_LONGEST]


def _commits(changes: Sequence[SeriesChange]) -> tuple[str, str]:
    """Return the commits of these revisions; empty unless both are known."""
    old = max(changes, key=lambda each: each.last_old.position).last_old
    new = min(changes, key=lambda each: each.first_new.position).first_new
    return (old.commit, new.commit) if old.commit and new.commit else ("", "")


def _member(change: SeriesChange, names: Names, number: int) -> MemberLine:
    unit = change.metric.unit
    return MemberLine(
        number,
        names.of(change.series.case)[:_LONGEST],
        change.metric.name,
        change.series.machine[:_LONGEST],
        format_value(change.before, unit)[:_LONGEST],
        format_value(change.after, unit)[:_LONGEST],
        _change_text(change),
        _TONES[change.direction],
        certainty_text(change.certainty),
        change.is_provisional,
        change.is_vanished,
        (change.last_old.run_id, change.last_old.revision[:_LONGEST]),
        (change.first_new.run_id, change.first_new.revision[:_LONGEST]),
        change.first_new.measured_at or "",
    )


def _decisions(group: ChangeGroup) -> list[DecisionLine]:
    return [
        DecisionLine(
            event.at,
            event.state.value,
            event.author[:_LONGEST],
            event.reason[:_LONGEST],
            event.link[:_LONGEST],
            event.owner[:_LONGEST],
            event.is_automatic,
        )
        for event in reversed(group.events)
    ]
