"""The page that compares any two runs or revisions: the verdict, then the rows that need a look, the rest on demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import Row
from torchstone.reporting.views.comparison.comparison_view import ComparisonPage, make_comparison_page
from torchstone.reporting.views.comparison_rows import CompareReport
from torchstone.reporting.views.history.page_filters import (
    MOST_ROWS,
    FilterBar,
    PageFilters,
    case_filter,
    value_filter,
)
from torchstone.reporting.views.report_view import change_of, interval_of, metric_name, value_text
from torchstone.store.stored import StoredRun

_CALM = frozenset({Verdict.SAME, Verdict.PASS, Verdict.EXPECTED_FAILURE, Verdict.QUARANTINED})
_LONGEST = 300
_OPTION = "; --cross-environment compares them anyway"
"""What the command says; the page has a link instead."""


class ComparedSide(Struct, frozen=True):
    """One side: what was asked for, what that is, and its runs. ``pinned`` names the same runs whatever is recorded later."""

    asked: str
    found: str
    pinned: str
    runs: tuple[tuple[int, str], ...]
    revision: str
    when: str
    torch: str


class ComparedLine(Struct, frozen=True):
    """One metric of one case on both sides; ``case_id`` leads to its history."""

    verdict: str
    blocks: bool
    tone: str
    case_id: int
    name: str
    metric: str
    a: str
    b: str
    change: str
    interval: str
    trials: str
    reason: str
    repro: str


class SidesView(Struct, frozen=True):
    """The page. Without two sides it has ``suggestions``: text and query. ``calm`` is the number of rows that are hidden unless all are asked for.

    ``is_held_back`` says that the machines differ, so that times and memory were not compared.
    """

    filters: PageFilters
    bar: FilterBar
    a: ComparedSide | None = None
    b: ComparedSide | None = None
    headline: str = ""
    tone: str = ""
    counts: tuple[tuple[str, int], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    alerts: tuple[str, ...] = ()
    means: tuple[tuple[str, ...], ...] = ()
    rows: tuple[ComparedLine, ...] = ()
    calm: int = 0
    is_held_back: bool = False
    page: int = 1
    pages: int = 1
    suggestions: tuple[tuple[str, str], ...] = ()
    title: str = "Compare"


def make_side(asked: str, found: str, runs: Sequence[StoredRun]) -> ComparedSide:
    """Return a side of these runs, which are of one revision."""
    newest = runs[-1]
    named = tuple((run.id, run.name[:_LONGEST]) for run in runs)
    is_one = len(runs) == 1
    return ComparedSide(
        asked[:_LONGEST],
        found[:_LONGEST],
        str(newest.id) if is_one else newest.revision[:_LONGEST],
        named,
        newest.revision[:_LONGEST],
        newest.measured_at or newest.recorded_at,
        newest.torch[:_LONGEST],
    )


def choose_rows(report: CompareReport, filters: PageFilters) -> tuple[list[Row], int]:
    """Return the rows to show, those that need a look first, and how many others there are."""
    chosen = case_filter(filters)
    by_verdict = value_filter(filters.status)
    by_metric = value_filter(filters.metric)
    found = [
        row
        for row in report.ordered
        if chosen(row.case) and by_verdict(row.verdict.value) and by_metric(row.metric)
    ]
    loud = [row for row in found if row.blocks or row.verdict not in _CALM]
    calm = [row for row in found if not row.blocks and row.verdict in _CALM]
    loud.sort(key=lambda row: (not row.blocks, row.verdict is Verdict.INCONCLUSIVE))
    shows_all = bool(filters.all or filters.status)
    return ([*loud, *calm] if shows_all else loud), (0 if shows_all else len(calm))


def make_sides_view(
    filters: PageFilters,
    bar: FilterBar,
    sides: tuple[ComparedSide, ComparedSide],
    report: CompareReport,
    rows: Sequence[Row],
    calm: int,
    numbers: Mapping[str, int],
) -> SidesView:
    """Return the page. ``rows`` are all that are chosen; ``numbers`` are those of their cases in the store, by id."""
    page = _summary(report)
    shown = rows[(filters.page - 1) * MOST_ROWS : filters.page * MOST_ROWS]
    texts = (*page.alerts, *page.cautions)
    return SidesView(
        filters,
        bar,
        *sides,
        page.headline.text.partition("; policy ")[0],
        page.headline.tone,
        tuple((verdict.value, number) for verdict, number, _ in page.counts),
        page.facts[2:],
        tuple(text.replace(_OPTION, "")[:1000] for text in texts),
        page.means,
        tuple(_line(row, report, numbers) for row in shown),
        calm,
        report.overview.is_held_back,
        filters.page,
        max(1, -(-len(rows) // MOST_ROWS)),
    )


def _summary(report: CompareReport) -> ComparisonPage:
    return make_comparison_page(report, sides=("a", "b"))


def _line(row: Row, report: CompareReport, numbers: Mapping[str, int]) -> ComparedLine:
    found = row.comparison
    tones = {Verdict.REGRESSION: "worse", Verdict.MISSING: "worse", Verdict.IMPROVEMENT: "better"}
    words = report.row_text(row) if row.blocks or row.verdict not in _CALM else None
    return ComparedLine(
        row.verdict.value,
        row.blocks,
        tones.get(row.verdict, ""),
        numbers.get(row.case.id, 0),
        report.name_of(row.case)[:_LONGEST],
        metric_name(row),
        value_text(row.base_value, row)[:_LONGEST],
        value_text(row.new_value, row)[:_LONGEST],
        change_of(row.ratio) if row.ratio is not None else "",
        interval_of(found.low, found.high) if found and found.low != found.high else "",
        f"{len(found.base.values):,} / {len(found.new.values):,}" if found else "",
        row.detail[:_LONGEST],
        words.repro if words else "",
    )
