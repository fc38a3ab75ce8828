"""The page of runs: newest first, each with its revision, environment, and the statuses of its cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.reporting.views.history.page_filters import FilterBar, PageFilters
from torchstone.store.browsing.run_pages import FilterCount
from torchstone.store.stored import StoredRun

RUNS_ON_PAGE = 100
"""The most runs of a page: statuses of all their cases are counted."""


class StoredRunLine(Struct, frozen=True):
    """A run. ``when`` is the time of measuring, or of recording if that is unknown; ``previous`` is the run before it that it can be compared with."""

    id: int
    name: str
    revision: str
    branch: str
    when: str
    is_recorded_time: bool
    torch: str
    attempt: int
    finished: bool
    cases: int
    passed: int
    without_outcome: int
    failed: tuple[FilterCount, ...]
    points: int
    source: str
    pinned: str | None = None


class RunsView(Struct, frozen=True):
    """A page of runs."""

    filters: PageFilters
    bar: FilterBar
    rows: tuple[StoredRunLine, ...]
    page: int
    pages: int
    title: str = "Runs"


def make_runs_view(
    filters: PageFilters,
    bar: FilterBar,
    runs: Sequence[StoredRun],
    statuses: Mapping[int, Sequence[FilterCount]],
) -> RunsView:
    """Return the page for these runs, which are those of the page that was asked for."""
    lines = tuple(make_run_line(run, statuses.get(run.id, ())) for run in runs)
    pages = max(1, -(-bar.matching // RUNS_ON_PAGE))
    return RunsView(filters, bar, lines, filters.page, pages)


def make_run_line(run: StoredRun, statuses: Sequence[FilterCount]) -> StoredRunLine:
    """Return the line of one run."""
    counts = {each.value: each.count for each in statuses}
    passed = sum(counts.get(status, 0) for status in (PASSED, SKIPPED))
    failed = tuple(each for each in statuses if each.value not in {PASSED, SKIPPED, ""})
    return StoredRunLine(
        run.id,
        run.name,
        run.revision,
        run.branch,
        run.measured_at or run.recorded_at,
        run.measured_at is None,
        run.torch,
        run.attempt,
        run.finished,
        run.outcomes,
        passed,
        counts.get("", 0),
        failed,
        run.points,
        run.source,
        run.pinned,
    )
