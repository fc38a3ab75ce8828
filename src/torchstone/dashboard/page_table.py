"""The pages of the dashboard: what each accepts in its address, what makes its view, and what renders it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from torchstone.api.browsing.browse_case import CASE_FILTERS, browse_case
from torchstone.api.browsing.browse_changes import CHANGES_FILTERS, browse_change, browse_changes
from torchstone.api.browsing.browse_health import HEALTH_FILTERS, browse_health
from torchstone.api.browsing.browse_lists import (
    CASES_FILTERS,
    RUNS_FILTERS,
    browse_cases,
    browse_machines,
    browse_runs,
)
from torchstone.api.browsing.browse_run import RunPage, browse_run
from torchstone.api.browsing.browse_sides import SIDES_FILTERS, browse_sides
from torchstone.api.browsing.browsing import Browsing
from torchstone.reporting.html.history.changes_section import render_changes, render_group
from torchstone.reporting.html.history.health_section import render_health
from torchstone.reporting.html.history.history_section import render_case
from torchstone.reporting.html.history.list_sections import render_cases, render_machines, render_runs
from torchstone.reporting.html.history.page_links import PageLinks
from torchstone.reporting.html.history.shell import render_navigation
from torchstone.reporting.html.history.sides_section import render_sides
from torchstone.reporting.html.page import fit_page, render_page
from torchstone.reporting.views.history.case_page import CaseHistoryView
from torchstone.reporting.views.history.cases_view import CasesView
from torchstone.reporting.views.history.changes_view import ChangeGroupView, ChangeQueueView
from torchstone.reporting.views.history.health_view import HealthView
from torchstone.reporting.views.history.machines_view import MachinesView
from torchstone.reporting.views.history.page_filters import PageFilters
from torchstone.reporting.views.history.runs_view import RunsView
from torchstone.reporting.views.history.sides_view import SidesView


class Asked(Struct, frozen=True):
    """What an address asks for: a store, filters, what is wrong with them, and the name at the end of ``/run/NAME``."""

    browsing: Browsing
    filters: PageFilters = PageFilters()
    problems: tuple[str, ...] = ()
    name: str = ""


class PageKind(Struct, frozen=True):
    """A kind of page. ``view`` is the record that its JSON has; ``is_own_document`` pages bring their own content policy; on ``can_decide`` ones people decide about groups."""

    path: str
    filters: tuple[str, ...]
    view: type[Struct]
    make: Callable[[Asked], Any]
    render: Callable[[Any, PageLinks], str]
    has_name: bool = False
    is_own_document: bool = False
    can_decide: bool = False


class RunRecord(Struct, frozen=True):
    """The JSON of one run: its line in the list of runs, and its outcomes as in a run file."""

    run: Any
    outcomes: Any


def _render_run(view: RunPage, links: PageLinks) -> str:
    page, lines = fit_page(view.report)
    return render_page(page, lines, render_navigation("run", links))


PAGE_KINDS = (
    PageKind(
        "",
        HEALTH_FILTERS,
        HealthView,
        lambda asked: browse_health(asked.browsing, asked.filters, asked.problems),
        render_health,
    ),
    PageKind(
        "changes",
        CHANGES_FILTERS,
        ChangeQueueView,
        lambda asked: browse_changes(asked.browsing, asked.filters, asked.problems),
        render_changes,
    ),
    PageKind(
        "change",
        (),
        ChangeGroupView,
        lambda asked: browse_change(asked.browsing, asked.name),
        render_group,
        has_name=True,
        can_decide=True,
    ),
    PageKind(
        "cases",
        CASES_FILTERS,
        CasesView,
        lambda asked: browse_cases(asked.browsing, asked.filters, asked.problems),
        render_cases,
    ),
    PageKind(
        "compare",
        SIDES_FILTERS,
        SidesView,
        lambda asked: browse_sides(asked.browsing, asked.filters, asked.problems),
        render_sides,
    ),
    PageKind(
        "runs",
        RUNS_FILTERS,
        RunsView,
        lambda asked: browse_runs(asked.browsing, asked.filters, asked.problems),
        render_runs,
    ),
    PageKind(
        "machines",
        (),
        MachinesView,
        lambda asked: browse_machines(asked.browsing, asked.filters, asked.problems),
        render_machines,
    ),
    PageKind(
        "case",
        CASE_FILTERS,
        CaseHistoryView,
        lambda asked: browse_case(asked.browsing, asked.filters, asked.problems, asked.name),
        render_case,
        has_name=True,
    ),
    PageKind(
        "run",
        (),
        RunRecord,
        lambda asked: browse_run(asked.browsing, asked.name),
        _render_run,
        has_name=True,
        is_own_document=True,
    ),
)
"""All kinds of pages."""


def encode_view(view: object) -> bytes:
    """Encode a view as JSON."""
    shown = RunRecord(view.line, view.outcomes) if isinstance(view, RunPage) else view
    return msgspec.json.encode(shown)
