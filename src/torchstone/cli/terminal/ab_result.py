"""Print the result of ``torchstone ab``, and write its reports."""

from __future__ import annotations

from torchstone.api.measuring.ab_result import AbResult
from torchstone.cli.terminal.ab_display import AbDisplay, print_result
from torchstone.cli.terminal.show import Shown, print_report, write_reports
from torchstone.cli.terminal.tables import print_wrapped
from torchstone.core.errors import printable
from torchstone.gate.judgement import Judgement
from torchstone.reporting.dialects.styles import HTML


def show_result(result: AbResult, display: AbDisplay, shown: Shown) -> None:
    """Print the result, and write the requested reports."""
    style, reports = shown.style or "text", shown.reports
    if shown.output:
        reports = (*reports, (shown.style or HTML, shown.output))
        style = "text"
    if style == "text":
        print_result(result)
        for caution in result.cautions:
            print_wrapped(f"caution: {caution}")
        _say_quarantine(result.judgement)
    else:
        print_report(result.render(style), style)
    for path in result.paths:
        print(f"wrote {printable(path)}", file=display.stream)
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
