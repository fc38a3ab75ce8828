"""Make the page that compares two runs or revisions of a store, by the one engine that ``compare`` uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from msgspec import structs

from torchstone.api.browsing.browsing import Browsing
from torchstone.api.judging.compare import CompareRequest, CompareResult, compare_results
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.records import Reading
from torchstone.reporting.views.comparison_rows import CompareReport
from torchstone.reporting.views.history.page_filters import (
    MOST_ROWS,
    FilterBar,
    FilterField,
    PageFilters,
    axis_fields,
    case_field,
    choice_field,
)
from torchstone.reporting.views.history.sides_view import (
    SidesView,
    choose_rows,
    make_side,
    make_sides_view,
)
from torchstone.store.browsing.case_history import find_case_numbers
from torchstone.store.browsing.run_pages import RunFilter, main_branch, read_run_page
from torchstone.store.database.connection import Database
from torchstone.store.identity import find_day
from torchstone.store.reading_runs import find_runs, read_run
from torchstone.store.stored import StoredRun

SIDES_FILTERS = (
    "a",
    "b",
    "case",
    "suite",
    "device",
    "mode",
    "backend",
    "dtype",
    "probe",
    "metric",
    "status",
    "all",
    "anyway",
    "page",
)
_MOST_RUNS = 20
"""The most runs of a side: of a revision with more, the newest count."""
_LOOKED_AT = 300


def browse_sides(browsing: Browsing, filters: PageFilters, problems: tuple[str, ...]) -> SidesView:
    """Return the comparison of ``a`` and ``b``: each a run, a commit, a label, a branch (its newest revision), or a day."""
    if not (filters.a and filters.b):
        return _suggest(browsing, filters, problems)
    try:
        a, b = (find_side(browsing, text) for text in (filters.a, filters.b))
        result = _compare(browsing, a, b, anyway=bool(filters.anyway))
    except UsageError as error:
        return _suggest(browsing, filters, (*problems, " ".join(filter(None, (error.message, error.advice)))))
    except TorchstoneError as error:
        return _suggest(browsing, filters, (*problems, str(error)))
    report = result.report
    rows, calm = choose_rows(report, filters)
    pages = max(1, -(-len(rows) // MOST_ROWS))
    filters = structs.replace(filters, page=min(filters.page, pages))
    bar = _bar(filters, report, problems, len(rows) + calm)
    sides = make_side(filters.a, *a), make_side(filters.b, *b)
    shown = rows[(filters.page - 1) * MOST_ROWS : filters.page * MOST_ROWS]
    numbers = find_case_numbers(browsing.database, [row.case.id for row in shown])
    return make_sides_view(filters, bar, sides, report, rows, calm, numbers)


def find_side(browsing: Browsing, text: str) -> tuple[str, list[StoredRun]]:
    """Return what a text names, and its runs: those of one revision."""
    database = browsing.database
    if found := find_runs(database, text):
        of_newest = [run for run in found if run.revision == found[-1].revision][-_MOST_RUNS:]
        return (
            "run" if len(found) == 1 and text in {str(found[0].id), found[0].name} else "revision"
        ), of_newest
    if text in {each.value for each in browsing.branches()}:
        return f"newest of branch {text}", _newest(database, RunFilter(text))
    if find_day(text) == text:
        rows = _of_day(database, text, main_branch(browsing.branches()))
        if rows:
            return f"newest of {rows[-1].measured_at or rows[-1].recorded_at}"[:20], rows
    raise UsageError(
        f"{text[:80]}: no such run, revision or branch in the store",
        advice="name a run, a commit, a branch, or a day such as 2026-12-31.",
    )


def _newest(database: Database, chosen: RunFilter) -> list[StoredRun]:
    """Return the runs of the newest revision, in the order of recording."""
    runs = read_run_page(database, chosen, _MOST_RUNS)
    return [run for run in reversed(runs) if run.revision == runs[0].revision]


def _of_day(database: Database, day: str, branch: str | None) -> list[StoredRun]:
    """Return the runs of the last revision that was measured on a day, or before it."""
    runs = read_run_page(database, RunFilter(branch, until=f"{day}T23:59:59Z"), _MOST_RUNS)
    return [run for run in reversed(runs) if run.revision == runs[0].revision]


def _compare(
    browsing: Browsing,
    a: tuple[str, Sequence[StoredRun]],
    b: tuple[str, Sequence[StoredRun]],
    *,
    anyway: bool,
) -> CompareResult:
    key = ("compare", tuple(run.id for run in a[1]), tuple(run.id for run in b[1]), anyway)

    def compare() -> CompareResult:
        base = tuple(_read(browsing.database, run) for run in a[1])
        new = tuple(_read(browsing.database, run) for run in b[1])
        return compare_results(CompareRequest(base=base, new=new, cross_environment=anyway))

    return browsing.recall(key, compare)


def _read(database: Database, run: StoredRun) -> Reading:
    """Return a run with its machine, but without versions: as for ``--baseline history``, other software is what is compared."""
    reading = read_run(database, run)
    environment = structs.replace(reading.run.environment, versions={}, software={}, fingerprint="")
    return structs.replace(reading, run=structs.replace(reading.run, environment=environment))


def _bar(filters: PageFilters, report: CompareReport, problems: tuple[str, ...], matching: int) -> FilterBar:
    rows = report.judgement.rows
    cases = list(dict.fromkeys(row.case for row in rows))
    fields = (
        *_side_fields(filters),
        case_field(filters),
        *axis_fields(filters, cases),
        choice_field("metric", filters, Counter(row.metric for row in rows)),
        structs.replace(
            choice_field("status", filters, Counter(row.verdict.value for row in rows)), label="verdict"
        ),
    )
    return FilterBar(
        fields, problems, matching, len(rows), "row", (("all", filters.all), ("anyway", filters.anyway))
    )


def _side_fields(filters: PageFilters) -> tuple[FilterField, FilterField]:
    hint = "run, commit, branch or day"
    return (
        FilterField("a", "a", filters.a, is_free=True, hint=hint),
        FilterField("b", "b", filters.b, is_free=True, hint=hint),
    )


def _suggest(browsing: Browsing, filters: PageFilters, problems: tuple[str, ...]) -> SidesView:
    """Return the page without a comparison: the newest revisions of the main branch, each against the one before."""
    runs = read_run_page(browsing.database, RunFilter(main_branch(browsing.branches())), _LOOKED_AT)
    newest: dict[str, StoredRun] = {}
    for run in runs:
        newest.setdefault(run.revision, run)
    revisions = list(newest)
    pairs = [
        (
            f"{newest[new].revision[:12]} ({(newest[new].measured_at or newest[new].recorded_at)[:10]}) with {old[:12]} before it",
            structs.replace(PageFilters(), a=old, b=new).to_query(),
        )
        for new, old in pairwise(revisions)
    ]
    bar = FilterBar(_side_fields(filters), problems, 0, 0, "row")
    return SidesView(filters, bar, suggestions=tuple(pairs[:12]))
