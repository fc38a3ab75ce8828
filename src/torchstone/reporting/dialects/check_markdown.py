"""The report as Markdown for a pull-request comment: red rows first, the rest folded, never over GitHub's limit."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from torchstone.core.cautions import Caution
from torchstone.core.errors import printable
from torchstone.core.records import QuarantineEntry
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Release, Row, severity
from torchstone.reporting.views.check_rows import Report, describe, short_name

Thing = TypeVar("Thing")
GITHUB_LIMIT = 65_536
ROOM = 64_000  # what is left is for the lines that say what was left out

_FOLDED = {
    Verdict.IMPROVEMENT: "improved",
    Verdict.QUARANTINED: "quarantined",
    Verdict.NEW: "new",
    Verdict.MISSING: "missing, not blocking",
    Verdict.REGRESSION: "regressed, not blocking",
    Verdict.INCONCLUSIVE: "inconclusive, not blocking",
    Verdict.INVALID: "invalid, not blocking",
}


def render_markdown(report: Report) -> str:
    """The comment. Sections are added while there is room; what did not fit is counted."""
    page = LimitedPage(ROOM)
    judgement = report.judgement
    page.add(f"### torchstone: {report.headline}\n\n")
    page.add(make_table([list(report.summary), [f"{number:,}" for number in report.summary.values()]]) + "\n")
    page.add_each(judgement.cautions, caution_line, "> {} more cautions\n\n", share=0.2)
    red = judgement.red
    if red:
        page.add("| | case | metric | found | rule |\n|---|---|---|---|---|\n")
        page.add_each(
            red, partial(_red_line, report), "\n_{} more red rows are not shown here._\n", share=0.6
        )
        page.add("\n")
    page.add_each(judgement.expired, _expired_line, "- {} more quarantine entries have expired\n", share=0.8)
    if red and page.add("\n<details><summary>How to reproduce or accept each red row</summary>\n\n"):
        page.add_each(red, partial(_commands, report), "_{} more are not shown here._\n")
        page.add("\n</details>\n", must=True)
    for verdict, noun in _FOLDED.items():
        _fold(page, report, verdict, noun)
    _fold_releases(page, report)
    return page.text


class LimitedPage:
    """Text that stops growing at a limit."""

    def __init__(self, room: int) -> None:
        self._parts: list[str] = []
        self._used = 0
        self._room = room

    @property
    def text(self) -> str:
        """All that was added."""
        return "".join(self._parts)

    def add(self, part: str, *, must: bool = False, share: float = 1) -> bool:
        """Add a part if there is room for it, with no more than this share of the room taken in all."""
        fits = must or self._used + len(part.encode()) <= self._room * share
        if fits:
            self._parts.append(part)
            self._used += len(part.encode())
        return fits

    def add_each(
        self, things: Sequence[Thing], write: Callable[[Thing], str], left_out: str, *, share: float = 1
    ) -> None:
        """Add what is written of thing after thing; from the first that does not fit, they are only counted."""
        for number, thing in enumerate(things):
            if not self.add(write(thing), share=share):
                self.add(left_out.format(f"{len(things) - number:,}"), must=True)
                return


def _red_line(report: Report, row: Row) -> str:
    words = describe(row, report.context)
    cells = [
        f"**{row.verdict}**",
        code(short_name(row.case), in_table=True),
        code(row.metric, in_table=True),
        escape(words.finding),
        escape(words.rule),
    ]
    return f"| {' | '.join(cells)} |\n"


def _commands(report: Report, row: Row) -> str:
    words = describe(row, report.context)
    lines = [
        f"- {code(row.case.id)} ({escape(words.places)})\n  - reproduce: {code(words.repro, limit=len(words.repro))}\n"
    ]
    if words.accept:
        lines.append(f"  - accept: {code(words.accept, limit=len(words.accept))}\n")
    if words.instead:
        lines.append(f"  - next step: {escape(words.instead)}\n")
    return "".join(lines)


def _fold(page: LimitedPage, report: Report, verdict: Verdict, noun: str) -> None:
    rows = sorted(report.of_verdict(verdict), key=severity)
    if rows and page.add(f"\n<details><summary>{count_of(len(rows), 'row')} {noun}</summary>\n\n"):
        page.add_each(rows, partial(_bullet, report), "- _{} more are not shown here._\n")
        page.add("\n</details>\n", must=True)


def _bullet(report: Report, row: Row) -> str:
    entry = row.remarks.quarantine if row.verdict is Verdict.QUARANTINED else None
    reason = f" ({escape(entry.reason)})" if entry else ""
    return f"- {code(short_name(row.case))} {escape(describe(row, report.context).finding)}{reason}\n"


def _fold_releases(page: LimitedPage, report: Report) -> None:
    releases = report.judgement.releases
    if releases and page.add(
        f"\n<details><summary>{len(releases)} could be released from quarantine</summary>\n\n"
    ):
        page.add_each(releases, _release_line, "- _{} more are not shown here._\n")
        page.add("\n</details>\n", must=True)


def _release_line(release: Release) -> str:
    told = f"passed in {release.passed} of {release.seen} ({code(release.entry.place)})"
    return f"- {code(release.case.name)} {told}\n"


def _expired_line(entry: QuarantineEntry) -> str:
    return f"- quarantine of {code(entry.case)} ended {entry.expires} ({code(entry.place)})\n"


def caution_line(caution: Caution) -> str:
    """A caution as a quotation."""
    return f"> **caution** {escape(caution.text)}\n\n"


def make_table(rows: list[list[str]]) -> str:
    """Rows as a table, of which the first is the head."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str, *, in_table: bool = False, limit: int = 400) -> str:
    """Text as a code span, whatever is in it; in a table, a bar must not end the cell."""
    shown = printable(text, limit)
    if in_table:
        shown = shown.replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"{fence}{shown}{fence}"


def escape(text: str) -> str:
    """Text in which nothing is markup, a mention or a link to an issue."""
    shown = printable(text, 400).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]|#~])", r"\\\1", shown).replace("@", "&#64;")
