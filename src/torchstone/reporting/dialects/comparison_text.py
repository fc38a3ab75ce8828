"""A comparison as plain text for a terminal, colored if asked: the summary, what is red, then the rest in tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torchstone.analyze.two_samples import MOST_MORE, Comparison
from torchstone.core.errors import printable
from torchstone.core.records import Case
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.compared import ComparedRow
from torchstone.reporting.dialects.check_text import ALL_RED, INDENT, Page, scaling_lines
from torchstone.reporting.views.check_rows import ScalingTable
from torchstone.reporting.views.comparison_rows import (
    ORDER,
    CompareReport,
    change_of,
    describe_certainty,
    describe_finding,
    describe_mean,
    describe_method,
    interval_of,
    label,
    percent,
    repro_command,
)
from torchstone.reporting.views.names import Names

MOST_RED = 50
MOST_ROWS = 30
MOST_NAMES = 6
LEAST_OF_A_METRIC = 16
ROOM_OF_AN_EFFECT = 42  # columns, with what stands between them
_COLORS = {
    Verdict.IMPROVEMENT: "green",
    Verdict.NEW: "blue",
    Verdict.PASS: "dim",
}
_MORE = "--format json has them all"


def render_compare_text(report: CompareReport, *, color: bool = False, width: int = 80) -> str:
    """How it stands, then every red row with what to do about it, then the rest."""
    page, compared = Page(width, color=color), report.compared
    mood = "red" if compared.exit_code else "green" if report.headline.startswith("PASS") else "yellow"
    headline = [page.paint(line, "bold", mood) for line in page.wrap(report.headline, "", "  ")]
    lines = [*page.wrap(f"environment: {report.environment}", "", " " * 13)] if report.environment else []
    lines += [*headline, *_summary(report, page)]
    names = report.names
    for row in report.red[:MOST_RED]:
        lines += ["", *_red_block(report, row, names, page)]
    if (left := len(report.red) - MOST_RED) > 0:
        lines += ["", f"... and {left:,} more red rows; {ALL_RED}"]
    lines += _reasons(report, names, page)
    lines += _tables(report, names, page)
    for caution in compared.cautions:
        lines += page.wrap(caution.text, "caution: ", " " * 9)
    if compared.ddp is not None:
        lines += ["", *scaling_lines(ScalingTable(compared.header_keys or [], compared.ddp))]
    if len(report.red) > 3:
        lines += ["", *headline]
    return page.finish(lines)


def _summary(report: CompareReport, page: Page) -> Iterator[str]:
    """Counts, geometric means, pass rates."""
    if summary := report.summary:
        yield ""
        counts = "   ".join(f"{name} {number:,}" for name, number in summary.items())
        yield from page.wrap(counts, "  ", "  ")
    if report.compared.means:
        yield ""
        interval = f"{report.confidence} interval"
        head = f"  {'geometric mean, new/base':<32}{'better':<8}{'ratio':>7}  {interval:<19}{'cases':>6}"
        yield page.paint(head, "dim")
        for each in report.compared.means:
            ratio, between = describe_mean(each.mean)
            name = _cut(printable(each.metric), 31)
            yield f"  {name:<32}{each.better:<8}{ratio:>7}  {between:<19}{each.mean.cases:>6,}"
    rate = report.compared.pass_rate
    if rate.cases and (rate.new < rate.cases or rate.base < rate.cases):
        yield ""
        yield f"  pass rate {rate.new:,} of {rate.cases:,}, was {rate.base:,}"
        yield from _status_names("no longer pass", rate.lost, report.names, page)
        yield from _status_names("pass now", rate.gained, report.names, page)


def _status_names(what: str, changed: Sequence[tuple[Case, str]], names: Names, page: Page) -> Iterator[str]:
    if changed:
        named = ", ".join(f"{printable(names.of(case))} ({status})" for case, status in changed[:MOST_NAMES])
        left = len(changed) - MOST_NAMES
        yield from page.wrap(f"{what}: {named}{f', and {left:,} more' if left > 0 else ''}", "    ", "      ")


def _red_block(report: CompareReport, row: ComparedRow, names: Names, page: Page) -> Iterator[str]:
    name = page.paint(printable(names.of(row.case)), "bold")
    yield f"{page.paint(f'{label(row.verdict):<12}', 'red')} {name}"
    yield from page.wrap(describe_finding(row, report.confidence), " " * INDENT, " " * (INDENT + 2))
    fields = {
        "case": printable(row.case.id, 400),
        "by": describe_method(row.comparison) if row.comparison and row.comparison.method else "",
        "so it is": describe_certainty(row, report.compared.alpha),
        "at": ", base ".join(str(place) for place in (row.new_place or "no result", row.base_place) if place),
    }
    for field, value in fields.items():
        if value:
            yield from page.wrap(value, f"  {field:<10} ", " " * INDENT)
    yield from page.wrap_command(repro_command(row, report), f"  {page.paint('reproduce ', 'dim')} ")


def _reasons(report: CompareReport, names: Names, page: Page) -> Iterator[str]:
    """What could not be decided and why, or stands on one side only: each reason once, with the cases it is about."""
    for verdict in ORDER:
        groups: dict[str, list[ComparedRow]] = {}
        for row in report.of_verdict(verdict):
            if (row.detail or not row.comparison) and verdict is not Verdict.PASS:
                groups.setdefault(row.detail, []).append(row)
        for reason, rows in groups.items():
            yield ""
            yield from _reason(verdict, reason, rows, names, page)


def _reason(
    verdict: Verdict, reason: str, rows: Sequence[ComparedRow], names: Names, page: Page
) -> Iterator[str]:
    told = f"{count_of(len(rows), 'row')}: {printable(reason, 400)}" if reason else count_of(len(rows), "row")
    first, *more = page.wrap(told, " " * INDENT, " " * INDENT)
    painted = page.paint(f"{label(verdict):<12}", _COLORS.get(verdict, "yellow"))
    yield f"{painted} {first[INDENT:]}"
    yield from more
    cases = list(dict.fromkeys(row.case for row in rows))
    left = len(cases) - MOST_NAMES
    text = ", ".join(printable(names.of(case)) for case in cases[:MOST_NAMES]) + (
        f", and {count_of(left, 'more case')}" if left > 0 else ""
    )
    yield from page.wrap(text, " " * (INDENT + 2), " " * (INDENT + 4))
    metrics = ", ".join(map(printable, dict.fromkeys(row.metric for row in rows)))
    yield from page.wrap(f"({metrics})", " " * (INDENT + 2), " " * (INDENT + 4))


def _tables(report: CompareReport, names: Names, page: Page) -> Iterator[str]:
    """The rows that have an effect, certain or not, and do not block: a line each, by verdict; counts that are just as before are only counted."""
    for verdict in ORDER:
        rows = [row for row in report.of_verdict(verdict) if row.comparison and _has_effect(row.comparison)]
        changed = [row for row in rows if not _is_unchanged(row)]
        if changed:
            yield from ("", *_table(report, verdict, changed, names, page))
        if unchanged := len(rows) - len(changed):
            yield from ("", f"{label(verdict):<12} {count_of(unchanged, 'count')} exactly as before")


def _has_effect(found: Comparison) -> bool:
    """Whether there is a change to be told; from 0 there is one too, though no ratio."""
    return not math.isnan(found.ratio)


def _is_unchanged(row: ComparedRow) -> bool:
    return row.comparison is not None and row.comparison.low == row.comparison.high == 1


def _table(
    report: CompareReport, verdict: Verdict, rows: Sequence[ComparedRow], names: Names, page: Page
) -> Iterator[str]:
    shown = rows[:MOST_ROWS]
    told = [printable(names.of(row.case)) for row in shown]
    room = page.width - ROOM_OF_AN_EFFECT
    longest = max(map(len, told))
    metric = min(max(len(row.metric) for row in shown), max(LEAST_OF_A_METRIC, room - longest))
    width = max(INDENT - 2, min(longest, room - metric))
    if len({_cut(name, width) for name in told}) < len(set(told)):
        width = longest  # two cases that look the same are worse than a long line
    last = "trials" if verdict is Verdict.INCONCLUSIVE else "margin"
    head = f"{'metric':<{metric}}  {'change':>8}  {f'{report.confidence} interval':<18}  {last}"
    painted = page.paint(f"{label(verdict):<{width + 2}}", _COLORS.get(verdict, "yellow"))
    yield f"{painted}  {page.paint(head, 'dim')}"
    for row, name in zip(shown, told, strict=True):
        if row.comparison:
            start = f"  {_cut(name, width):<{width}}  {_cut(row.metric, metric):<{metric}}"
            yield f"{start}  {_effect(row, row.comparison)}".rstrip()
    if (left := len(rows) - MOST_ROWS) > 0:
        yield f"  ... and {left:,} more; {_MORE}"


def _effect(row: ComparedRow, found: Comparison) -> str:
    """Change, interval, and what else there is to know: how many more trials, or the margin."""
    between = "exact" if found.low == found.high else interval_of(found.low, found.high) or "unknown"
    last = percent(row.margin)
    if row.verdict is Verdict.INCONCLUSIVE:
        more = row.more
        last = "" if more is None else f">{MOST_MORE}" if more > MOST_MORE else f"+{more}"
    return f"{change_of(found.ratio):>8}  {between:<18}  {last}"


def _cut(text: str, width: int) -> str:
    """Text in so many columns: of a long one, the beginning and the end."""
    if len(text) <= width:
        return text
    end = width // 2
    return f"{text[: width - end - 1]}…{text[-end:]}"
