"""The summary at the end of a run: tables, notes, and the cases that failed."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.errors import printable
from torchstone.core.records import Failure, Reading
from torchstone.core.text.intervals import format_with_interval
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.units import count_of, format_value
from torchstone.core.vocabulary import NOT_AVAILABLE, SCENARIOS
from torchstone.formats.merge import merge
from torchstone.reporting.run_text.blocks import WIDTH, Block, cut, wrapped
from torchstone.reporting.run_text.case_lines import phase_words
from torchstone.reporting.run_text.note_blocks import MOST_LINES as MOST_NOTE_LINES
from torchstone.reporting.run_text.note_blocks import note_blocks
from torchstone.reporting.run_text.scaling_blocks import scaling_blocks
from torchstone.reporting.views.caches import COLD, WARM, Total, format_percent, hit_rate
from torchstone.reporting.views.case_row import CaseRow, make_rows
from torchstone.reporting.views.result_table import ResultTable
from torchstone.reporting.views.summary import (
    Group,
    Summary,
    group_rows,
    summarise,
    total_text,
    wrong_cases,
)

MOST_FAILURES = 20
MOST_LINES, MOST_CHARACTERS = 5, 600  # of a message


def summary_blocks(
    reading: Reading, title: str, width: int = WIDTH, *, most_lines: int | None = MOST_NOTE_LINES
) -> Iterator[Block]:
    """Yield the summary of a run: pass rate, speedup, compile time, memory, notes, and what failed."""
    run, path = reading.run, reading.path
    rows = make_rows(merge([reading]), None, {})
    wrong = wrong_cases(rows)
    axes, groups = group_rows(rows, wrong)
    groups = groups or [Group((), summarise(rows, wrong))]
    yield ""
    yield from _group_blocks(axes, groups, title)
    yield from scaling_blocks(run, width)
    yield from note_blocks(rows, path, width, most_lines=most_lines)
    yield from _unavailable_blocks([row for row in rows if row.status == NOT_AVAILABLE], width)
    yield from _failure_blocks([row for row in rows if not row.is_good], path, width)


def place_blocks(path: str) -> Iterator[Block]:
    """Yield where the run is, and how to look at it again."""
    yield f"\nrun file: {printable(path)}"
    yield f"look again: torchstone show {quote_word(path)} [CASE]"
    yield f"HTML page: torchstone report {quote_word(path)} -o report.html"


def _unavailable_blocks(rows: list[CaseRow], width: int) -> Iterator[Block]:
    """Yield the cases that cannot be measured here, grouped by reason."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        failure = row.outcome.failure if row.outcome else None
        alike.setdefault(failure.message if failure else "", []).append(row.case.name)
    for reason, names in alike.items():
        text = f"{count_of(len(names), 'case')} not available here: {reason} ({', '.join(names)})"
        yield f"\n{wrapped(text, '', '  ', width)}"


def _failure_blocks(rows: list[CaseRow], path: str, width: int) -> Iterator[Block]:
    """Yield the failed cases, grouped by reason, and the command that measures one of them again."""
    if not rows:
        return
    yield ""
    alike: dict[str, list[CaseRow]] = {}
    for row in rows[:MOST_FAILURES]:
        alike.setdefault(_ending_text(row, width), []).append(row)
    for reason, group in alike.items():
        yield "\n".join(printable(row.case.id, 1000) for row in group)
        if reason:
            yield reason
    if len(rows) > MOST_FAILURES:
        yield f"... and {len(rows) - MOST_FAILURES} more; 'torchstone report' shows all"
    again = f"torchstone repro {quote_word(path)} {quote_word(rows[0].case.id)}"
    if rows[0].reading and rows[0].reading.kind == "run":
        yield f"\nmeasure one of them again:\n  {again}"


def _ending_text(row: CaseRow, width: int) -> str:
    """Return status and reason of a failed case, wrapped; empty if it was not measured."""
    if not row.outcome:
        return ""
    first, *further = _reason_lines(row.outcome.failure) if row.outcome.failure else [""]
    lines = [wrapped(f"{row.outcome.status} {first}".rstrip(), "  ", "    ", width)]
    lines += [wrapped(line, "    ", "    ", width) for line in further]
    return "\n".join(lines)


def _reason_lines(failure: Failure) -> list[str]:
    """Return the first lines of the reason of a failure; the first alone often says little."""
    lines = [" ".join(line.split()) for line in failure.message.splitlines() if line.strip()]
    more = ["…"] if len(lines) > MOST_LINES else []
    text = "\n".join([*lines[:MOST_LINES], *more])
    return f"{phase_words(failure)}{cut(text, MOST_CHARACTERS)}".splitlines() or [""]


def _group_blocks(axes: list[str], groups: list[Group], title: str) -> Iterator[Block]:
    """Yield a line per group, in separate tables for timings, caches and counts."""
    cached = [group for group in groups if group.summary.caches]
    counted = [group for group in groups if group.summary.counts]
    timed = [group for group in groups if group not in cached and group not in counted]
    tables = [
        (timed, ("speedup", "compile", "peak"), _figures, title),
        (cached, _CACHE_COLUMNS, _cache_figures, "compile caches"),
        (counted, ("total count",), _count_figures, "counts"),
    ]
    is_first = True
    for shown, names, figures, own_title in tables:
        if shown:
            if not is_first:
                yield ""
            lines = [_cells(group, figures(group.summary)) for group in shown]
            yield ResultTable(title if is_first else own_title, (*axes, "passed", *names, "cases"), lines)
            is_first = False


def _count_figures(summary: Summary) -> list[str]:
    return [", ".join(map(total_text, summary.counts))]


def _cells(group: Group, figures: list[str]) -> list[str]:
    return [*group.axes, _pass_rate(group.summary), *figures, str(group.summary.planned)]


def _pass_rate(summary: Summary) -> str:
    return f"{summary.passed}/{summary.planned} ({100 * summary.share:.0f}%)"


def _figures(summary: Summary) -> list[str]:
    mean = summary.speedup
    speedup = format_with_interval(mean.mean, mean.interval, "x") if mean else ""
    if mean and mean.cases < summary.planned:
        speedup += f" of {mean.cases}"
    compile_time = format_value(summary.compile_time.mean, "s") if summary.compile_time else ""
    memory = format_value(summary.memory.mean, "GB") if summary.memory else ""
    return [speedup, compile_time, memory]


_OTHERS = [scenario for scenario in SCENARIOS if scenario not in {COLD, WARM}]
_CACHE_COLUMNS = (COLD, WARM, "saved", "hit rate", *_OTHERS)


def _cache_figures(summary: Summary) -> list[str]:
    """Return total times; cold and warm of cases that have both. The number of cases follows where it is not all of them."""
    totals = {total.scenario: total for total in summary.caches}
    cold, warm = totals.get(COLD), totals.get(WARM)
    if cold is None:
        return [""] * len(_CACHE_COLUMNS)
    others = [_saved(totals.get(scenario), cold.cases, seconds=True) for scenario in _OTHERS]
    if warm is None:
        return [_seconds(cold.seconds), "", "", "", *others]
    rate = hit_rate(warm.hits, warm.asked)
    return [_seconds(warm.cold), _seconds(warm.seconds), _saved(warm, cold.cases), rate, *others]


def _saved(total: Total | None, cases: int, *, seconds: bool = False) -> str:
    if total is None:
        return ""
    parts = [_seconds(total.seconds)] if seconds else []
    parts += [format_percent(total.saved)] if total.saved is not None else []
    return ", ".join(parts) + (f" ({total.cases})" if total.cases < cases else "")


def _seconds(seconds: float) -> str:
    return f"{seconds:,.3g} s" if abs(seconds) < 100 else f"{seconds:,.0f} s"
