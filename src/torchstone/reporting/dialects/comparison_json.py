"""A comparison as one JSON object, for programs."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from torchstone.analyze.evidence import Evidence
from torchstone.core.text.safe_text import escape_json
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Row
from torchstone.reporting.views.comparison_rows import (
    CompareReport,
    describe_finding,
    describe_method,
    repro_command,
)

FORMAT = 1


def render_compare_json(report: CompareReport) -> str:
    """Everything, with all rows; what a row has is in docs/compare.md. A limit that is not there is null."""
    judgement, overview, rate = report.judgement, report.overview, report.overview.pass_rate
    document: dict[str, Any] = {
        "format": FORMAT,
        "policy": judgement.policy.name,
        "exit_code": judgement.exit_code,
        "headline": report.headline,
        "environment": list(overview.environment),
        "alpha": overview.alpha,
        "common_cases": overview.matched,
        "summary": report.summary,
        "geometric_means": [
            {"metric": each.metric, "better": each.better, **msgspec.to_builtins(each.mean)}
            for each in overview.means
        ],
        "pass_rate": {
            "cases": rate.cases,
            "base": rate.base,
            "new": rate.new,
            "lost": [{"case": case.id, "status": status} for case, status in rate.lost],
            "gained": [{"case": case.id, "was": status} for case, status in rate.gained],
        },
        "status_changes": [
            {"case": row.case.id, "base": row.base_value, "new": row.new_value}
            for row in judgement.status_changes
        ],
        "rows": [_row(row, report) for row in report.ordered],
        "cautions": judgement.cautions,
    }
    if judgement.rounds is not None:
        document["header_keys"] = judgement.rounds.header_keys
        document["ddp_rows"] = msgspec.to_builtins(judgement.rounds.rows)
    return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _row(row: Row, report: CompareReport) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": row.case.benchmark,
        "case": row.case.id,
        "metric": row.metric,
        "verdict": row.verdict.value,
        "blocks": row.blocks,
        "base": row.base_value,
        "new": row.new_value,
    }
    found = row.comparison
    if found is not None:
        has_interval = bool(found.method)
        record |= {
            "ratio": row.ratio,
            "low": found.low if has_interval and (found.low or math.isfinite(found.high)) else None,
            "high": found.high if has_interval and math.isfinite(found.high) else None,
            "better": row.criteria.better or None if row.criteria else None,
            "method": found.method or None,
            "method_text": describe_method(found),
            "base_side": _side(found.base),
            "new_side": _side(found.new),
            "p_value": found.p_value,
            "adjusted_p_value": row.adjusted,
            "significant": row.ruling.is_significant,
            "margin": (row.criteria.margin if row.criteria else 0.0),
            "relevance": row.ruling.relevance or None,
            "more_trials": row.more,
        }
    record |= {"base_place": row.remarks.base_place or None, "new_place": row.remarks.new_place or None}
    if row.verdict is not Verdict.SAME:
        record |= {
            "detail": describe_finding(row, report.confidence),
            "reason": row.detail or None,
            "reproduce": repro_command(row, report),
        }
    return record


def _side(side: Evidence) -> dict[str, Any]:
    return {"trials": len(side.values), "samples": side.samples, "trial_values": side.values}
