"""Make the views of the pages that are lists: runs, cases, machines."""

from __future__ import annotations

from msgspec import structs

from torchstone.api.browsing.browse_health import HEALTH_FILTERS
from torchstone.api.browsing.browsing import Browsing
from torchstone.reporting.views.history.cases_view import (
    SHOWN_METRICS,
    CasesView,
    choose_states,
    make_cases_bar,
    make_cases_view,
    page_of,
)
from torchstone.reporting.views.history.machines_view import MachinesView, make_machines_view
from torchstone.reporting.views.history.page_filters import MOST_ROWS, FilterBar, FilterField, PageFilters
from torchstone.reporting.views.history.runs_view import RUNS_ON_PAGE, RunsView, make_runs_view
from torchstone.store.browsing.machine_list import read_machines
from torchstone.store.browsing.measured_values import read_newest_of_all, read_newest_values
from torchstone.store.browsing.run_pages import (
    RunFilter,
    count_runs,
    count_statuses,
    read_run_page,
    read_runs_by_id,
)

RUNS_FILTERS = ("text", "branch", "since", "page")
CASES_FILTERS = (*HEALTH_FILTERS, "page")


def browse_runs(browsing: Browsing, filters: PageFilters, problems: tuple[str, ...]) -> RunsView:
    """Return a page of the runs, newest first, of all branches unless one is asked for."""
    asked = filters if filters.branch else structs.replace(filters, branch="*")
    branch = browsing.branch(asked)
    excludes = filters.text.startswith("-") and len(filters.text) > 1
    chosen = RunFilter(
        branch.name,
        "" if excludes else filters.text,
        filters.text[1:] if excludes else "",
        filters.since,
    )
    database = browsing.database
    matching = count_runs(database, chosen)
    filters, late = _within(filters, matching, RUNS_ON_PAGE)
    runs = read_run_page(database, chosen, RUNS_ON_PAGE, (filters.page - 1) * RUNS_ON_PAGE)
    fields = (
        FilterField("text", "text", filters.text, is_free=True, hint="id, revision, torch, -not"),
        branch.field,
        FilterField("since", "since", filters.since, is_free=True, hint="2026-12-31"),
    )
    total = sum(each.count for each in browsing.branches())
    bar = FilterBar(fields, (*problems, *branch.problems, *late), matching, total, "run")
    return make_runs_view(filters, bar, runs, count_statuses(database, [run.id for run in runs]))


def _within(filters: PageFilters, matching: int, rows: int) -> tuple[PageFilters, tuple[str, ...]]:
    """Return the filters with a page that there is; say so if another one was asked for."""
    pages = max(1, -(-matching // rows))
    if filters.page <= pages:
        return filters, ()
    told = f"page={filters.page}: there are {pages:,}; this is the last one."
    return structs.replace(filters, page=pages), (told,)


def browse_cases(browsing: Browsing, filters: PageFilters, problems: tuple[str, ...]) -> CasesView:
    """Return a page of cases with their newest outcomes, those that need a look first."""
    branch = browsing.branch(filters)
    states = browsing.states(branch.name)
    chosen = choose_states(states, filters)
    filters, late = _within(filters, len(chosen), MOST_ROWS)
    told = (*problems, *branch.problems, *late)
    bar = make_cases_bar(states, len(chosen), filters, branch.field, told)
    shown = sorted({each.outcome.case_id for each in page_of(chosen, filters.page)})
    values = read_newest_values(browsing.database, shown, SHOWN_METRICS)
    return make_cases_view(filters, bar, chosen, values)


def browse_machines(browsing: Browsing, filters: PageFilters, problems: tuple[str, ...]) -> MachinesView:
    """Return the page of machines."""

    def read() -> MachinesView:
        database = browsing.database
        machines = read_machines(database)
        runs = read_runs_by_id(database, sorted({each.newest_run_id for each in machines}))
        bar = FilterBar((), (), len(machines), len(machines), "machine")
        return make_machines_view(filters, bar, machines, runs, read_newest_of_all(database))

    view = browsing.recall("machines", read)
    return structs.replace(view, bar=structs.replace(view.bar, problems=problems)) if problems else view
