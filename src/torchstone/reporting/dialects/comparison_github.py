"""A comparison as GitHub workflow commands: the summary, then what is red, then what else changed."""

from __future__ import annotations

from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Verdict
from torchstone.gate.compared import ComparedRow
from torchstone.reporting.dialects.check_github import annotation
from torchstone.reporting.dialects.check_text import ALL_RED, MOST_RED
from torchstone.reporting.views.comparison_rows import CompareReport, describe_finding, label, repro_command
from torchstone.reporting.views.names import Names

MOST_OF_ONE = 10  # GitHub shows no more of one level
_LEVELS = {Verdict.IMPROVEMENT: "notice", Verdict.NEW: "notice"}


def render_compare_github(report: CompareReport) -> str:
    """One command a line."""
    summary = "   ".join(f"{name} {number}" for name, number in report.summary.items())
    level = "error" if report.compared.exit_code else "notice"
    lines = [annotation(level, f"{report.headline}\n{summary}", title="torchstone")]
    if report.environment:
        lines.append(annotation("warning", report.environment, title="other environment"))
    names = report.names
    for row in report.red[:MOST_RED]:
        text = f"{describe_finding(row, report.confidence)}\nreproduce: {repro_command(row, report)}"
        lines.append(annotation("error", text, title=_title(row, names), **_location(row)))
    if (left := len(report.red) - MOST_RED) > 0:
        lines.append(annotation("error", f"{left:,} more red rows; {ALL_RED}", title="torchstone"))
    lines += [annotation("warning", caution.text, title="torchstone") for caution in report.compared.cautions]
    for verdict in [verdict for verdict in Verdict if verdict is not Verdict.PASS]:
        rows = report.of_verdict(verdict)
        for row in rows[:MOST_OF_ONE]:
            text = describe_finding(row, report.confidence)
            lines.append(
                annotation(_LEVELS.get(verdict, "warning"), text, title=_title(row, names), **_location(row))
            )
        if (left := len(rows) - MOST_OF_ONE) > 0:
            lines.append(
                annotation("notice", f"{count_of(left, 'more row')}: {label(verdict)}", title="torchstone")
            )
    return "\n".join(lines) + "\n"


def _title(row: ComparedRow, names: Names) -> str:
    return f"{label(row.verdict)}: {names.of(row.case)}"


def _location(row: ComparedRow) -> dict[str, str]:
    place = row.new_place or row.base_place
    return {"file": place.path, "line": str(place.line)} if place.line else {}
