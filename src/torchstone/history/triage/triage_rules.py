"""Decide which decisions about a group of changes are allowed, and which the data makes by itself; pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from torchstone.core.errors import UsageError
from torchstone.core.text.suggestions import did_you_mean
from torchstone.core.text.units import some_of
from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.history.change_records import (
    OPEN_STATES,
    Cause,
    ChangeEnd,
    ChangeGroup,
    Direction,
    SeriesChange,
    TriageEvent,
    TriageState,
)
from torchstone.store.stored import SeriesKey

BACK_FOR = 10
"""Points for which a level must have been back until a group closes by itself."""
RELAPSE_WITHIN = 100
"""Points after a level came back in which the same level again is a relapse; later, it is another cause."""
_PASSING = frozenset({PASSED, SKIPPED})


class Decision(Struct, frozen=True, kw_only=True):
    """What somebody, or the data, wants a group to be."""

    state: TriageState
    reason: str = ""
    link: str = ""
    owner: str = ""
    author: str = ""
    is_automatic: bool = False
    duplicate_of: int | None = None


CountPoints = Callable[[SeriesChange, SeriesChange | None, str], int]
"""Counts the points of a series from a change on, up to another one or the newest, that were recorded after a time."""


def parse_state(text: str) -> TriageState:
    """Return the state of this name."""
    try:
        return TriageState(text)
    except ValueError:
        advice = f"{did_you_mean(text, TriageState)}the states are {', '.join(TriageState)}"
        raise UsageError(f"no such state: {text}", advice=advice) from None


def is_open(group: ChangeGroup) -> bool:
    """Return whether a group still needs somebody."""
    return group.state in OPEN_STATES


def regressions_of(group: ChangeGroup) -> list[SeriesChange]:
    """Return the changes of a group that are for the worse and that more data has not refuted."""
    return [each for each in group.changes if each.direction is Direction.REGRESSION and not each.is_vanished]


def find_interval(changes: Sequence[SeriesChange]) -> tuple[ChangeEnd, ChangeEnd]:
    """Return the ends of the interval that all of these changes share; if noise has moved some of them apart, of the one that has them all."""
    old = max((each.last_old for each in changes), key=lambda end: end.position)
    new = min((each.first_new for each in changes), key=lambda end: end.position)
    if old.position < new.position:
        return old, new
    old = min((each.last_old for each in changes), key=lambda end: end.position)
    return old, max((each.first_new for each in changes), key=lambda end: end.position)


def is_open_regression(group: ChangeGroup) -> bool:
    """Return whether a group is open, and something got worse that is not the machine's doing."""
    return is_open(group) and group.cause is not Cause.MACHINE and bool(regressions_of(group))


def owner_of(events: Sequence[TriageEvent]) -> str:
    """Return who looks after a group: the owner that was named last."""
    return next((event.owner for event in reversed(events) if event.owner), "")


def link_of(events: Sequence[TriageEvent]) -> str:
    """Return where a group is discussed: the link that was given last."""
    return next((event.link for event in reversed(events) if event.link), "")


def reason_of(events: Sequence[TriageEvent]) -> str:
    """Return the reason of the present state; empty if none was given."""
    return events[-1].reason if events else ""


def check_decision(group: ChangeGroup, decision: Decision, other: ChangeGroup | None = None) -> None:
    """Raise an error if a person may not make this decision now. ``other`` is the group of which this one is a duplicate.

    Whether a group is ``fixed`` is left to ``check_fixed``, which needs the newest points.
    """
    state, number = decision.state, group.id
    if state is group.state:
        _check_repeated(group, decision)
    elif state is TriageState.NEW and is_open(group):
        raise UsageError(
            f"group {number} is {group.state.value}: it is open already",
            advice="a group can go back to new only after it was closed",
        )
    elif state not in OPEN_STATES and not is_open(group):
        raise UsageError(
            f"group {number} is closed as {group.state.value}, and cannot become {state.value}",
            advice=f"open it again first: torchstone triage set {number} new",
        )
    if state is TriageState.EXPECTED and not decision.reason.strip():
        raise UsageError(
            f"group {number} needs a reason to be expected: its level becomes the reference",
            advice=f'for example: torchstone triage set {number} expected --reason "more precise matmul"',
        )
    _check_duplicate(group, decision, other)


def _check_repeated(group: ChangeGroup, decision: Decision) -> None:
    """Accept the present state again only with something new to say."""
    adds = decision.reason or decision.link or decision.owner
    if not adds or (decision.state is TriageState.DUPLICATE and decision.duplicate_of is not None):
        raise UsageError(
            f"group {group.id} is {group.state.value} already",
            advice="add a --reason, --link or --owner to note something about it",
        )


def _check_duplicate(group: ChangeGroup, decision: Decision, other: ChangeGroup | None) -> None:
    is_repeated = group.state is TriageState.DUPLICATE
    if decision.state is not TriageState.DUPLICATE:
        if decision.duplicate_of is not None:
            raise UsageError("only a duplicate has another group", advice="leave --of out, or set duplicate")
        return
    if other is None and not is_repeated:
        raise UsageError(
            f"group {group.id} is a duplicate of which group?",
            advice=f"name it: torchstone triage set {group.id} duplicate --of GROUP",
        )
    if other is not None and other.id == group.id:
        raise UsageError(f"group {group.id} cannot be a duplicate of itself")
    if other is not None and other.state is TriageState.DUPLICATE:
        original = other.events[-1].duplicate_of
        raise UsageError(
            f"group {other.id} is a duplicate itself, of group {original}",
            advice=f"name that one: --of {original}"
            if original != group.id
            else f"open group {other.id} again first",
        )


def check_fixed(group: ChangeGroup, newest: Iterable[tuple[SeriesChange, Sequence[float | str]]]) -> None:
    """Raise an error unless the newest points of all members are back at their old levels."""
    members = list(newest)
    if not members:
        raise UsageError(
            f"group {group.id} has no regression that could be fixed",
            advice="set it to acknowledged or expected",
        )
    away = [change for change, values in members if not _are_back(change, values)]
    if away:
        names = some_of(sorted({change.series.case.name for change in away}), 3)
        raise UsageError(
            f"group {group.id} is not fixed yet: {len(away)} series not back at the old level ({names})",
            advice=f"when a fix has landed, set it to investigating with --link; it becomes fixed by itself after {BACK_FOR} points",
        )


def _are_back(change: SeriesChange, values: Sequence[float | str]) -> bool:
    back = [is_back(change, value) for value in values]
    return bool(back) and back[-1] and 2 * sum(back) >= len(back)


def is_back(change: SeriesChange, value: float | str) -> bool:
    """Return whether a value is at the level before a change: nearer to it than to the one after; a status that passes if the old one did."""
    before, after = change.before, change.after
    if isinstance(value, str) or isinstance(before, str) or isinstance(after, str):
        return value == before or (value in _PASSING and before in _PASSING)
    if min(before, after, value) > 0:
        before, after, value = math.log(before), math.log(after), math.log(value)
    return abs(value - before) < abs(value - after)


def find_return(
    change: SeriesChange, siblings: Sequence[SeriesChange]
) -> tuple[SeriesChange, SeriesChange | None] | None:
    """Return the detected change with which a level came back, and the one with which it got worse again, if any.

    ``siblings`` are all changes of the same series on the same branch. Provisional ones are no relapse: they may be a single flaky point.
    """
    later = sorted(
        (
            each
            for each in siblings
            if not each.is_vanished and each.first_new.position > change.first_new.position
        ),
        key=lambda each: each.first_new.position,
    )
    back = next((each for each in later if is_back(change, each.after)), None)
    if back is None:
        return None
    worse = (
        each
        for each in later
        if each.first_new.position > back.first_new.position
        and not each.is_provisional
        and not is_back(change, each.after)
    )
    return back, next(worse, None)


Siblings = Mapping[tuple[SeriesKey, str], Sequence[SeriesChange]]


class ChangeHistory(Struct, frozen=True):
    """What the rules look at: groups, all changes of their series by series and branch, and how points are counted."""

    groups: Sequence[ChangeGroup]
    siblings: Siblings
    count_points: CountPoints

    def of_series(self, change: SeriesChange) -> Sequence[SeriesChange]:
        """Return all changes of the same series on the same branch."""
        return self.siblings.get((change.series, change.branch), ())


def index_changes(changes: Iterable[SeriesChange]) -> Siblings:
    """Return changes by series and branch."""
    found: dict[tuple[SeriesKey, str], list[SeriesChange]] = {}
    for change in changes:
        found.setdefault((change.series, change.branch), []).append(change)
    return found


def settle(history: ChangeHistory) -> Iterator[tuple[int, Decision]]:
    """Yield what the data decides: a shift of a machine is no regression, a level that is back closes its group, a relapse opens it again.

    To be called again until it yields nothing: what closes in one step may open again in the next.
    """
    opened: set[int] = set()
    for group in history.groups:
        if not is_open(group):
            continue
        if group.cause is Cause.MACHINE and not group.events:
            yield group.id, _automatic(TriageState.MACHINE, "the whole machine shifted")
        elif refuted := _is_refuted(group):
            yield group.id, _automatic(TriageState.NOISE, refuted)
        elif reason := _why_fixed(group, history):
            yield group.id, _automatic(TriageState.FIXED, reason)
        elif group.state is TriageState.NEW and not group.events and (old := _find_relapsed(group, history)):
            yield group.id, _automatic(TriageState.DUPLICATE, f"a relapse of group {old.id}", old.id)
            if old.id not in opened:
                opened.add(old.id)
                first = min(regressions_of(group), key=lambda each: each.first_new.position).first_new
                why = f"relapse at {first.revision[:12]}: see group {group.id}"
                yield old.id, _automatic(TriageState.NEW, why)
        elif group.state is TriageState.NEW and not group.events and (cured := _find_cured(group, history)):
            names = " and ".join(map(str, cured))
            yield group.id, _automatic(TriageState.DUPLICATE, f"the fix of group {names}", cured[0])


def _automatic(state: TriageState, reason: str, duplicate_of: int | None = None) -> Decision:
    return Decision(state=state, reason=reason, duplicate_of=duplicate_of, is_automatic=True)


def _is_refuted(group: ChangeGroup) -> str:
    """Return why a group is noise: none of its changes is found any more."""
    gone = (
        group.changes
        and all(each.is_vanished for each in group.changes)
        and not _opened_by_hand(group.events)
    )
    return "with more points, no change is found any more" if gone else ""


def newest_members(group: ChangeGroup, groups: Iterable[ChangeGroup]) -> list[SeriesChange]:
    """Return the regressions of a group and of its duplicates: of each series the newest, for an earlier one came back already."""
    duplicates = (
        each
        for each in groups
        if each.state is TriageState.DUPLICATE and each.events and each.events[-1].duplicate_of == group.id
    )
    newest: dict[tuple[SeriesKey, str], SeriesChange] = {}
    for change in (change for each in (group, *duplicates) for change in regressions_of(each)):
        key = change.series, change.branch
        if key not in newest or newest[key].first_new.position < change.first_new.position:
            newest[key] = change
    return list(newest.values())


def _why_fixed(group: ChangeGroup, history: ChangeHistory) -> str:
    """Return the reason if all members are back for long enough, else an empty text."""
    members = newest_members(group, history.groups)
    since = _opened_by_hand(group.events)
    backs = []
    for change in members:
        found = find_return(change, history.of_series(change))
        if found is None or history.count_points(*found, since) < BACK_FOR:
            return ""
        backs.append(found[0])
    if not backs:
        return ""
    last = max(backs, key=lambda each: each.first_new.position).first_new
    return f"the level is back since {last.revision[:12]}, for {BACK_FOR} points or more"


def _opened_by_hand(events: Sequence[TriageEvent]) -> str:
    """Return when a person opened a closed group again, empty if nobody did: what was known then does not close it once more."""
    opened = [
        later.at
        for earlier, later in pairwise(events)
        if earlier.state not in OPEN_STATES and later.state in OPEN_STATES and not later.is_automatic
    ]
    return opened[-1] if opened else ""


def _find_relapsed(group: ChangeGroup, history: ChangeHistory) -> ChangeGroup | None:
    """Return the group that a new one is a relapse of: all its regressions are at a level that was fixed there not long ago."""
    found: set[int] = set()
    for change in regressions_of(group):
        before = [
            (old, back)
            for old in history.of_series(change)
            if old.group not in {None, group.id} and (back := _back_between(old, change, history)) is not None
        ]
        if change.is_provisional or not before:
            return None
        found.add(max(before, key=lambda pair: pair[0].first_new.position)[0].group or 0)
    by_number = {each.id: each for each in history.groups}
    if len(found) != 1 or (old_group := by_number.get(found.pop())) is None:
        return None
    return old_group if old_group.state is TriageState.FIXED else None


def _find_cured(group: ChangeGroup, history: ChangeHistory) -> list[int]:
    """Return the fixed groups whose levels came back with this one; none if anything else changed, too."""
    fixed = {each.id for each in history.groups if each.state is TriageState.FIXED}
    found: set[int] = set()
    for change in group.changes:
        cured = [
            old.group
            for old in history.of_series(change)
            if old.group in fixed
            and old.direction is Direction.REGRESSION
            and (back := find_return(old, history.of_series(old))) is not None
            and back[0].id == change.id
        ]
        if change.direction is not Direction.IMPROVEMENT or not cured:
            return []
        found.add(cured[-1] or 0)
    return sorted(found)


def _back_between(old: SeriesChange, change: SeriesChange, history: ChangeHistory) -> SeriesChange | None:
    """Return the change with which ``old`` came back shortly before it got as bad again with ``change``."""
    if old.direction is not change.direction or is_back(old, change.after):
        return None
    found = find_return(old, history.of_series(old))
    if found is None or found[1] is None or found[1].id != change.id:
        return None
    return found[0] if history.count_points(*found, "") <= RELAPSE_WITHIN else None
