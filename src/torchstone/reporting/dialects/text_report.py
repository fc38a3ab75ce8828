"""Render a report as text for a terminal: summary, red rows with what to do about them, then the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from torchstone.core.errors import printable
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import RoundTable, Row, State
from torchstone.reporting.dialects.red_table import RedGroup, group_causes, group_reasons, red_lines
from torchstone.reporting.dialects.text_page import INDENT, TextPage
from torchstone.reporting.views.report_view import (
    ReportView,
    metric_name,
    quarantine_reason,
    without_evidence_text,
)

MOST_RED = 10  # blocks of several lines; the table above them has a line for each red row
FEW_RED = 3  # so many blocks need no table
ALL_RED = "--report json=FILE and --report junit=FILE list all"
MOST_OTHERS = 20
MOST_NAMES = 6
_ALWAYS = frozenset({"planned", "judged", "red"})
"""The counts that are shown even if they are 0."""
_OTHERS = {
    Verdict.IMPROVEMENT: "green",
    Verdict.QUARANTINED: "yellow",
    Verdict.NEW: "blue",
    Verdict.MISSING: "yellow",
    Verdict.REGRESSION: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.INVALID: "yellow",
}


def render_text(report: ReportView, *, color: bool = False, width: int = 80) -> str:
    """Render the report."""
    page, judgement = TextPage(width, color=color), report.judgement
    headline = _headline(report, page)
    lines = [*page.wrap(f"environment: {report.environment}", "", " " * INDENT)] if report.environment else []
    summary, rest = _around_red(report, page)
    lines += [*headline, *summary]
    if note := without_evidence_text(judgement):
        lines += page.wrap(note, "  ", "  ")
    red = report.red
    lines += _red(report, red, page)
    for entry in judgement.expired:
        lines += ["", *_expired_block(entry, page)]
    lines += rest
    for caution in judgement.cautions:
        lines += page.wrap(caution.text, "caution: ", " " * 9)
    if judgement.rounds:
        lines += ["", *round_lines(judgement.rounds)]
    if len(red) > 3:
        lines += ["", *headline]
    return page.finish(lines)


def _red(report: ReportView, red: Sequence[Row], page: TextPage) -> Iterator[str]:
    """Yield the red rows: a table of all, then the worst in detail. Rows of one cause are one block."""
    if not red:
        return
    groups = group_causes(red)
    blocks = group_reasons(report, groups)
    if len(groups) > FEW_RED or len(blocks) < len(groups):
        yield ""
        yield from red_lines(report, groups, page)
    for alike in blocks[:MOST_RED]:
        yield ""
        if len(alike) > 1:
            yield from _undecided_block(report, alike, page)
        else:
            yield from _red_block(report, alike[0].lead, alike[0].parts, page)
    if (left := sum(map(len, blocks[MOST_RED:]))) > 0:
        yield ""
        yield from page.wrap(f"... and {left:,} more red rows; {ALL_RED}", "", "  ")


def _undecided_block(report: ReportView, alike: Sequence[RedGroup], page: TextPage) -> Iterator[str]:
    """Yield the cases that nothing but one reason leaves undecided: the reason once, and the commands of all."""
    leads = [group.lead for group in alike]
    names = [printable(report.name_of(lead.case)) for lead in leads]
    yield f"{page.paint(f'{Verdict.INCONCLUSIVE:<12}', 'yellow')} {page.paint(count_of(len(alike), 'case'), 'bold')}"
    more = f", and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    yield from page.wrap(", ".join(names[:MOST_NAMES]) + more, " " * INDENT, " " * (INDENT + 2))
    metrics = dict.fromkeys(metric_name(row) for group in alike for row in (group.lead, *group.parts))
    yield from page.wrap(f"({', '.join(map(printable, metrics))})", " " * INDENT, " " * (INDENT + 2))
    details = {row.detail for group in alike for row in (group.lead, *group.parts)}
    example = "" if len(details) == 1 else f"for example, {leads[0].metric} of {names[0]}: "
    yield from page.wrap(f"{example}{leads[0].detail}", " " * INDENT, " " * (INDENT + 2))
    texts = [report.row_text(lead) for lead in leads]
    label = page.paint(f"{'reproduce':<10}", "dim")
    for text in texts[:MOST_NAMES]:
        yield from page.wrap_command(text.repro, f"  {label} ")
    yield from _fields({"next step": texts[0].instead}, page)


def _headline(report: ReportView, page: TextPage) -> list[str]:
    is_failure = report.judgement.state is State.FAIL
    color = "red" if is_failure else "green" if report.is_pass else "yellow"
    return [page.paint(line, "bold", color) for line in page.wrap(report.headline, "", "  ")]


def _around_red(report: ReportView, page: TextPage) -> tuple[list[str], list[str]]:
    """Return the lines before and after the red rows: the counts, and what does not block but deserves a look."""
    overview, released = report.judgement.overview, _releases(report, page)
    if overview is None:
        others = [
            line
            for verdict in _OTHERS
            for line in _other_rows(report, verdict, report.sort(report.of_verdict(verdict)), page)
        ]
        rest = [*others, *released]
        return ["", *_counts(report.summary, page)], ["", *rest] if rest else []
    from torchstone.reporting.dialects.effects_text import effect_lines, overview_lines  # noqa: PLC0415  (start-up: 9 ms, and a check without comparisons needs no statistics)

    counts = "   ".join(f"{name} {number:,}" for name, number in report.summary.items())
    summary = ["", *page.wrap(counts, "  ", "  ")] if report.summary else []
    summary += overview_lines(report, overview, page)
    return summary, [*effect_lines(report, page), *(["", *released] if released else [])]


def _counts(summary: dict[str, int], page: TextPage) -> Iterator[str]:
    left, line = page.width, ""
    for name, number in summary.items():
        if not number and name not in _ALWAYS:
            continue
        width = len(f"  {name} {number:,}")
        if width > left:
            yield line
            left, line = page.width, ""
        line += f"  {name} {page.paint(f'{number:,}', 'bold')}"
        left -= width
    yield line


def _red_block(report: ReportView, row: Row, parts: Sequence[Row], page: TextPage) -> Iterator[str]:
    words = report.row_text(row)
    name = page.paint(printable(report.name_of(row.case)), "bold")
    color = "yellow" if row.verdict is Verdict.INCONCLUSIVE else "red"
    yield f"{page.paint(f'{row.verdict:<12}', color)} {name}"
    yield from page.wrap(words.finding, " " * INDENT, " " * (INDENT + 2))
    told = {row.detail}
    for part in parts:
        is_said = part.detail in told
        told.add(part.detail)
        shown = structs.replace(part, ruling=structs.replace(part.ruling, detail="")) if is_said else part
        yield from page.wrap(report.finding_of(shown), " " * INDENT, " " * (INDENT + 2))
    yield from _fields({"case": printable(row.case.id, 400), **dict(words.facts)}, page)
    for name, command in (("reproduce", words.repro), ("accept", words.accept)):
        if command:
            yield from page.wrap_command(command, f"  {page.paint(f'{name:<10}', 'dim')} ")
    yield from _fields({"next step": words.instead}, page)


def _expired_block(entry: QuarantineEntry, page: TextPage) -> Iterator[str]:
    yield f"{page.paint('expired     ', 'red')} quarantine of {printable(entry.case)}: ended {entry.expires}"
    advice = "fix the case, or give it a new date: torchstone quarantine add --replace"
    yield from _fields({"at": entry.place, "reason": entry.reason, "next step": advice}, page)


def _fields(fields: dict[str, str], page: TextPage) -> Iterator[str]:
    for name, value in fields.items():
        if value:
            yield from page.wrap(value, f"  {name:<10} ", " " * INDENT)


def _releases(report: ReportView, page: TextPage) -> list[str]:
    lines: list[str] = []
    for release in report.judgement.releases[:MOST_OTHERS]:
        how = f"passed in {release.passed} of {count_of(release.seen, 'result')} given"
        text = f"could be released: {printable(release.case.name)} {how} ({release.entry.place})"
        lines += page.wrap(text, "", " " * (INDENT + 2))
    if (left := len(report.judgement.releases) - MOST_OTHERS) > 0:
        lines.append(f"... and {left:,} more could be released; --format json lists all of them")
    return lines


def _other_rows(report: ReportView, verdict: Verdict, rows: Sequence[Row], page: TextPage) -> Iterator[str]:
    for row in rows[:MOST_OTHERS]:
        reason = quarantine_reason(row)
        finding = f"{report.finding_of(row)}{f' [{reason}]' if reason else ''}"
        text = f"{printable(report.name_of(row.case))}  {finding}"
        first, *more = page.wrap(text, " " * INDENT, " " * (INDENT + 2))
        yield page.paint(f"{verdict:<12}", _OTHERS[verdict]) + " " + first[INDENT:]
        yield from more
    if len(rows) > MOST_OTHERS:
        yield f"{'':<12} ... and {len(rows) - MOST_OTHERS:,} more ({verdict}); --format json lists all of them"


def round_lines(table: RoundTable) -> Iterator[str]:
    """Yield what PyTorch's diff of two DDP reports prints: seconds, examples and change, at two percentiles."""
    yield f"{'':<28}{'75th percentile':^26}{'95th percentile':^26}".rstrip()
    columns = f"{'s/iter':>9}{'ex/s':>7}{'faster':>10}"
    yield f"{'model':<16}{'batch':>6}{'ranks':>6}{columns}{columns}"
    for row in table.rows:
        cells = "".join(
            f"{at['sec_per_iter']:>9.3f}{at['ex_per_sec']:>7}{at['change_pct']:>9.1f}%"
            for at in row.percentiles.values()
        )
        yield f"{printable(row.model, 16):<16}{row.batch_size:>6}{row.ranks:>6}{cells}"
    if not table.rows:
        yield "the two reports have no rounds in common that can be compared"
