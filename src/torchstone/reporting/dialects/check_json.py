"""The report as one JSON object, for programs."""

from __future__ import annotations

import msgspec

from torchstone.core.records import QuarantineEntry
from torchstone.core.run_settings import JsonObject
from torchstone.core.text.safe_text import escape_json
from torchstone.gate.policy import upstream_label
from torchstone.gate.verdicts import QUIET, Release, Row
from torchstone.reporting.views.check_rows import Context, Report, describe

FORMAT = 1


def render_json(report: Report) -> str:
    """Everything, with all rows; what a row has is in docs/formats.md."""
    judgement = report.judgement
    upstream = judgement.policy.is_upstream
    document: JsonObject = {
        "format": FORMAT,
        "policy": judgement.policy.name,
        **({"upstream_version": judgement.policy.upstream_version} if upstream else {}),
        "exit_code": judgement.exit_code,
        "headline": report.headline,
        "summary": report.summary,
        "rows": [_row(row, report.context, upstream) for row in judgement.rows],
        "ignored": [_row(row, report.context, upstream) for row in judgement.ignored],
        "expired_quarantine": [_entry(entry) for entry in judgement.expired],
        "could_be_released": [_release(release) for release in judgement.releases],
        "cautions": [caution.text for caution in judgement.cautions],
    }
    if report.scaling:
        document["header_keys"] = report.scaling.header_keys
        document["ddp_rows"] = msgspec.to_builtins(report.scaling.rows)
    return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _row(row: Row, context: Context, upstream: bool) -> JsonObject:
    record: JsonObject = {
        "name": row.case.benchmark,
        "case": row.case.id,
        "metric": row.metric,
        "verdict": row.verdict.value,
        "blocks": row.blocks,
        "actual": row.actual_value,
        "expected": row.expected_value,
        "rule": row.rule.kind if row.rule else None,
    }
    if upstream:
        record["label"] = upstream_label(row.verdict, row.metric, row.actual)
    if row.verdict not in QUIET or row.blocks:
        words = describe(row, context)
        record |= {
            "detail": words.finding,
            "rule_text": words.rule,
            "place": str(row.remarks.place) or None,
            "expected_place": str(row.remarks.expected_place) or None,
            "reproduce": words.repro,
            "accept": words.accept or None,
            "instead": words.instead or None,
        }
    if row.remarks.quarantine:
        record["quarantine"] = _entry(row.remarks.quarantine)
    return record


def _entry(entry: QuarantineEntry) -> JsonObject:
    stated = {
        "case": entry.case,
        "reason": entry.reason,
        "place": entry.place,
        "link": entry.link,
        "owner": entry.owner,
    }
    dates = {"since": entry.since, "expires": entry.expires}
    return {key: value for key, value in stated.items() if value} | {
        k: d.isoformat() for k, d in dates.items() if d
    }


def _release(release: Release) -> JsonObject:
    return {
        "name": release.case.benchmark,
        "passed": release.passed,
        "seen": release.seen,
        "entry": _entry(release.entry),
    }
