"""The report as plain text for a terminal of 80 columns, colored if asked."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from torchstone.errors import printable
from torchstone.gate.verdicts import Row, severity
from torchstone.model import QuarantineEntry
from torchstone.report.rows import Report, ScalingTable, describe, describe_finding, short_name
from torchstone.units import count_of
from torchstone.vocabulary import Verdict

WIDTH = 80
MOST_OTHERS = 20

_SHELL_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*")+""", re.DOTALL)
_COLORS = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "bold": "1", "dim": "2"}
_VERDICT_COLORS = {
    Verdict.IMPROVEMENT: "green",
    Verdict.PASS: "green",
    Verdict.QUARANTINED: "yellow",
    Verdict.NEW: "blue",
}


def render_text(report: Report, *, color: bool = False) -> str:
    """The report: how it stands, then every red row with what to do about it, then what else is worth a look."""
    paint = _Paint(color)
    judgement = report.judgement
    lines = [paint(report.headline, "bold", "red" if judgement.exit_code else "green"), ""]
    lines += _summary_lines(report, paint)
    for row in judgement.red:
        lines += ["", *_red_block(report, row, paint)]
    for entry in judgement.expired:
        lines += ["", *_expired_block(entry, paint)]
    lines += _others(report, paint)
    for caution in judgement.cautions:
        lines += textwrap.wrap(
            f"caution: {caution}", WIDTH, subsequent_indent=" " * 9, break_long_words=False
        )
    if report.scaling:
        lines += ["", *_scaling_lines(report.scaling)]
    if len(judgement.red) > 3:
        lines += ["", paint(report.headline, "bold", "red")]
    return "\n".join(lines) + "\n"


class _Paint:
    """Puts color around text, or not."""

    def __init__(self, color: bool) -> None:
        self._color = color

    def __call__(self, text: str, *names: str) -> str:
        if not self._color:
            return text
        return f"\x1b[{';'.join(_COLORS[name] for name in names)}m{text}\x1b[0m"


def _summary_lines(report: Report, paint: _Paint) -> Iterator[str]:
    """The counts, on as many lines as they need."""
    room, line = WIDTH, ""
    for name, number in report.summary.items():
        width = len(f"  {name} {number:,}")
        if width > room:
            yield line
            room, line = WIDTH, ""
        line += f"  {name} {paint(f'{number:,}', 'bold')}"
        room -= width
    yield line


def _red_block(report: Report, row: Row, paint: _Paint) -> Iterator[str]:
    words = describe(row, report.context)
    yield f"{paint(f'{row.verdict:<12}', 'red')} {paint(printable(short_name(row)), 'bold')}"
    yield from textwrap.wrap(words.finding, WIDTH, initial_indent=" " * 13, subsequent_indent=" " * 15)
    yield from _fields({"case": printable(row.case.id, 400), "rule": words.rule, "at": words.places})
    for name, command in (("reproduce", words.repro), ("accept", words.accept)):
        if command:
            yield from wrap_command(command, f"  {paint(f'{name:<10}', 'dim')} ", 13)


def _expired_block(entry: QuarantineEntry, paint: _Paint) -> Iterator[str]:
    yield f"{paint('expired     ', 'red')} quarantine of {printable(entry.case)}: ended {entry.expires}"
    yield from _fields(
        {"at": entry.place, "reason": entry.reason, "what now": "mend the case, or give a new date"}
    )


def _fields(fields: dict[str, str]) -> Iterator[str]:
    for name, value in fields.items():
        if value:
            yield from textwrap.wrap(
                value,
                WIDTH,
                initial_indent=f"  {name:<10} ",
                subsequent_indent=" " * 13,
                break_long_words=False,
                break_on_hyphens=False,
            )


def wrap_command(command: str, first: str, indent: int) -> list[str]:
    """A command over several lines that can be pasted into a shell as they stand: broken between words, never inside quotes."""
    lines, line, used = [], first, indent
    for word in _SHELL_WORD.findall(command):
        if used > indent and used + 1 + len(word) > WIDTH - 2:
            lines.append(f"{line} \\")
            line, used = " " * (indent + 2) + word, indent + 2 + len(word)
        else:
            space = " " if used > indent else ""
            line, used = f"{line}{space}{word}", used + len(space) + len(word)
    return [*lines, line]


def _others(report: Report, paint: _Paint) -> list[str]:
    """What does not block, but is worth a look."""
    lines: list[str] = []
    for verdict in (
        Verdict.IMPROVEMENT,
        Verdict.QUARANTINED,
        Verdict.NEW,
        Verdict.MISSING,
        Verdict.REGRESSION,
        Verdict.INCONCLUSIVE,
    ):
        lines += _other_rows(verdict, sorted(report.of_verdict(verdict), key=severity), paint)
    for release in report.judgement.releases[:MOST_OTHERS]:
        how = f"passed in {release.passed} of {count_of(release.seen, 'result')} given"
        text = f"could be released: {printable(release.case.name)} {how} ({release.entry.place})"
        lines += textwrap.wrap(
            text, WIDTH, subsequent_indent=" " * 15, break_long_words=False, break_on_hyphens=False
        )
    return ["", *lines] if lines else []


def _other_rows(verdict: Verdict, rows: Sequence[Row], paint: _Paint) -> Iterator[str]:
    for row in rows[:MOST_OTHERS]:
        reason = (
            f" [{row.remarks.quarantine.reason}]"
            if row.remarks.quarantine and verdict is Verdict.QUARANTINED
            else ""
        )
        text = f"{printable(short_name(row))}  {describe_finding(row)}{reason}"
        wrapped = textwrap.wrap(text, WIDTH - 13, break_long_words=False, break_on_hyphens=False)
        yield f"{paint(f'{verdict:<12}', _VERDICT_COLORS.get(verdict, 'yellow'))} {wrapped[0]}"
        yield from (" " * 15 + line for line in wrapped[1:])
    if len(rows) > MOST_OTHERS:
        yield f"{'':<12} ... and {len(rows) - MOST_OTHERS:,} more ({verdict}); --format json has them all"


def _scaling_lines(table: ScalingTable) -> Iterator[str]:
    yield f"{'':<16}{'':>6}{'':>6}   {'75th percentile':^23}   {'95th percentile':^23}".rstrip()
    yield f"{'model':<16}{'batch':>6}{'ranks':>6}{'s/iter':>9}{'ex/s':>7}{'faster':>10}{'s/iter':>9}{'ex/s':>7}{'faster':>10}"
    for row in table.rows:
        cells = "".join(
            f"{at['sec_per_iter']:>9.3f}{at['ex_per_sec']:>7}{at['change_pct']:>9.1f}%"
            for at in row.percentiles.values()
        )
        yield f"{printable(row.model, 16):<16}{row.batch_size:>6}{row.ranks:>6}{cells}"
