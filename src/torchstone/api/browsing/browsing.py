"""The store as the pages of a dashboard read it: what several pages need is read once for each state of the store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

from msgspec import Struct

from torchstone.api.browsing.once_at_a_time import OnceAtATime
from torchstone.core.errors import UsageError
from torchstone.reporting.views.history.cases_view import CaseState, find_states
from torchstone.reporting.views.history.page_filters import (
    FilterField,
    PageFilters,
    branch_field,
    choose_branch,
)
from torchstone.store.browsing.newest_outcomes import NewestOutcomes, read_newest_outcomes
from torchstone.store.browsing.run_pages import FilterCount, count_branches, main_branch
from torchstone.store.database.connection import Database

Found = TypeVar("Found")
_MOST = 32


class NothingThereError(UsageError):
    """An address names something that the store does not have. ``others`` are what there is instead: text and address."""

    def __init__(self, message: str, others: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.others = others


class Memo:
    """What was read from a store, kept until the store changes. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._working = OnceAtATime()
        self._stamp = ""
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()

    def recall(self, stamp: str, key: Hashable, read: Callable[[], Found]) -> Found:
        """Return what was read for this key at this state of the store, else read it."""
        with self._working.working_on((stamp, key)):
            known = self._find(stamp, key)
            if known is not None:
                found: Found = known[0]
                return found
            found = read()
            self._keep(stamp, key, found)
            return found

    def _find(self, stamp: str, key: Hashable) -> tuple[Any] | None:
        with self._lock:
            if stamp != self._stamp:
                self._kept.clear()
                self._stamp = stamp
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return (self._kept[key],)

    def _keep(self, stamp: str, key: Hashable, found: object) -> None:
        with self._lock:
            if stamp == self._stamp:
                self._kept[key] = found
                if len(self._kept) > _MOST:
                    self._kept.popitem(last=False)


class Branch(Struct, frozen=True):
    """The branch that a page shows: its name (None for all), its field in the filter bar, and what is wrong with the one asked for."""

    name: str | None
    field: FilterField
    problems: tuple[str, ...] = ()


class Browsing:
    """An open store in one state, named by its stamp."""

    def __init__(self, database: Database, stamp: str, memo: Memo | None = None) -> None:
        self.database = database
        self._stamp = stamp
        self._memo = memo or Memo()

    def recall(self, key: Hashable, read: Callable[[], Found]) -> Found:
        """Return what another page has read already in this state of the store, else read it."""
        return self._memo.recall(self._stamp, key, read)

    def branches(self) -> list[FilterCount]:
        """Return the branches with their numbers of runs."""
        return self.recall("branches", lambda: count_branches(self.database))

    def branch(self, filters: PageFilters) -> Branch:
        """Return the branch to show."""
        branches = self.branches()
        name, problem = choose_branch(filters, branches, main_branch(branches))
        return Branch(name, branch_field(branches, name), (problem,) if problem else ())

    def newest(self, branch: str | None) -> NewestOutcomes:
        """Return the newest outcomes of a branch."""
        return self.recall(("newest", branch), lambda: read_newest_outcomes(self.database, branch))

    def states(self, branch: str | None) -> list[CaseState]:
        """Return the newest state of each case of a branch."""
        return self.recall(("states", branch), lambda: find_states(self.newest(branch)))
