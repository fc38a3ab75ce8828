"""Render a report as JUnit XML, one test per row, as Jenkins, GitLab and GitHub's test reporters read it."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from torchstone.core.text.safe_text import escape_lines
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import Row
from torchstone.reporting.views.report_view import ReportView, quarantine_reason

_ERRORS = frozenset({Verdict.INVALID, Verdict.MISSING, Verdict.INCONCLUSIVE})
_UNDECIDED = frozenset({Verdict.INCONCLUSIVE, Verdict.NEW})


def render_junit(report: ReportView) -> str:
    """Render one test suite.

    A red row is a failure, or an error if it could not be judged. A quarantined row is skipped, and in a
    comparison also one that could not be decided.
    """
    judgement, rows = report.judgement, report.ordered
    errors = sum(row.blocks and row.verdict in _ERRORS for row in rows)
    failures = sum(row.blocks for row in rows) - errors + len(judgement.expired)
    skipped = sum(_is_skipped(report, row) for row in rows)
    counts = f'tests="{len(rows) + len(judgement.expired)}" failures="{failures}" errors="{errors}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="torchstone" {counts} time="0">',
        f'  <testsuite name="torchstone {report.command}" {counts} skipped="{skipped}" time="0">',
    ]
    for row in rows:
        lines += _testcase(report, row)
    for entry in judgement.expired:
        message = xml_attribute(f"the quarantine ended {entry.expires} ({entry.place})")
        name = xml_attribute(entry.case)
        lines += [
            f'    <testcase classname="torchstone.gate.quarantine_file" name={name} time="0">',
            f'      <failure type="expired" message={message}/>',
            "    </testcase>",
        ]
    notes = [report.headline, report.environment, *map(str, judgement.cautions)]
    lines.append(f"    <system-out>{xml_text(chr(10).join(filter(None, notes)))}</system-out>")
    lines += ["  </testsuite>", "</testsuites>"]
    return "\n".join(lines) + "\n"


def _is_skipped(report: ReportView, row: Row) -> bool:
    compares = report.judgement.overview is not None
    skipped = row.verdict is Verdict.QUARANTINED or (compares and row.verdict in _UNDECIDED)
    return skipped and not row.blocks


def _testcase(report: ReportView, row: Row) -> Iterator[str]:
    name = xml_attribute(f"{row.case.id} {row.metric}")
    head = f'    <testcase classname={xml_attribute(f"torchstone.{row.case.probe}")} name={name} time="0"'
    if row.blocks:
        words = report.row_text(row)
        kind = "error" if row.verdict in _ERRORS else "failure"
        body = "\n".join(f"{label}: {text}" for label, text in (*words.facts, *words.next_steps))
        message = xml_attribute(words.finding)
        yield f'{head}>\n      <{kind} type="{row.verdict}" message={message}>{xml_text(body)}</{kind}>'
        yield "    </testcase>"
    elif _is_skipped(report, row):
        text = report.finding_of(row)
        if row.verdict is Verdict.QUARANTINED:
            text = f"quarantined: {text} [{quarantine_reason(row)}]"
        yield f"{head}>\n      <skipped message={xml_attribute(text)}/>\n    </testcase>"
    else:
        yield f"{head}/>"


def xml_attribute(text: str) -> str:
    """Quote text as an attribute; characters that XML cannot hold, or that are invisible, are escaped."""
    return quoteattr(escape_lines(text))


def xml_text(text: str) -> str:
    """Escape text between tags."""
    return escape(escape_lines(text))
