"""The report as GitHub workflow commands: annotations on the baseline's own lines, worst first.

GitHub shows at most ten of each level a step, so the first one is the summary.
"""

from __future__ import annotations

from torchstone.core.text.safe_text import escape_commands, escape_line, escape_lines
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import QUIET, Row
from torchstone.reporting.dialects.check_text import ALL_RED, MOST_RED
from torchstone.reporting.views.check_rows import Report, describe, describe_finding, short_name


def render_github(report: Report) -> str:
    """One command a line."""
    judgement = report.judgement
    summary = "   ".join(f"{name} {number}" for name, number in report.summary.items())
    lines = [
        annotation(
            "error" if judgement.exit_code else "notice", f"{report.headline}\n{summary}", title="torchstone"
        )
    ]
    red = judgement.red
    lines += [_red(report, row) for row in red[:MOST_RED]]
    if (left := len(red) - MOST_RED) > 0:
        lines.append(annotation("error", f"{left:,} more red rows; {ALL_RED}", title="torchstone"))
    for entry in judgement.expired:
        text = f"the quarantine of {entry.case} ended {entry.expires}: fix the case, or give the entry a new date"
        lines.append(
            annotation("error", text, title="expired quarantine", file=entry.path, line=str(entry.line))
        )
    lines += [annotation("warning", caution.text, title="torchstone") for caution in judgement.cautions]
    for verdict in [verdict for verdict in Verdict if verdict not in QUIET]:
        level = "notice" if verdict is Verdict.IMPROVEMENT else "warning"
        rows = report.of_verdict(verdict)
        for row in rows[:MOST_RED]:
            title = f"{verdict}: {short_name(row.case)}"
            lines.append(annotation(level, describe_finding(row), title=title, **_location(row)))
        if (left := len(rows) - MOST_RED) > 0:
            lines.append(annotation(level, f"{left:,} more rows: {verdict}; {ALL_RED}", title="torchstone"))
    for release in judgement.releases[:MOST_RED]:
        text = f"passed in {release.passed} of {release.seen}: could be released"
        entry = release.entry
        location = {"file": entry.path, "line": str(entry.line)} if entry.line else {}
        lines.append(annotation("notice", text, title=f"quarantine of {release.case.name}", **location))
    return "\n".join(lines) + "\n"


def _red(report: Report, row: Row) -> str:
    words = describe(row, report.context)
    text = f"{words.finding}\nrule: {words.rule}\nat: {words.places}\nreproduce: {words.repro}"
    if words.accept:
        text += f"\naccept: {words.accept}"
    if words.instead:
        text += f"\nnext step: {words.instead}"
    return annotation("error", text, title=f"{row.verdict}: {short_name(row.case)}", **_location(row))


def _location(row: Row) -> dict[str, str]:
    """The baseline's line, for it is in the repository; the result's where there is none."""
    place = row.remarks.expected_place or row.remarks.place
    return {"file": place.path, "line": str(place.line)} if place.line else {}


def annotation(level: str, message: str, **properties: str) -> str:
    """One line that GitHub shows beside the code."""
    stated = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {stated}::{_data(escape_commands(escape_lines(message)))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(escape_commands(escape_line(text))).replace(":", "%3A").replace(",", "%2C")
