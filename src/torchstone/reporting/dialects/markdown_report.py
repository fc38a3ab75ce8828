"""Render a report as Markdown for a pull-request comment, within GitHub's size limit."""

from __future__ import annotations

from functools import partial

from torchstone.core.cautions import Caution
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import Judgement, Overview, Release, Row
from torchstone.reporting.dialects.markdown_page import LimitedPage, code, escape, make_table, table_head
from torchstone.reporting.views.report_view import ReportView, quarantine_reason, without_evidence_text

GITHUB_LIMIT = 65_536
LIMIT = 64_000  # the rest is for the lines that count what was left out

_FOLDED = {
    Verdict.IMPROVEMENT: "improved",
    Verdict.QUARANTINED: "quarantined",
    Verdict.NEW: "new",
    Verdict.MISSING: "missing, not blocking",
    Verdict.REGRESSION: "regressed, not blocking",
    Verdict.INCONCLUSIVE: "inconclusive, not blocking",
    Verdict.INVALID: "invalid, not blocking",
}


def render_markdown(report: ReportView) -> str:
    """Render the comment. Sections are added while they fit; rows that do not fit are counted."""
    page, judgement = LimitedPage(LIMIT), report.judgement
    if report.environment:
        page.add(f"> **other environment** {escape(report.environment)}\n\n")
    page.add(f"### torchstone: {report.headline}\n\n")
    if summary := report.summary:
        page.add(make_table([list(summary), [f"{number:,}" for number in summary.values()]]) + "\n")
    if note := without_evidence_text(judgement):
        page.add(f"{note}\n\n")
    if judgement.overview is None:
        _add_judged(page, report)
    else:
        _add_compared(page, report, judgement.overview)
    _fold_releases(page, report)
    _add_rounds(page, judgement)
    return page.text


def _add_judged(page: LimitedPage, report: ReportView) -> None:
    """Add cautions and rows of a check."""
    _add_cautions(page, report)
    _add_red(page, report)
    for verdict, noun in _FOLDED.items():
        _fold_list(page, report, verdict, noun)


def _add_compared(page: LimitedPage, report: ReportView, overview: Overview) -> None:
    """Add means, cautions and rows of a comparison."""
    from torchstone.reporting.dialects.effects_markdown import add_overview, fold_effects  # noqa: PLC0415  (start-up: 8 ms, and a check without comparisons needs no statistics)

    add_overview(page, overview)
    _add_cautions(page, report)
    _add_red(page, report)
    fold_effects(page, report)


def _add_cautions(page: LimitedPage, report: ReportView) -> None:
    page.add_each(report.judgement.cautions, caution_line, "> {} more cautions\n\n", share=0.2)


def _add_red(page: LimitedPage, report: ReportView) -> None:
    """Add the red rows, the expired quarantine entries, and what to do about them."""
    red, compares = report.red, report.judgement.overview is not None
    columns = ["", "case", "found", "certainty"] if compares else ["", "case", "metric", "found", "rule"]
    if red:
        page.add(table_head(columns))
        left_out = "\n_{} more red rows are not shown here._\n"
        page.add_each(red, partial(_red_line, report), left_out, share=0.6)
        if not compares:
            page.add("\n")
    page.add_each(
        report.judgement.expired, _expired_line, "- {} more quarantine entries have expired\n", share=0.8
    )
    what = "measure each red row again" if compares else "reproduce or accept each red row"
    if red and page.add(f"\n<details><summary>How to {what}</summary>\n\n"):
        left_out = "- _{} more are not shown here._\n" if compares else "_{} more are not shown here._\n"
        page.add_each(red, partial(_commands, report), left_out, share=0.8 if compares else 1)
        page.add("\n</details>\n", must=True)


def _red_line(report: ReportView, row: Row) -> str:
    words = report.row_text(row)
    cells = [f"**{row.verdict}**", code(report.name_of(row.case), in_table=True)]
    if report.judgement.overview is None:
        cells += [code(row.metric, in_table=True), escape(words.finding), escape(words.fact("rule"))]
    else:
        cells += [escape(words.finding), escape(words.fact("certainty"))]
    return f"| {' | '.join(cells)} |\n"


def _commands(report: ReportView, row: Row) -> str:
    words = report.row_text(row)
    if not words.accept and not words.instead:
        return f"- {code(row.case.id)}: {code(words.repro, limit=len(words.repro))}\n"
    lines = [f"- {code(row.case.id)} ({escape(words.fact('at'))})\n"]
    for label, text in words.next_steps:
        shown = escape(text) if text == words.instead else code(text, limit=len(text))
        lines.append(f"  - {label}: {shown}\n")
    return "".join(lines)


def _fold_list(page: LimitedPage, report: ReportView, verdict: Verdict, noun: str) -> None:
    """Add the rows that do not block, one line each."""
    rows = report.sort(report.of_verdict(verdict))
    if rows and page.add(f"\n<details><summary>{count_of(len(rows), 'row')} {noun}</summary>\n\n"):
        page.add_each(rows, partial(_bullet, report), "- _{} more are not shown here._\n")
        page.add("\n</details>\n", must=True)


def _bullet(report: ReportView, row: Row) -> str:
    reason = quarantine_reason(row)
    suffix = f" ({escape(reason)})" if reason else ""
    return f"- {code(report.name_of(row.case))} {escape(report.finding_of(row))}{suffix}\n"


def _add_rounds(page: LimitedPage, judgement: Judgement) -> None:
    """Add the rounds of two DDP reports, as the original prints them."""
    if not judgement.overview or not judgement.rounds or not judgement.rounds.rows:
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
        for each in judgement.rounds.rows
    ]
    page.add("\n")
    page.add(make_table([head, *rows]))


def _fold_releases(page: LimitedPage, report: ReportView) -> None:
    releases = report.judgement.releases
    if releases and page.add(
        f"\n<details><summary>{len(releases)} could be released from quarantine</summary>\n\n"
    ):
        page.add_each(releases, _release_line, "- _{} more are not shown here._\n")
        page.add("\n</details>\n", must=True)


def _release_line(release: Release) -> str:
    results = f"passed in {release.passed} of {release.seen} ({code(release.entry.place)})"
    return f"- {code(release.case.name)} {results}\n"


def _expired_line(entry: QuarantineEntry) -> str:
    return f"- quarantine of {code(entry.case)} ended {entry.expires} ({code(entry.place)})\n"


def caution_line(caution: Caution) -> str:
    """Format a caution as a quotation."""
    return f"> **caution** {escape(caution.text)}\n\n"
