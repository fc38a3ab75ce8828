"""Make the first page: the state of all suites."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.api.browsing.browse_changes import count_open
from torchstone.api.browsing.browsing import Browsing
from torchstone.reporting.views.history.cases_view import choose_states, make_cases_bar
from torchstone.reporting.views.history.health_view import (
    MEANS,
    HealthView,
    RecentValues,
    gather_values,
    make_health_view,
)
from torchstone.reporting.views.history.page_filters import PageFilters
from torchstone.store.browsing.measured_values import MeasuredValue, read_values_of_run
from torchstone.store.stored import StoredRun

HEALTH_FILTERS = (
    "case",
    "suite",
    "device",
    "mode",
    "backend",
    "dtype",
    "probe",
    "machine",
    "status",
    "branch",
)
_REVISIONS = 12
_ENOUGH_VALUES = 60_000


def browse_health(browsing: Browsing, filters: PageFilters, problems: tuple[str, ...]) -> HealthView:
    """Return the first page."""
    branch = browsing.branch(filters)
    states = browsing.states(branch.name)
    chosen = choose_states(states, filters)
    bar = make_cases_bar(states, len(chosen), filters, branch.field, (*problems, *branch.problems))
    newest = browsing.newest(branch.name).newest
    values = browsing.recall(("values", branch.name), lambda: _read_values(browsing, newest))
    changes = count_open(browsing, branch.name)
    return make_health_view(filters, bar, newest[0] if newest else None, chosen, values, changes)


def _read_values(browsing: Browsing, newest: tuple[StoredRun, ...]) -> RecentValues:
    """Return the values of the newest runs, of few enough of them."""

    def read() -> Iterator[tuple[StoredRun, list[MeasuredValue]]]:
        count = 0
        revisions: set[str] = set()
        for run in newest:
            revisions.add(run.revision)
            if count > _ENOUGH_VALUES or len(revisions) > _REVISIONS:
                return
            found = list(read_values_of_run(browsing.database, run.id, MEANS))
            count += len(found)
            yield run, found

    return gather_values(read())
