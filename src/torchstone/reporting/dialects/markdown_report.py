"""Render a report as Markdown for a pull-request comment, within GitHub's size limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from torchstone.core.cautions import Caution
from torchstone.core.errors import printable
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.records import Case
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Judgement, Overview, Release, Row
from torchstone.reporting.views.report_view import ReportView, quarantine_reason

if TYPE_CHECKING:
    from torchstone.reporting.views.effects import EffectTable

Thing = TypeVar("Thing")
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
    if judgement.overview:
        _add_overview(page, judgement.overview)
    page.add_each(judgement.cautions, caution_line, "> {} more cautions\n\n", share=0.2)
    _add_red(page, report)
    if judgement.overview is None:
        for verdict, noun in _FOLDED.items():
            _fold_list(page, report, verdict, noun)
    else:
        _fold_effects(page, report)
    _fold_releases(page, report)
    _add_rounds(page, judgement)
    return page.text


class LimitedPage:
    """Text that stops growing at a limit."""

    def __init__(self, limit: int) -> None:
        self._parts: list[str] = []
        self._used = 0
        self._limit = limit

    @property
    def text(self) -> str:
        """Return the text so far."""
        return "".join(self._parts)

    def add(self, part: str, *, must: bool = False, share: float = 1) -> bool:
        """Add a part unless the text would exceed this share of the limit; return whether it was added."""
        fits = must or self._used + len(part.encode()) <= self._limit * share
        if fits:
            self._parts.append(part)
            self._used += len(part.encode())
        return fits

    def add_each(
        self, things: Sequence[Thing], write: Callable[[Thing], str], left_out: str, *, share: float = 1
    ) -> None:
        """Add the text of each thing; from the first that does not fit on, things are only counted."""
        for number, thing in enumerate(things):
            if not self.add(write(thing), share=share):
                self.add(left_out.format(f"{len(things) - number:,}"), must=True)
                return


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


def _fold_effects(page: LimitedPage, report: ReportView) -> None:
    """Add the rows that do not block, as tables of effects."""
    from torchstone.reporting.views.effects import make_effect_tables  # noqa: PLC0415  (a plain check does without the statistics)

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


def _add_overview(page: LimitedPage, overview: Overview) -> None:
    from torchstone.reporting.views.comparison_rows import describe_mean, percent  # noqa: PLC0415  (a plain check does without the statistics)

    if overview.means:
        confidence = percent(1 - overview.alpha)
        head = ["geometric mean, new/base", "better", "ratio", f"{confidence} interval", "cases"]
        rows = [
            [code(each.metric, in_table=True), each.better, *describe_mean(each.mean), f"{each.mean.cases:,}"]
            for each in overview.means
        ]
        page.add(make_table([head, *rows]) + "\n")
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


def table_head(columns: Sequence[str]) -> str:
    """Format the head of a table whose rows follow one by one."""
    cells = "|".join(f" {column} " if column else " " for column in columns)
    return f"|{cells}|\n|{'---|' * len(columns)}\n"


def make_table(rows: list[list[str]]) -> str:
    """Format rows as a table; the first row is the head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str, *, in_table: bool = False, limit: int = 400) -> str:
    """Format any text as a code span; in a table, bars are escaped."""
    shown = printable(text, limit)
    if in_table:
        shown = shown.replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"{fence}{shown}{fence}"


def escape(text: str) -> str:
    """Escape text so that nothing in it is markup, a mention or a link to an issue."""
    shown = printable(text, 400).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|#~])", r"\\\1", shown).replace("@", "&#64;")
