"""Decide what the page shows, before anything is rendered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from torchstone.core.cautions import Caution, merge_cautions, merged
from torchstone.core.records import Reading, find_metric
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import COMPILE_SECONDS, METRICS, Metric, Verdict
from torchstone.formats.merge import Results
from torchstone.reporting.html.profile_section import Explained, explain_rows
from torchstone.reporting.views.caches import WARM, CacheCase, format_percent, make_cases
from torchstone.reporting.views.case_row import (
    CaseFinding,
    CaseRow,
    format_ratio,
    make_rows,
    severity,
    shared_axes,
)
from torchstone.reporting.views.check_rows import Report
from torchstone.reporting.views.comparison.page_headline import BAD, GOOD, OPEN, PLAIN, headline_of
from torchstone.reporting.views.explaining.time_view import TimeExplanation
from torchstone.reporting.views.explaining.times_of_page import explain_times
from torchstone.reporting.views.facts_of_files import FileFacts, collect_facts
from torchstone.reporting.views.report_view import without_evidence_text
from torchstone.reporting.views.scaling_view import ShownSweep, show_sweeps
from torchstone.reporting.views.summary import (
    MEMORY,
    BreakGroup,
    FailureGroup,
    Group,
    Summary,
    group_breaks,
    group_failures,
    group_rows,
    summarise,
    wrong_cases,
)

MOST_ROWS = 5_000
"""Cases in the table unless more are requested: about as many as a browser handles without noticeable delay."""
MOST_WORSE = 50
MOST_COLUMNS = 6
MOST_OWN_COLUMNS = 3
"""The columns for metrics that benchmarks report themselves."""
MANY = 1_000  # with more rows than this, the page is compact
_COLUMNS = (
    *("device_speedup", "device_latency", "speedup", "abs_latency", COMPILE_SECONDS),
    *("compilation_latency", "compression_ratio"),
    *(MEMORY, "graph_breaks", "recompiles", "instruction_count", "compile_time_instruction_count"),
    *("python_calls", "compile_time_python_calls", "cpu_seconds", "compile_time_cpu_seconds"),
    *("import_time_us", "iteration_time", "examples_per_second", "scaling_efficiency"),
    *("communication_share", "rank_spread", "peak_memory"),
)
_CACHE_COLUMNS = (
    *("cold_compile_seconds", "warm_compile_seconds", "warm_saved", "warm_hit_rate"),
    *("portable_compile_seconds", "precompile_compile_seconds"),
)
_FEW_CACHE_COLUMNS = ("cold_compile_seconds", "warm_saved")  # if other probes need columns too
_LONG = 600  # characters that every text may have
_ALL_TEXTS = 2_000_000  # characters of all longer texts together, so that the page stays usable
_ALL_POINTS = 100_000  # samples drawn on the whole page


class Source(Struct, frozen=True):
    """One input file of the page."""

    path: str
    kind: str
    run: str
    outcomes: int
    planned: int
    finished: bool


class Gate(Struct, frozen=True):
    """The result of the gate.

    ``worse`` are regressions of cases that ran to their end, largest change first; ``more_worse`` counts those
    that are left out.
    """

    finding: str
    tone: str
    counts: dict[str, int]
    baselines: tuple[str, ...]
    verdicts: tuple[tuple[Verdict, int], ...]
    expired: tuple[str, ...]
    worse: tuple[tuple[CaseRow, CaseFinding], ...]
    more_worse: int


class Category(Struct, frozen=True):
    """Cases with the same status and verdict that the table omits, and whether they are red."""

    status: str
    verdict: Verdict | None
    is_red: bool
    cases: int


class DetailLimits(Struct, frozen=True):
    """Limits on the details of a row, so that a page with many rows stays usable.

    ``text`` is the maximum length of a message, traceback or log; ``points`` the maximum number of samples drawn
    per measurement; ``compact`` omits decoration.
    """

    text: int
    points: int
    compact: bool


class Page(Struct, frozen=True):
    """The content of the page, from top to bottom.

    ``rows`` are all cases, and all numbers cover all of them; ``shown`` are those in the table, at most
    ``most_rows``. ``command`` is the command that made the page without its ``selection`` of cases; suggested
    commands start with it.
    """

    headline: str
    sources: tuple[Source, ...]
    shared: dict[str, str]
    summary: Summary
    group_axes: tuple[str, ...]
    groups: tuple[Group, ...]
    gate: Gate | None
    cautions: tuple[Caution, ...]
    case_cautions: tuple[tuple[str, tuple[CaseRow, ...]], ...]
    failures: tuple[FailureGroup, ...]
    columns: tuple[str, ...]
    rows: tuple[CaseRow, ...]
    breaks: tuple[BreakGroup, ...]
    caches: tuple[CacheCase, ...]
    explained: tuple[Explained, ...]
    times: tuple[TimeExplanation, ...]
    scaling: tuple[ShownSweep, ...]
    facts: FileFacts
    room: DetailLimits
    shown: tuple[CaseRow, ...]
    most_rows: int
    command: tuple[str, ...] = ()
    selection: tuple[str, ...] = ()

    @property
    def tone(self) -> str:
        """Return the tone of the headline: bad if the gate fails, a case failed, or one has no result."""
        if self.summary.failed or self.summary.absent:
            return BAD
        return self.gate.tone if self.gate else PLAIN

    @property
    def left_out(self) -> list[Category]:
        """Return the cases that the table omits, by status and verdict, red ones first."""
        kept = set(self.shown)
        left = Counter((row.status, row.verdict, row.blocks) for row in self.rows if row not in kept)
        found = [Category(*category, number) for category, number in left.items()]
        return sorted(found, key=lambda each: (not each.is_red, -each.cases, each.status))

    @property
    def metrics(self) -> list[str]:
        """Return the metrics of all cases, known ones first, in their usual order."""
        return list(_metrics_of(self.rows))

    @property
    def reported_metrics(self) -> dict[str, Metric]:
        """Return the definitions of the metrics that benchmarks report themselves."""
        return _reported_metrics(self.rows)


def make_page(
    results: Results,
    report: Report | None = None,
    baselines: Sequence[Reading] = (),
    *,
    most_rows: int = MOST_ROWS,
    command: Sequence[str] = (),
    selection: Sequence[str] = (),
) -> Page:
    """Decide what the page shows. ``report`` has the verdicts, if there are ``baselines`` to judge by."""
    cases = [case for reading in results.readings for case in reading.run.plan]
    shared = shared_axes(cases)
    rows = make_rows(results, report, shared)
    wrong = wrong_cases(rows)
    summary = summarise(rows, wrong)
    axes, groups = group_rows(rows, wrong)
    shown = _choose_rows(rows, summary, most_rows)
    explained, unusable = explain_rows(rows, report)
    cautions = [*(caution for reading in results.readings for caution in reading.cautions), *unusable]
    return Page(
        _headline(summary, report),
        tuple(_source(reading) for reading in results.readings),
        shared,
        summary,
        tuple(axes),
        tuple(groups),
        _gate(report, rows) if report else None,
        merged([*cautions, *(report.judgement.cautions if report else ())]),
        tuple(_group_cautions(rows)),
        tuple(group_failures(rows)),
        tuple(_choose_columns(rows)),
        tuple(rows),
        tuple(group_breaks(rows)),
        tuple(make_cases(rows)),
        explained,
        explain_times(rows),
        tuple(show_sweeps([outcome for _, _, outcome in results], cases, baselines)),
        collect_facts(results.readings),
        DetailLimits(_text_limit(shown), _points(shown), len(shown) > MANY),
        tuple(shown),
        most_rows,
        tuple(command),
        tuple(selection),
    )


def keep_rows(page: Page, most: int) -> Page:
    """Return the page with only the first ``most`` rows in its table."""
    kept = page.shown[:most]
    if kept:
        kept[0].naming.keep(kept)
    return structs.replace(page, shown=kept)


def _choose_rows(rows: Sequence[CaseRow], summary: Summary, most: int) -> Sequence[CaseRow]:
    """Choose the rows of the table: red and failed ones, then those with notes or named above, then the slowest."""
    if len(rows) <= most:
        return rows
    spreads = (summary.speedup, summary.compile_time, summary.compression, summary.memory)
    named = {row for spread in spreads if spread for row in (spread.least, spread.most)}
    # Rows are sorted from slow to fast already, and this sort is stable.
    ordered = sorted(rows, key=lambda row: (*severity(row)[:2], row.is_plain, row not in named))
    kept = frozenset(ordered[:most])
    rows[0].naming.keep(kept)
    return [row for row in rows if row in kept]


def _headline(summary: Summary, report: Report | None) -> str:
    """Return how many cases passed, after what the gate says, unless it says that everything passed."""
    ended = _describe_end(summary)
    judged = headline_of(report) if report else None
    if judged is None or judged.tone == GOOD:
        return ended
    return f"{judged.text}; {ended[0].lower()}{ended[1:]}"


def _describe_end(summary: Summary) -> str:
    if not summary.planned:
        return "No cases"
    if summary.passed == summary.planned:
        return f"All {count_of(summary.planned, 'case')} passed" if summary.planned > 1 else "1 case passed"
    parts = [f"{summary.failed:,} failed"] if summary.failed else []
    if summary.absent:
        parts.append(f"{summary.absent:,} {'has' if summary.absent == 1 else 'have'} no result")
    return f"{summary.passed:,} of {count_of(summary.planned, 'case')} passed: {', '.join(parts)}"


def _source(reading: Reading) -> Source:
    run = reading.run
    return Source(
        os.path.basename(reading.path), reading.kind, run.id, len(run.outcomes), len(run.plan), run.finished
    )


def _gate(report: Report, rows: Sequence[CaseRow]) -> Gate:
    judgement = report.judgement
    counted = Counter(row.verdict for row in rows if row.verdict)
    worse = _regressions(report, rows)
    return Gate(
        "; ".join(filter(None, (report.finding, without_evidence_text(judgement)))),
        headline_of(report).tone,
        report.summary,
        tuple(report.context.baselines),
        tuple((verdict, counted[verdict]) for verdict in Verdict if counted[verdict]),
        tuple(
            f"the quarantine of {entry.case} ended {entry.expires} ({entry.place})"
            for entry in judgement.expired
        ),
        tuple(
            (row, finding)
            for row, metric in worse[:MOST_WORSE]
            for finding in row.findings
            if finding.metric == metric
        ),
        max(0, len(worse) - MOST_WORSE),
    )


def _regressions(report: Report, rows: Sequence[CaseRow]) -> list[tuple[CaseRow, str]]:
    """Return the blocking regressions of cases that ran to their end: row and metric."""
    by_case = {row.case: row for row in rows if row.is_good and row.blocks}
    red = [row for row in report.judgement.red if row.verdict in {Verdict.REGRESSION, Verdict.INVALID}]
    return [(by_case[row.case], row.metric) for row in red if row.case in by_case]


def _group_cautions(rows: Iterable[CaseRow]) -> list[tuple[str, tuple[CaseRow, ...]]]:
    """Each caution once, with all its cases, the most frequent first; those that differ only in numbers are one."""
    found = [(caution, row) for row in rows for caution in row.cautions]
    told = [
        (caution.text, tuple(dict.fromkeys(found[place][1] for place in places)))
        for caution, places in merge_cautions(caution for caution, _ in found)
    ]
    return sorted(told, key=lambda each: -len(each[1]))


def _metrics_of(rows: Iterable[CaseRow]) -> dict[str, None]:
    found = dict.fromkeys(m.metric for row in rows if row.outcome for m in row.outcome.measurements)
    return dict.fromkeys([*(metric for metric in METRICS if metric in found), *found])


def _reported_metrics(rows: Iterable[CaseRow]) -> dict[str, Metric]:
    """Return the definitions of the metrics that benchmarks report themselves, in the order of the files."""
    found: dict[str, Metric] = {}
    for row in rows:
        for each in row.outcome.measurements if row.outcome else ():
            if each.details and each.details.better and (known := find_metric(each.metric, each)):
                found.setdefault(each.metric, known)
    return found


def _choose_columns(rows: Sequence[CaseRow]) -> list[str]:
    """Choose the metrics that get a column: the most wanted first, then others while there is space."""
    there = _metrics_of(rows)
    if COMPILE_SECONDS in there:
        there.pop("compilation_latency", None)
    wanted = [metric for metric in _COLUMNS if metric in there]
    caches = [metric for metric in _CACHE_COLUMNS if metric in there]
    if caches and wanted:
        return [*wanted[: MOST_COLUMNS - 2], *(m for m in caches if m in _FEW_CACHE_COLUMNS)]
    others = [metric for metric in there if metric not in {*_COLUMNS, *_CACHE_COLUMNS}]
    if own := list(_reported_metrics(rows))[:MOST_OWN_COLUMNS]:
        return [*wanted[: MOST_COLUMNS - len(own)], *own]
    return (wanted if len(wanted) >= 3 else caches or [*wanted, *others])[:MOST_COLUMNS]


def _text_limit(rows: Iterable[CaseRow]) -> int:
    """Return the maximum length of a message, traceback or log."""
    failures = [row.outcome.failure for row in rows if row.outcome and row.outcome.failure]
    texts = (text for failure in failures for text in (failure.message, failure.traceback, failure.log))
    long = sum(len(text) > _LONG for text in texts)
    return max(_LONG, min(20_000, _ALL_TEXTS // max(long, 1)))


def _points(rows: Iterable[CaseRow]) -> int:
    """Return the maximum number of samples to draw per measurement."""
    drawn = sum(len(m.samples) > 1 for row in rows if row.outcome for m in row.outcome.measurements)
    return max(10, min(80, _ALL_POINTS // max(drawn, 1)))


def title_of(page: Page) -> str:
    """Return a short title for the browser tab."""
    speedup = page.summary.speedup
    said = {BAD: "gate fails", OPEN: "gate undecided"}.get(page.gate.tone if page.gate else "")
    parts = [said] if said else []
    parts.append(f"{page.summary.passed:,}/{page.summary.planned:,} passed")
    if speedup:
        parts.append(f"{format_ratio(speedup.mean)}x")
    parts += [
        f"warm saves {format_percent(total.saved)}"
        for total in page.summary.caches
        if total.scenario == WARM and total.saved is not None
    ]
    return f"{', '.join(parts)} - {page.sources[0].run if page.sources else 'torchstone'}"
