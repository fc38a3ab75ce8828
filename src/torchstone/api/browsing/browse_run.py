"""Make the page of one run: the report that ``torchstone report`` makes, from the store."""

from __future__ import annotations

from msgspec import Struct

from torchstone.api.browsing.browsing import Browsing, NothingThereError
from torchstone.core.records import Outcome, Reading
from torchstone.formats.merge import merge
from torchstone.reporting.views.history.runs_view import StoredRunLine, make_run_line
from torchstone.reporting.views.page_view import Page, make_page
from torchstone.store.browsing.run_pages import RunFilter, count_statuses, read_run_page
from torchstone.store.reading_runs import find_runs, read_run

_SHOWN = 20


class RunPage(Struct, frozen=True):
    """One run: its line in the list of runs, and its outcomes as in a run file."""

    line: StoredRunLine
    outcomes: tuple[Outcome, ...]
    reading: Reading

    @property
    def report(self) -> Page:
        """The content of its report."""
        return make_page(merge([self.reading]))


def browse_run(browsing: Browsing, name: str) -> RunPage:
    """Return the page of the run with this number, id or revision; raise an error with what there is instead if it is none, or several."""
    database = browsing.database
    found = find_runs(database, name)
    if len(found) != 1:
        listed = found[-_SHOWN:] or read_run_page(database, RunFilter(), _SHOWN)
        problem = f"{name[:80]}: {len(found):,} runs" if found else f"{name[:80]}: no such run in the store"
        others = tuple((f"{run.name[:80]} at {run.revision[:12]}", f"run/{run.id}") for run in listed)
        raise NothingThereError(problem, others)
    run = found[0]
    line = make_run_line(run, count_statuses(database, [run.id]).get(run.id, ()))
    reading = read_run(database, run)
    return RunPage(line, reading.run.outcomes, reading)
