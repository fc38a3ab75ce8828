"""Define what is shown of changes: each change, its group, and all groups of a store."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from torchstone.core.text.units import count_of, format_change, format_share, format_value

DATE = 10
"""Characters of a moment that are its day."""
_MOST_METRICS = 2
_MOST_LEVELS = 2


class ChangeView(Struct, frozen=True, kw_only=True):
    """One change of one series. ``name`` is the shortest name of its case, ``case`` the id; ``effect`` is the ratio after / before, None for a status."""

    id: int
    group: int | None
    name: str
    case: str
    metric: str
    unit: str
    machine: str
    branch: str
    last_old: str
    first_new: str
    first_new_at: str
    direction: str
    before: float | str
    after: float | str
    effect: float | None
    certainty: float
    is_provisional: bool
    state: str

    @property
    def levels(self) -> str:
        """The levels before and after: ``41.03 -> 46.1 ms``."""
        before = format_value(self.before).removesuffix(" ") if self.unit else format_value(self.before)
        return f"{before} -> {format_value(self.after, self.unit)}"

    @property
    def change(self) -> str:
        """The relative change: ``+12.4%``; empty for a status."""
        if isinstance(self.before, str) or isinstance(self.after, str):
            return ""
        return format_change(self.after, self.before)


class NoteView(Struct, frozen=True, kw_only=True):
    """One entry of the audit trail of a group."""

    at: str
    state: str
    author: str
    text: str


class GroupView(Struct, frozen=True, kw_only=True):
    """A group of changes: members with the worst first, and what was decided.

    ``confirm`` are the commands that would confirm it, if it is provisional; ``show`` is the one that shows all of it.
    """

    id: int
    name: str
    branch: str
    cause: str
    state: str
    is_open: bool
    is_regression: bool
    owner: str
    link: str
    reason: str
    duplicate_of: int | None
    opened_at: str
    last_old: str
    first_new: str
    first_new_at: str
    certainty: float
    is_provisional: bool
    direction: str
    changes: tuple[ChangeView, ...]
    notes: tuple[NoteView, ...] = ()
    confirm: tuple[str, ...] = ()
    show: str = ""

    @property
    def needs_somebody(self) -> bool:
        """Whether this is an open regression that is not the machine's doing."""
        return self.is_open and self.is_regression

    @property
    def interval(self) -> str:
        """The revisions between which it happened."""
        return f"{short(self.last_old)}..{short(self.first_new)}"

    @property
    def effects(self) -> str:
        """The range of the members' effects by metric: ``abs_latency +9.8% to +12.4%``; for statuses, what they were and are."""
        chosen = [each for each in self.changes if each.direction == self.direction] or list(self.changes)
        by_metric: dict[str, list[ChangeView]] = {}
        for each in chosen:
            by_metric.setdefault(each.metric, []).append(each)
        parts = [_effects_of(metric, members) for metric, members in by_metric.items()]
        left = len(parts) - _MOST_METRICS
        return ", ".join(parts[:_MOST_METRICS]) + (
            f" and {count_of(left, 'more metric')}" if left > 0 else ""
        )

    @property
    def certainty_text(self) -> str:
        """How certain the most certain member is."""
        return "provisional" if self.is_provisional else f"certainty {certainty_text(self.certainty)}"

    @property
    def cases(self) -> int:
        """The number of cases with a change."""
        return len({each.case for each in self.changes})


class ChangesView(Struct, frozen=True, kw_only=True):
    """All groups of a store that were asked for, open regressions first. ``closed`` groups are left out; ``is_filtered`` if others may be, too."""

    store: str
    groups: tuple[GroupView, ...]
    series: int
    newest: str = ""
    closed: int = 0
    is_filtered: bool = False
    notes: tuple[str, ...] = ()

    @property
    def open_regressions(self) -> tuple[GroupView, ...]:
        """The groups that need somebody."""
        return tuple(group for group in self.groups if group.needs_somebody)

    @property
    def confirmed(self) -> tuple[GroupView, ...]:
        """The open regressions that are no longer provisional: those that a gate counts."""
        return tuple(group for group in self.open_regressions if not group.is_provisional)

    @property
    def headline(self) -> str:
        """What is open, in one line."""
        looked = f"{self.series:,} series" + (f" up to {short(self.newest)}" if self.newest else "")
        if not self.groups and self.is_filtered:
            return f"{self.store}: no matching changes in {looked}"
        if not self.groups:
            return f"{self.store}: {'nothing open' if self.closed else 'no changes'} in {looked}"
        provisional = len(self.open_regressions) - len(self.confirmed)
        told = f" ({provisional} provisional)" if provisional else ""
        changes = sum(len(group.changes) for group in self.groups)
        return (
            f"{self.store}: {count_of(len(self.open_regressions), 'open regression')}{told};"
            f" {count_of(changes, 'change')} in {looked}"
        )


def _effects_of(metric: str, members: Sequence[ChangeView]) -> str:
    """Return the range of effects on one metric; of levels that have no ratio, the first few."""
    if any(each.effect is None for each in members):
        levels = dict.fromkeys(each.levels for each in members)
        return f"{metric} {', '.join(list(levels)[:_MOST_LEVELS])}{', ...' if len(levels) > _MOST_LEVELS else ''}"
    ordered = sorted(members, key=lambda each: each.effect or 0.0)
    return f"{metric} {' to '.join(dict.fromkeys([ordered[0].change, ordered[-1].change]))}"


def count_members(group: GroupView) -> str:
    """Return how many changes of how many cases a group has."""
    return f"{count_of(len(group.changes), 'change')} of {count_of(group.cases, 'case')}"


def short(revision: str) -> str:
    """Return a revision as it is shown: a commit with ten digits, anything else whole."""
    return revision[:10] if len(revision) == 40 and revision.isalnum() else revision


def certainty_text(certainty: float) -> str:
    """Format a certainty: never as 100 %.

    >>> certainty_text(0.9999), certainty_text(0.734)
    ('> 99.9%', '73%')
    """
    return "> 99.9%" if certainty > 0.999 else format_share(round(certainty, 2 if certainty < 0.99 else 3))


def order_groups(groups: Sequence[GroupView]) -> tuple[GroupView, ...]:
    """Order groups: open regressions, confirmed ones first, then other open ones, then closed ones; each with the newest first."""
    return tuple(
        sorted(
            sorted(groups, key=lambda group: (group.opened_at, group.first_new_at, group.id), reverse=True),
            key=lambda group: (not group.needs_somebody, not group.is_open, group.is_provisional),
        )
    )
