"""Print the result of ``torchstone ab``, and write its reports."""

from __future__ import annotations

from torchstone.api.measuring.ab_result import AbResult
from torchstone.cli.terminal.ab_display import AbDisplay, print_result
from torchstone.cli.terminal.show import Shown, print_report, write_reports
from torchstone.cli.terminal.tables import print_wrapped
from torchstone.core.errors import printable
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import Judgement, State
from torchstone.reporting.dialects.styles import HTML
from torchstone.reporting.views.report_view import exit_text


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


def say_exit_code(result: AbResult, display: AbDisplay) -> None:
    """Explain the exit code of a judgement that is no pass; other commands do so in their headline."""
    judgement = result.judgement
    if judgement.state is State.PASS or result.exit_code != judgement.exit_code:
        return  # a file that was lost, or a comparison without any measurement, is explained where it happens
    blocking = [row for row in judgement.rows if row.blocks]
    if blocking and all(row.verdict in {Verdict.MISSING, Verdict.NEW} for row in blocking):
        blocked = f"blocks {count_of(len(blocking), 'case')} that only one side has"
        text = f"{judgement.policy.title} {blocked}: exit code {judgement.exit_code}"
    elif judgement.state is State.UNDECIDED:
        text = f"{exit_text(judgement)}; a larger --budget or --margin may decide them"
    else:
        text = exit_text(judgement)
    print_wrapped(text, display.stream)
