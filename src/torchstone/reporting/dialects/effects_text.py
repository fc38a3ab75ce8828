"""Render the parts of a text report that only a comparison has: means, pass rates, reasons and effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.errors import printable
from torchstone.core.records import Case
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import Overview, Row
from torchstone.reporting.dialects.text_page import INDENT, TextPage, cut
from torchstone.reporting.views.comparison_rows import ORDER, describe_mean, left_out_text
from torchstone.reporting.views.effects import has_effect, is_unchanged, short_effect
from torchstone.reporting.views.report_view import ReportView, percent, quarantine_reason

MOST_ROWS = 30
MOST_NAMES = 6
LEAST_METRIC_WIDTH = 16
EFFECT_WIDTH = 42  # columns, including the space between them
_COLORS = {
    Verdict.IMPROVEMENT: "green",
    Verdict.NEW: "blue",
    Verdict.SAME: "dim",
}
_MORE = "--format json lists all of them"


def confidence_of(report: ReportView) -> str:
    """Return the confidence level of the intervals: ``99%``."""
    overview = report.judgement.overview
    return percent(1 - overview.alpha) if overview else ""


def overview_lines(report: ReportView, overview: Overview, page: TextPage) -> Iterator[str]:
    """Yield geometric means and pass rates."""
    if overview.means:
        yield ""
        interval = f"{confidence_of(report)} interval"
        head = f"  {'geometric mean, new/base':<32}{'better':<8}{'ratio':>7}  {interval:<19}{'cases':>6}"
        yield page.paint(head, "dim")
        for each in overview.means:
            ratio, between = describe_mean(each.mean)
            name = cut(printable(each.metric), 31)
            yield f"  {name:<32}{each.better:<8}{ratio:>7}  {between:<19}{each.over:>6}"
    if note := left_out_text(overview):
        yield f"  {note}"
    rate = overview.pass_rate
    if rate.cases and (rate.new < rate.cases or rate.base < rate.cases):
        yield ""
        yield f"  pass rate {rate.new:,} of {rate.cases:,}, was {rate.base:,}"
        yield from _status_names("no longer pass", rate.lost, report, page)
        yield from _status_names("pass now", rate.gained, report, page)


def _status_names(
    what: str, changed: Sequence[tuple[Case, str]], report: ReportView, page: TextPage
) -> Iterator[str]:
    if changed:
        named = ", ".join(
            f"{printable(report.name_of(case))} ({status})" for case, status in changed[:MOST_NAMES]
        )
        left = len(changed) - MOST_NAMES
        yield from page.wrap(f"{what}: {named}{f', and {left:,} more' if left > 0 else ''}", "    ", "      ")


def effect_lines(report: ReportView, page: TextPage) -> Iterator[str]:
    """Yield the rows that do not block: those without an effect by reason, the others in tables."""
    yield from _reasons(report, page)
    yield from _tables(report, page)


def _reasons(report: ReportView, page: TextPage) -> Iterator[str]:
    """Yield why rows could not be decided, or are on one side only: each reason once, with its cases."""
    for verdict in ORDER:
        groups: dict[str, list[Row]] = {}
        for row in report.of_verdict(verdict):
            if (row.detail or not row.comparison) and verdict is not Verdict.SAME:
                reasons = "; ".join(part for part in (row.detail, quarantine_reason(row)) if part)
                groups.setdefault(reasons, []).append(row)
        for reason, rows in groups.items():
            yield ""
            yield from _reason(report, verdict, reason, rows, page)


def _reason(
    report: ReportView, verdict: Verdict, reason: str, rows: Sequence[Row], page: TextPage
) -> Iterator[str]:
    text = f"{count_of(len(rows), 'row')}: {printable(reason, 400)}" if reason else count_of(len(rows), "row")
    first, *more = page.wrap(text, " " * INDENT, " " * INDENT)
    painted = page.paint(f"{verdict.value:<12}", _COLORS.get(verdict, "yellow"))
    yield f"{painted} {first[INDENT:]}"
    yield from more
    cases = list(dict.fromkeys(row.case for row in rows))
    left = len(cases) - MOST_NAMES
    text = ", ".join(printable(report.name_of(case)) for case in cases[:MOST_NAMES]) + (
        f", and {count_of(left, 'more case')}" if left > 0 else ""
    )
    yield from page.wrap(text, " " * (INDENT + 2), " " * (INDENT + 4))
    metrics = ", ".join(map(printable, dict.fromkeys(row.metric for row in rows)))
    yield from page.wrap(f"({metrics})", " " * (INDENT + 2), " " * (INDENT + 4))


def _tables(report: ReportView, page: TextPage) -> Iterator[str]:
    """Yield tables of the rows that have an effect and do not block, by verdict.

    For unchanged counts, only their number is given.
    """
    for verdict in ORDER:
        rows = [row for row in report.of_verdict(verdict) if row.comparison and has_effect(row.comparison)]
        changed = [row for row in rows if not is_unchanged(row)]
        if changed:
            yield from ("", *_table(report, verdict, changed, page))
        if unchanged := len(rows) - len(changed):
            yield from ("", f"{verdict.value:<12} {count_of(unchanged, 'count')} unchanged")


def _table(report: ReportView, verdict: Verdict, rows: Sequence[Row], page: TextPage) -> Iterator[str]:
    shown = rows[:MOST_ROWS]
    names = [printable(report.name_of(row.case)) for row in shown]
    left_width = page.width - EFFECT_WIDTH
    longest = max(map(len, names))
    metric = min(max(len(row.metric) for row in shown), max(LEAST_METRIC_WIDTH, left_width - longest))
    width = max(INDENT - 2, min(longest, left_width - metric))
    if len({cut(name, width) for name in names}) < len(set(names)):
        width = longest  # two cases that look the same are worse than a long line
    last = "trials" if verdict is Verdict.INCONCLUSIVE else "margin"
    head = f"{'metric':<{metric}}  {'change':>8}  {f'{confidence_of(report)} interval':<18}  {last}"
    painted = page.paint(f"{verdict.value:<{width + 2}}", _COLORS.get(verdict, "yellow"))
    yield f"{painted}  {page.paint(head, 'dim')}"
    for row, name in zip(shown, names, strict=True):
        if row.comparison:
            start = f"  {cut(name, width):<{width}}  {cut(row.metric, metric):<{metric}}"
            change, between, last = short_effect(row, row.comparison)
            yield f"{start}  {change:>8}  {between:<18}  {last}".rstrip()
    if (left := len(rows) - MOST_ROWS) > 0:
        yield f"  ... and {left:,} more; {_MORE}"
