"""Print the result of ``torchstone ab``, and write its reports."""

from __future__ import annotations

from torchstone.api.measuring.ab_result import HTML, AbResult
from torchstone.cli.terminal.ab_display import AbDisplay, print_result
from torchstone.cli.terminal.show import Shown, print_report, write_reports
from torchstone.core.errors import printable
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import Judgement


def show_result(result: AbResult, display: AbDisplay, shown: Shown) -> None:
    """Print the result, and write the requested reports."""
    style, reports = shown.style or "text", shown.reports
    if shown.output:
        reports = (*reports, (shown.style or HTML, shown.output))
        style = "text"
    if style == "text":
        print_result(result)
        for caution in result.cautions:
            print(f"caution: {caution}")
        _say_quarantine(result.judgement)
    else:
        print_report(result.render(style), style)
    print(f"wrote {' and '.join(map(printable, result.paths))}", file=display.stream)
    write_reports(result.render, reports)
    for _, path in reports:
        print(f"wrote {printable(path)}", file=display.stream)


def _say_quarantine(judgement: Judgement) -> None:
    for entry in judgement.expired:
        print(
            f"expired: the quarantine of {printable(entry.case)} ended on {entry.expires} ({printable(entry.place)})"
        )
    for release in judgement.releases:
        print(
            f"could be released from quarantine: {printable(release.case.name)} ({printable(release.entry.place)})"
        )


def say_exit_code(result: AbResult, display: AbDisplay, *, strict: bool) -> None:
    """Explain an exit code that could surprise."""
    if not any(case.could_measure for case in result.cases):
        return
    rows = result.judgement.rows
    verdicts = {row.verdict for row in rows}
    if Verdict.REGRESSION not in verdicts and Verdict.INCONCLUSIVE in verdicts:
        print(
            "inconclusive cases do not block unless --strict is given; a larger --budget or --margin may decide them",
            file=display.stream,
        )
    lost = sum(row.verdict is Verdict.MISSING and row.blocks for row in rows)
    if strict and lost and not any(row.blocks and row.verdict is not Verdict.MISSING for row in rows):
        print(
            f"with --strict, {count_of(lost, 'case')} that only A has {'blocks' if lost == 1 else 'block'}",
            file=display.stream,
        )
