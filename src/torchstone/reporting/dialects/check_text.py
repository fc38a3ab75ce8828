"""The report as plain text for a terminal, colored if asked."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Sequence

from torchstone.core.errors import printable
from torchstone.core.records import QuarantineEntry
from torchstone.core.text.safe_text import escape_commands, escape_lines
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Row, severity
from torchstone.reporting.views.check_rows import Report, ScalingTable, describe, describe_finding, short_name

MOST_RED = 200  # blocks of several lines; a log with thousands of them is read by nobody
ALL_RED = "they are all in --report json=FILE and --report junit=FILE"
MOST_OTHERS = 20
INDENT = 13

_SHELL_WORD = re.compile(r"""(?:\$'(?:\\.|[^'\\])*'|[^\s'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*")+""", re.DOTALL)
_COLORS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}
_OTHERS = {
    Verdict.IMPROVEMENT: "green",
    Verdict.QUARANTINED: "yellow",
    Verdict.NEW: "blue",
    Verdict.MISSING: "yellow",
    Verdict.REGRESSION: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.INVALID: "yellow",
}


class Page:
    """How wide the terminal is, and whether it has colors."""

    def __init__(self, width: int, *, color: bool = False) -> None:
        self.width = max(width, 40)
        self._mark = (
            os.urandom(8).hex() if color else ""
        )  # no foreign text can have it, so it cannot be colored

    def paint(self, text: str, *names: str) -> str:
        """Text in color, or as it is."""
        if not self._mark:
            return text
        codes = ";".join(_COLORS[name] for name in names)
        return f"\x1b[{self._mark}{codes}m{text}\x1b[{self._mark}0m"

    def finish(self, lines: Sequence[str]) -> str:
        """The lines as one text, in which only what was painted has color, and nothing is a command to a terminal or a CI service."""
        text = "\n".join(lines) + "\n"
        if not self._mark:
            return escape_commands(escape_lines(text))
        pieces = re.split(rf"\x1b\[{self._mark}([0-9;]+)m", text)
        painted = (f"\x1b[{piece}m" if odd % 2 else escape_lines(piece) for odd, piece in enumerate(pieces))
        return escape_commands("".join(painted))

    def wrap(self, text: str, first: str, following: str) -> list[str]:
        """Text on as many lines as it needs, with what stands before the first and before the others. Words stay whole."""
        return textwrap.wrap(
            text,
            self.width,
            initial_indent=first,
            subsequent_indent=following,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def wrap_command(self, command: str, first: str) -> list[str]:
        """A command on several lines that can be pasted as they stand: broken between words, never inside quotes."""
        command = printable(command, len(command))
        closed = not _SHELL_WORD.sub("", command).strip()
        words = (
            _SHELL_WORD.findall(command) if closed else [command]
        )  # quotes that do not close: better long than wrong
        lines, line, used = [], first, INDENT
        for word in words:
            if used > INDENT and used + 1 + len(word) > self.width - 2:
                lines.append(f"{line} \\")
                line, used = " " * (INDENT + 2) + word, INDENT + 2 + len(word)
            else:
                space = " " if used > INDENT else ""
                line, used = f"{line}{space}{word}", used + len(space) + len(word)
        return [*lines, line]


def render_text(report: Report, *, color: bool = False, width: int = 80) -> str:
    """The report: how it stands, then every red row with what to do about it, then what else is worth a look."""
    page = Page(width, color=color)
    judgement = report.judgement
    headline = page.paint(report.headline, "bold", "red" if judgement.exit_code else "green")
    lines = [headline, "", *_summary_lines(report, page)]
    red = judgement.red
    for row in red[:MOST_RED]:
        lines += ["", *_red_block(report, row, page)]
    if (left := len(red) - MOST_RED) > 0:
        lines += ["", *page.wrap(f"... and {left:,} more red rows; {ALL_RED}", "", "  ")]
    for entry in judgement.expired:
        lines += ["", *_expired_block(entry, page)]
    lines += _others(report, page)
    for caution in judgement.cautions:
        lines += page.wrap(caution.text, "caution: ", " " * 9)
    if report.scaling:
        lines += ["", *scaling_lines(report.scaling)]
    if len(red) > 3:
        lines += ["", headline]
    return page.finish(lines)


def _summary_lines(report: Report, page: Page) -> Iterator[str]:
    """The counts, on as many lines as they need."""
    room, line = page.width, ""
    for name, number in report.summary.items():
        width = len(f"  {name} {number:,}")
        if width > room:
            yield line
            room, line = page.width, ""
        line += f"  {name} {page.paint(f'{number:,}', 'bold')}"
        room -= width
    yield line


def _red_block(report: Report, row: Row, page: Page) -> Iterator[str]:
    words = describe(row, report.context)
    name = page.paint(printable(short_name(row.case)), "bold")
    yield f"{page.paint(f'{row.verdict:<12}', 'red')} {name}"
    yield from page.wrap(words.finding, " " * INDENT, " " * (INDENT + 2))
    yield from _fields({"case": printable(row.case.id, 400), "rule": words.rule, "at": words.places}, page)
    for name, command in (("reproduce", words.repro), ("accept", words.accept)):
        if command:
            yield from page.wrap_command(command, f"  {page.paint(f'{name:<10}', 'dim')} ")
    yield from _fields({"next step": words.instead}, page)


def _expired_block(entry: QuarantineEntry, page: Page) -> Iterator[str]:
    yield f"{page.paint('expired     ', 'red')} quarantine of {printable(entry.case)}: ended {entry.expires}"
    advice = "fix the case, or give it a new date: torchstone quarantine add --replace"
    yield from _fields({"at": entry.place, "reason": entry.reason, "next step": advice}, page)


def _fields(fields: dict[str, str], page: Page) -> Iterator[str]:
    for name, value in fields.items():
        if value:
            yield from page.wrap(value, f"  {name:<10} ", " " * INDENT)


def _others(report: Report, page: Page) -> list[str]:
    """What does not block, but is worth a look."""
    lines: list[str] = []
    for verdict in _OTHERS:
        lines += _other_rows(verdict, sorted(report.of_verdict(verdict), key=severity), page)
    for release in report.judgement.releases[:MOST_OTHERS]:
        how = f"passed in {release.passed} of {count_of(release.seen, 'result')} given"
        text = f"could be released: {printable(release.case.name)} {how} ({release.entry.place})"
        lines += page.wrap(text, "", " " * (INDENT + 2))
    if (left := len(report.judgement.releases) - MOST_OTHERS) > 0:
        lines.append(f"... and {left:,} more could be released; --format json has them all")
    return ["", *lines] if lines else []


def _other_rows(verdict: Verdict, rows: Sequence[Row], page: Page) -> Iterator[str]:
    for row in rows[:MOST_OTHERS]:
        entry = row.remarks.quarantine if verdict is Verdict.QUARANTINED else None
        text = f"{printable(short_name(row.case))}  {describe_finding(row)}{f' [{entry.reason}]' if entry else ''}"
        first, *more = page.wrap(text, " " * INDENT, " " * (INDENT + 2))
        yield page.paint(f"{verdict:<12}", _OTHERS[verdict]) + " " + first[INDENT:]
        yield from more
    if len(rows) > MOST_OTHERS:
        yield f"{'':<12} ... and {len(rows) - MOST_OTHERS:,} more ({verdict}); --format json has them all"


def scaling_lines(table: ScalingTable) -> Iterator[str]:
    """What PyTorch's diff of two DDP reports prints: seconds, examples and the change, at two percentiles."""
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
        yield "no round of the one report can be compared with the same round of the other"
