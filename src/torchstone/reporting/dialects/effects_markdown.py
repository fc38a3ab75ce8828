"""Render the parts of a Markdown report that only a comparison has: means, pass rates and tables of effects."""

from __future__ import annotations

from functools import partial

from torchstone.core.records import Case
from torchstone.core.text.units import count_of
from torchstone.gate.judgement import Overview, Row
from torchstone.reporting.dialects.markdown_page import LimitedPage, code, escape, make_table, table_head
from torchstone.reporting.views.comparison_rows import describe_mean, left_out_text
from torchstone.reporting.views.effects import EffectTable, make_effect_tables
from torchstone.reporting.views.report_view import ReportView, percent


def add_overview(page: LimitedPage, overview: Overview) -> None:
    """Add geometric means and pass rates."""
    if overview.means:
        confidence = percent(1 - overview.alpha)
        head = ["geometric mean, new/base", "better", "ratio", f"{confidence} interval", "cases"]
        rows = [
            [code(each.metric, in_table=True), each.better, *describe_mean(each.mean), each.over]
            for each in overview.means
        ]
        page.add(make_table([head, *rows]) + "\n")
    if note := left_out_text(overview):
        page.add(f"{note}\n\n")
    rate = overview.pass_rate
    if not rate.cases or rate.new == rate.base == rate.cases:
        return
    page.add(f"pass rate {rate.new:,} of {rate.cases:,}, was {rate.base:,}\n\n")
    for what, changed in (("no longer passes", rate.lost), ("passes now", rate.gained)):
        page.add_each(changed, partial(_status_line, what), "- {} more\n", share=0.3)
    page.add("\n")


def _status_line(what: str, changed: tuple[Case, str]) -> str:
    case, status = changed
    return f"- {what}: {code(case.id)} ({escape(status)})\n"


def fold_effects(page: LimitedPage, report: ReportView) -> None:
    """Add the rows that do not block, as tables of effects."""
    for table in make_effect_tables(report):
        title = f"{count_of(len(table.rows), 'row')} {table.verdict}"
        if page.add(f"\n<details><summary>{title}</summary>\n\n"):
            page.add(table_head(table.head))
            page.add_each(table.rows, partial(_effect_line, table), "\n_{} more are not shown here._\n")
            page.add("\n</details>\n", must=True)


def _effect_line(table: EffectTable, row: Row) -> str:
    name, metric, *cells = table.cells(row)
    shown = [code(name, in_table=True), code(metric, in_table=True), *map(escape, cells)]
    return f"| {' | '.join(shown)} |\n"
