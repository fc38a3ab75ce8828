"""All that the page shows, decided before any of it is rendered."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from torchstone.model import Reading
from torchstone.report.page_cache import WARM, CacheCase, format_percent, make_cases
from torchstone.report.page_case import CaseRow, Finding, format_ratio, make_rows, shared_axes
from torchstone.report.page_facts import Facts, collect_facts
from torchstone.report.page_flame_section import Explained, explain_rows
from torchstone.report.page_scaling import ShownSweep, show_sweeps
from torchstone.report.page_summary import (
    MEMORY,
    BreakGroup,
    Group,
    Summary,
    Trouble,
    group_breaks,
    group_rows,
    group_troubles,
    summarise,
    wrong_cases,
)
from torchstone.report.rows import Report
from torchstone.results import Results
from torchstone.units import count_of, join_alike
from torchstone.vocabulary import COMPILE_SECONDS, METRICS, Verdict

MOST_COLUMNS = 6
MANY = 1_000  # from so many rows on, the page is kept compact
_COLUMNS = (
    *("speedup", "abs_latency", COMPILE_SECONDS, "compilation_latency", "compression_ratio"),
    *(MEMORY, "graph_breaks", "recompiles", "instruction_count", "compile_time_instruction_count"),
    *("python_calls", "compile_time_python_calls", "cpu_seconds", "compile_time_cpu_seconds"),
    *("import_time_us", "iteration_time", "examples_per_second", "scaling_efficiency"),
    *("communication_share", "rank_spread", "peak_memory"),
)
_CACHE_COLUMNS = (
    *("cold_compile_seconds", "warm_compile_seconds", "warm_saved", "warm_hit_rate"),
    *("portable_compile_seconds", "precompile_compile_seconds"),
)
_FEW_CACHE_COLUMNS = ("cold_compile_seconds", "warm_saved")  # where other probes need columns too
_LONG = 600  # characters that any text may have
_ALL_TEXTS = 2_000_000  # characters that all longer texts together may have, so that the page stays usable
_ALL_POINTS = 100_000  # the same for the samples drawn


class Source(Struct, frozen=True):
    """One file that the page was made from."""

    path: str
    kind: str
    run: str
    outcomes: int
    planned: int
    finished: bool


class Gate(Struct, frozen=True):
    """What the gate says about the whole. ``worse`` are the regressions of cases that ran to their end, largest change first."""

    headline: str
    passed: bool
    counts: dict[str, int]
    baselines: tuple[str, ...]
    verdicts: tuple[tuple[Verdict, int], ...]
    expired: tuple[str, ...]
    worse: tuple[tuple[CaseRow, Finding], ...]


class Room(Struct, frozen=True):
    """What one row may take, so that a page with very many stays usable.

    ``text`` is how many characters of a message, traceback or log are shown, ``points`` how many samples of one measurement are drawn;
    ``compact`` leaves out what only looks better.
    """

    text: int
    points: int
    compact: bool


class Page(Struct, frozen=True):
    """What is on the page, from top to bottom."""

    headline: str
    sources: tuple[Source, ...]
    shared: dict[str, str]
    summary: Summary
    group_axes: tuple[str, ...]
    groups: tuple[Group, ...]
    gate: Gate | None
    cautions: tuple[str, ...]
    case_cautions: tuple[tuple[str, tuple[CaseRow, ...]], ...]
    troubles: tuple[Trouble, ...]
    columns: tuple[str, ...]
    rows: tuple[CaseRow, ...]
    breaks: tuple[BreakGroup, ...]
    caches: tuple[CacheCase, ...]
    explained: tuple[Explained, ...]
    scaling: tuple[ShownSweep, ...]
    facts: Facts
    room: Room

    @property
    def metrics(self) -> list[str]:
        """The metrics that some case has, known ones first and in their usual order."""
        return list(_metrics_of(self.rows))


def make_page(results: Results, report: Report | None = None, baselines: Sequence[Reading] = ()) -> Page:
    """Decide what the page shows. ``report`` is what the gate says, where there are ``baselines``: the files themselves, for what is drawn beside them."""
    cases = [case for reading in results.readings for case in reading.run.plan]
    shared = shared_axes(cases)
    rows = make_rows(results, report, shared)
    wrong = wrong_cases(rows)
    summary = summarise(rows, wrong)
    axes, groups = group_rows(rows, wrong)
    explained, unusable = explain_rows(rows, report)
    cautions = [*(caution for reading in results.readings for caution in reading.cautions), *unusable]
    ended = _headline(summary)
    return Page(
        f"{report.headline}; {ended[0].lower()}{ended[1:]}"
        if report and report.judgement.exit_code
        else ended,
        tuple(_source(reading) for reading in results.readings),
        shared,
        summary,
        tuple(axes),
        tuple(groups),
        _gate(report, rows) if report else None,
        tuple(dict.fromkeys([*cautions, *(report.judgement.cautions if report else ())])),
        tuple(_group_cautions(rows)),
        tuple(group_troubles(rows)),
        tuple(_choose_columns(rows)),
        tuple(rows),
        tuple(group_breaks(rows)),
        tuple(make_cases(rows)),
        explained,
        tuple(show_sweeps([outcome for _, _, outcome in results], cases, baselines)),
        collect_facts(results.readings),
        Room(_text_limit(rows), _points(rows), len(rows) > MANY),
    )


def _headline(summary: Summary) -> str:
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
    return Gate(
        report.headline,
        judgement.exit_code == 0,
        report.summary,
        tuple(report.context.baselines),
        tuple((verdict, counted[verdict]) for verdict in Verdict if counted[verdict]),
        tuple(
            f"the quarantine of {entry.case} ended {entry.expires} ({entry.place})"
            for entry in judgement.expired
        ),
        tuple(_regressions(report, rows)),
    )


def _regressions(report: Report, rows: Sequence[CaseRow]) -> Iterator[tuple[CaseRow, Finding]]:
    by_case = {row.case: row for row in rows if row.is_good}
    for red in report.judgement.red:
        row = by_case.get(red.case)
        if row and red.verdict in {Verdict.REGRESSION, Verdict.INVALID}:
            yield from ((row, finding) for finding in row.findings if finding.metric == red.metric)


def _group_cautions(rows: Iterable[CaseRow]) -> list[tuple[str, tuple[CaseRow, ...]]]:
    """What is said about several cases is said once, also if it differs in a count; the most frequent first."""
    found = [(text, row) for row in rows for text in dict.fromkeys(row.cautions)]
    told = [
        (text, tuple({found[place][1].anchor: found[place][1] for place in places}.values()))
        for text, places in join_alike(text for text, _ in found)
    ]
    return sorted(told, key=lambda each: -len(each[1]))


def _metrics_of(rows: Iterable[CaseRow]) -> dict[str, None]:
    there = dict.fromkeys(m.metric for row in rows if row.outcome for m in row.outcome.measurements)
    return dict.fromkeys([*(metric for metric in METRICS if metric in there), *there])


def _choose_columns(rows: Sequence[CaseRow]) -> list[str]:
    """The metrics that deserve a column: those people look for first, then others while there is room."""
    there = _metrics_of(rows)
    if COMPILE_SECONDS in there:
        there.pop("compilation_latency", None)
    wanted = [metric for metric in _COLUMNS if metric in there]
    caches = [metric for metric in _CACHE_COLUMNS if metric in there]
    if caches and wanted:
        return [*wanted[: MOST_COLUMNS - 2], *(m for m in caches if m in _FEW_CACHE_COLUMNS)]
    others = [metric for metric in there if metric not in {*_COLUMNS, *_CACHE_COLUMNS}]
    return (wanted if len(wanted) >= 3 else caches or [*wanted, *others])[:MOST_COLUMNS]


def _text_limit(rows: Iterable[CaseRow]) -> int:
    """How long a message, traceback or log may be."""
    failures = [row.outcome.failure for row in rows if row.outcome and row.outcome.failure]
    texts = (text for failure in failures for text in (failure.message, failure.traceback, failure.log))
    long = sum(len(text) > _LONG for text in texts)
    return max(_LONG, min(20_000, _ALL_TEXTS // max(long, 1)))


def _points(rows: Iterable[CaseRow]) -> int:
    """How many samples of one measurement are drawn."""
    drawn = sum(len(m.samples) > 1 for row in rows if row.outcome for m in row.outcome.measurements)
    return max(10, min(80, _ALL_POINTS // max(drawn, 1)))


def title_of(page: Page) -> str:
    """The page in a few words, for the browser's tab."""
    speedup = page.summary.speedup
    parts = ["gate fails"] if page.gate and not page.gate.passed else []
    parts.append(f"{page.summary.passed:,}/{page.summary.planned:,} passed")
    if speedup:
        parts.append(f"{format_ratio(speedup.mean)}x")
    parts += [
        f"warm saves {format_percent(total.saved)}"
        for total in page.summary.caches
        if total.scenario == WARM and total.saved is not None
    ]
    return f"{', '.join(parts)} - {page.sources[0].run if page.sources else 'torchstone'}"
