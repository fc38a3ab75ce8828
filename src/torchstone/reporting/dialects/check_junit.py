"""The report as JUnit XML, in the dialect that Jenkins, GitLab and GitHub's test reporters share: one test a row."""

from __future__ import annotations

from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from torchstone.core.text.safe_text import escape_lines
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Row
from torchstone.reporting.views.check_rows import Report, describe, describe_finding

_ERRORS = frozenset({Verdict.INVALID, Verdict.MISSING, Verdict.INCONCLUSIVE})


def render_junit(report: Report) -> str:
    """One test suite. A red row is a failure, or an error where there was nothing to judge; a quarantined one is skipped."""
    judgement = report.judgement
    rows = judgement.rows
    errors = sum(row.blocks and row.verdict in _ERRORS for row in rows)
    failures = sum(row.blocks for row in rows) - errors + len(judgement.expired)
    skipped = sum(row.verdict is Verdict.QUARANTINED and not row.blocks for row in rows)
    counts = f'tests="{len(rows) + len(judgement.expired)}" failures="{failures}" errors="{errors}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="torchstone" {counts} time="0">',
        f'  <testsuite name="torchstone check" {counts} skipped="{skipped}" time="0">',
    ]
    for row in rows:
        lines += _testcase(report, row)
    for entry in judgement.expired:
        lines.append(
            f'    <testcase classname="torchstone.gate.quarantine" name={xml_attribute(entry.case)} time="0">'
        )
        lines.append(
            f'      <failure type="expired" message={xml_attribute(f"the quarantine ended {entry.expires} ({entry.place})")}/>'
        )
        lines.append("    </testcase>")
    if notes := "\n".join([report.headline, *(caution.text for caution in judgement.cautions)]):
        lines.append(f"    <system-out>{xml_text(notes)}</system-out>")
    lines += ["  </testsuite>", "</testsuites>"]
    return "\n".join(lines) + "\n"


def _testcase(report: Report, row: Row) -> Iterator[str]:
    head = f'    <testcase classname={xml_attribute(f"torchstone.{row.case.probe}")} name={xml_attribute(f"{row.case.id} {row.metric}")} time="0"'
    if not row.blocks and row.verdict is not Verdict.QUARANTINED:
        yield f"{head}/>"
        return
    yield f"{head}>"
    if row.verdict is Verdict.QUARANTINED and not row.blocks:
        reason = row.remarks.quarantine.reason if row.remarks.quarantine else ""
        yield f"      <skipped message={xml_attribute(f'quarantined: {describe_finding(row)} [{reason}]')}/>"
    else:
        words = describe(row, report.context)
        kind = "error" if row.verdict in _ERRORS else "failure"
        last = f"accept: {words.accept}" if words.accept else f"next step: {words.instead}"
        body = f"rule: {words.rule}\nat: {words.places}\nreproduce: {words.repro}\n{last}"
        yield f'      <{kind} type="{row.verdict}" message={xml_attribute(words.finding)}>{xml_text(body)}</{kind}>'
    yield "    </testcase>"


def xml_attribute(text: str) -> str:
    """A text in quotes, as an attribute; what XML has no way to write, or nobody would see, is spelled out."""
    return quoteattr(escape_lines(text))


def xml_text(text: str) -> str:
    """A text between tags."""
    return escape(escape_lines(text))
