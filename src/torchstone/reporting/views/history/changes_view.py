"""The pages of changes: the queue of groups, and one group with its members, evidence and decisions."""

from __future__ import annotations

from msgspec import Struct

from torchstone.reporting.views.history.page_filters import FilterBar, PageFilters


class GroupLine(Struct, frozen=True):
    """A group of changes in the queue. ``worst`` describes its worst member; ``between`` are the revisions between which it began."""

    id: int
    name: str
    state: str
    is_open: bool
    direction: str
    cause: str
    branch: str
    members: int
    cases: int
    worst: str
    change: str
    tone: str
    between: tuple[str, str]
    opened_at: str
    first_seen: str
    owner: str = ""


class ChangeQueueView(Struct, frozen=True):
    """The queue: open groups, regressions and the newest first. ``closed`` is the number of others, which are hidden unless asked for."""

    filters: PageFilters
    bar: FilterBar
    rows: tuple[GroupLine, ...]
    closed: int
    page: int
    pages: int
    title: str = "Changes"


class MemberLine(Struct, frozen=True):
    """One change of a group: its case and metric, the levels on both sides, and the runs on both sides."""

    case_id: int
    name: str
    metric: str
    machine: str
    before: str
    after: str
    change: str
    tone: str
    certainty: str
    is_provisional: bool
    is_vanished: bool
    last_old: tuple[int, str]
    first_new: tuple[int, str]
    when: str


class DecisionLine(Struct, frozen=True):
    """One decision about a group, by a person or by the data."""

    at: str
    state: str
    author: str
    reason: str
    link: str
    owner: str
    is_automatic: bool


class ChangeGroupView(Struct, frozen=True):
    """One group. ``clues`` and ``differences`` are what differs between the runs on both sides of the worst member.

    ``states`` are those that can be decided on; ``seen`` is the number of the last decision. ``problem`` says why the one that was ``given`` was refused.
    """

    line: GroupLine
    members: tuple[MemberLine, ...]
    left_out: int
    clues: tuple[str, ...]
    differences: tuple[str, ...]
    decisions: tuple[DecisionLine, ...]
    compare: tuple[int, int]
    commits: tuple[str, str]
    link: str = ""
    states: tuple[str, ...] = ()
    seen: int = 0
    problem: str = ""
    given: dict[str, str] = {}
