"""A comparison as Markdown for a pull-request comment: the summary, what is red, the rest folded, never over GitHub's limit."""

from __future__ import annotations

from functools import partial

from torchstone.core.records import Case
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Row
from torchstone.reporting.dialects.markdown_report import (
    ROOM,
    LimitedPage,
    caution_line,
    code,
    escape,
    make_table,
)
from torchstone.reporting.views.comparison_rows import (
    ORDER,
    CompareReport,
    change_of,
    describe_certainty,
    describe_finding,
    describe_mean,
    describe_more,
    interval_of,
    repro_command,
    value_text,
)
from torchstone.reporting.views.names import Names

_HEAD = "| case | metric | base | new | change | {} interval | note |\n|---|---|---|---|---|---|---|\n"


def render_compare_markdown(report: CompareReport) -> str:
    """The comment. Sections are added while there is room; what did not fit is counted."""
    page, judgement = LimitedPage(ROOM), report.judgement
    if report.environment:
        page.add(f"> **other environment** {escape(report.environment)}\n\n")
    page.add(f"### torchstone: {report.headline}\n\n")
    if report.summary:
        counts = [list(report.summary), [f"{number:,}" for number in report.summary.values()]]
        page.add(make_table(counts) + "\n")
    _add_means(page, report)
    _add_statuses(page, report)
    page.add_each(judgement.cautions, caution_line, "> {} more cautions\n\n", share=0.2)
    red = report.red
    if red:
        page.add("| | case | found | so it is |\n|---|---|---|---|\n")
        page.add_each(
            red, partial(_red_line, report), "\n_{} more red rows are not shown here._\n", share=0.6
        )
        if page.add("\n<details><summary>How to measure each red row again</summary>\n\n"):
            page.add_each(red, partial(_command_line, report), "- _{} more are not shown here._\n", share=0.8)
            page.add("\n</details>\n", must=True)
    for verdict in ORDER:
        _fold(page, report, verdict)
    _add_rounds(page, report)
    return page.text


def _add_means(page: LimitedPage, report: CompareReport) -> None:
    if report.overview.means:
        head = ["geometric mean, new/base", "better", "ratio", f"{report.confidence} interval", "cases"]
        rows = [
            [code(each.metric, in_table=True), each.better, *describe_mean(each.mean), f"{each.mean.cases:,}"]
            for each in report.overview.means
        ]
        page.add(make_table([head, *rows]) + "\n")


def _add_statuses(page: LimitedPage, report: CompareReport) -> None:
    rate = report.overview.pass_rate
    if not rate.cases or rate.new == rate.base == rate.cases:
        return
    page.add(f"pass rate {rate.new:,} of {rate.cases:,}, was {rate.base:,}\n\n")
    for what, changed in (("no longer passes", rate.lost), ("passes now", rate.gained)):
        page.add_each(changed, partial(_status_line, what), "- {} more\n", share=0.3)
    page.add("\n")


def _status_line(what: str, changed: tuple[Case, str]) -> str:
    case, status = changed
    return f"- {what}: {code(case.id)} ({escape(status)})\n"


def _command_line(report: CompareReport, row: Row) -> str:
    return f"- {code(row.case.id)}: {code(repro_command(row, report), limit=2000)}\n"


def _red_line(report: CompareReport, row: Row) -> str:
    cells = [
        f"**{row.verdict}**",
        code(report.names.of(row.case), in_table=True),
        escape(describe_finding(row, report.confidence)),
        escape(describe_certainty(row, report.overview.alpha)),
    ]
    return f"| {' | '.join(cells)} |\n"


def _fold(page: LimitedPage, report: CompareReport, verdict: Verdict) -> None:
    rows = report.of_verdict(verdict)
    if rows and page.add(f"\n<details><summary>{count_of(len(rows), 'row')} {verdict}</summary>\n\n"):
        page.add(_HEAD.format(report.confidence))
        page.add_each(rows, partial(_line, report.names), "\n_{} more are not shown here._\n")
        page.add("\n</details>\n", must=True)


def _line(names: Names, row: Row) -> str:
    return f"| {' | '.join(_cells(row, names))} |\n"


def _cells(row: Row, names: Names) -> list[str]:
    found = row.comparison
    note = "; ".join(part for part in (row.detail, describe_more(row.more)) if part)
    return [
        code(names.of(row.case), in_table=True),
        code(row.metric, in_table=True),
        escape(value_text(row.base_value, row.metric)),
        escape(value_text(row.new_value, row.metric)),
        change_of(row.ratio) if row.ratio is not None else "",
        interval_of(found.low, found.high) if found else "",
        escape(note),
    ]


def _add_rounds(page: LimitedPage, report: CompareReport) -> None:
    """The rounds of two DDP reports, as the original prints them."""
    if not report.judgement.rounds:
        return
    head = ["model", "batch", "ranks"]
    head += [f"p{level} {what}" for level in (75, 95) for what in ("s/iter", "ex/s", "faster")]
    rows = [
        [code(each.model, in_table=True), str(each.batch_size), str(each.ranks)]
        + [
            text
            for at in each.percentiles.values()
            for text in (f"{at['sec_per_iter']:.3f}", f"{at['ex_per_sec']}", f"{at['change_pct']:.1f}%")
        ]
        for each in report.judgement.rounds.rows
    ]
    page.add("\n")
    page.add(make_table([head, *rows]))
