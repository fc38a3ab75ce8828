"""A comparison as JUnit XML: one test a row."""

from __future__ import annotations

from collections.abc import Iterator

from torchstone.core.vocabulary import Verdict
from torchstone.gate.compared import ComparedRow
from torchstone.reporting.dialects.check_junit import xml_attribute, xml_text
from torchstone.reporting.views.comparison_rows import (
    CompareReport,
    describe_certainty,
    describe_finding,
    describe_method,
    label,
    repro_command,
)

_ERRORS = frozenset({Verdict.INVALID, Verdict.MISSING, Verdict.INCONCLUSIVE})
_SKIPPED = frozenset({Verdict.INCONCLUSIVE, Verdict.NEW})


def render_compare_junit(report: CompareReport) -> str:
    """One test suite. A red row is a failure, or an error where there was nothing to compare; what could not be decided is skipped, with the reason."""
    rows = report.ordered
    errors = sum(row.blocks and row.verdict in _ERRORS for row in rows)
    failures = sum(row.blocks for row in rows) - errors
    skipped = sum(not row.blocks and row.verdict in _SKIPPED for row in rows)
    counts = f'tests="{len(rows)}" failures="{failures}" errors="{errors}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="torchstone" {counts} time="0">',
        f'  <testsuite name="torchstone compare" {counts} skipped="{skipped}" time="0">',
    ]
    for row in rows:
        lines += _testcase(report, row)
    notes = [report.headline, report.environment, *(caution.text for caution in report.compared.cautions)]
    lines.append(f"    <system-out>{xml_text(chr(10).join(note for note in notes if note))}</system-out>")
    lines += ["  </testsuite>", "</testsuites>"]
    return "\n".join(lines) + "\n"


def _testcase(report: CompareReport, row: ComparedRow) -> Iterator[str]:
    name = xml_attribute(f"{row.case.id} {row.metric}")
    head = f'    <testcase classname={xml_attribute(f"torchstone.{row.case.probe}")} name={name} time="0"'
    finding = xml_attribute(describe_finding(row, report.confidence))
    if row.blocks:
        kind = "error" if row.verdict in _ERRORS else "failure"
        yield f"{head}>"
        yield f'      <{kind} type="{label(row.verdict)}" message={finding}>{xml_text(_body(report, row))}</{kind}>'
        yield "    </testcase>"
    elif row.verdict in _SKIPPED:
        yield f"{head}><skipped message={finding}/></testcase>"
    else:
        yield f"{head}/>"


def _body(report: CompareReport, row: ComparedRow) -> str:
    parts = [
        f"method: {describe_method(row.comparison)}" if row.comparison else "",
        describe_certainty(row, report.compared.alpha),
        f"at: {row.new_place or 'no result'}",
        f"base: {row.base_place}" if row.base_place else "",
        f"reproduce: {repro_command(row, report)}",
    ]
    return "\n".join(part for part in parts if part)
