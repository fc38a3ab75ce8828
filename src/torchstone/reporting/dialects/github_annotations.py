"""Render a report as GitHub workflow commands: annotations on the lines of red rows, worst first.

GitHub shows at most ten of each level per step, so the first one is the summary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchstone.core.text.safe_text import escape_commands, escape_line, escape_lines
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import QUIET, Row
from torchstone.reporting.dialects.text_report import ALL_RED
from torchstone.reporting.views.report_view import ReportView

MOST_ANNOTATIONS = 200
MOST_OF_ONE = 10  # per verdict of a comparison, in which many rows may change a little


def render_github(report: ReportView) -> str:
    """Render one command per line."""
    judgement = report.judgement
    summary = "   ".join(f"{name} {number}" for name, number in report.summary.items())
    level = "error" if judgement.exit_code else "notice"
    lines = [annotation(level, f"{report.headline}\n{summary}", title="torchstone")]
    if report.environment:
        lines.append(annotation("warning", report.environment, title="other environment"))
    red = report.red
    lines += [_red(report, row) for row in red[:MOST_ANNOTATIONS]]
    if (left := len(red) - MOST_ANNOTATIONS) > 0:
        lines.append(annotation("error", f"{left:,} more red rows; {ALL_RED}", title="torchstone"))
    for entry in judgement.expired:
        text = f"the quarantine of {entry.case} ended {entry.expires}: fix the case, or give the entry a new date"
        place = {"file": entry.path, "line": str(entry.line)}
        lines.append(annotation("error", text, title="expired quarantine", **place))
    lines += [annotation("warning", caution.text, title="torchstone") for caution in judgement.cautions]
    for verdict in Verdict:
        lines += _others(report, verdict, report.of_verdict(verdict))
    for release in judgement.releases[:MOST_ANNOTATIONS]:
        text = f"passed in {release.passed} of {release.seen}: could be released"
        entry = release.entry
        location = {"file": entry.path, "line": str(entry.line)} if entry.line else {}
        lines.append(annotation("notice", text, title=f"quarantine of {release.case.name}", **location))
    return "\n".join(lines) + "\n"


def _red(report: ReportView, row: Row) -> str:
    words = report.row_text(row)
    lines = (f"{label}: {text}" for label, text in (*words.facts, *words.next_steps))
    title = f"{row.verdict}: {report.name_of(row.case)}"
    return annotation("error", "\n".join([words.finding, *lines]), title=title, **_location(report, row))


def _others(report: ReportView, verdict: Verdict, rows: Sequence[Row]) -> Iterator[str]:
    """Yield annotations for rows that do not block; in a comparison also for failures on both sides."""
    compares = report.judgement.overview is not None
    if verdict is Verdict.SAME or (verdict in QUIET and not compares):
        return
    calm = {Verdict.IMPROVEMENT, Verdict.NEW} if compares else {Verdict.IMPROVEMENT}
    level = "notice" if verdict in calm else "warning"
    most = MOST_OF_ONE if compares else MOST_ANNOTATIONS
    for row in rows[:most]:
        title = f"{verdict}: {report.name_of(row.case)}"
        yield annotation(level, report.finding_of(row), title=title, **_location(report, row))
    if (left := len(rows) - most) > 0 and compares:
        yield annotation("notice", f"{count_of(left, 'more row')}: {verdict}", title="torchstone")
    elif left > 0:
        yield annotation(level, f"{left:,} more rows: {verdict}; {ALL_RED}", title="torchstone")


def _location(report: ReportView, row: Row) -> dict[str, str]:
    place = report.place_of(row)
    return {"file": place.path, "line": str(place.line)} if place.line else {}


def annotation(level: str, message: str, **properties: str) -> str:
    """Format one annotation that GitHub shows beside the code."""
    stated = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {stated}::{_data(escape_commands(escape_lines(message)))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(escape_commands(escape_line(text))).replace(":", "%3A").replace(",", "%2C")
