"""A comparison as one JSON object, for programs."""

from __future__ import annotations

import math

import msgspec

from torchstone.analyze.two_samples import Side
from torchstone.core.run_settings import JsonObject
from torchstone.core.text.safe_text import escape_json
from torchstone.core.vocabulary import Verdict
from torchstone.gate.compared import ComparedRow
from torchstone.reporting.views.comparison_rows import (
    CompareReport,
    describe_finding,
    describe_method,
    label,
    repro_command,
)

FORMAT = 1


def render_compare_json(report: CompareReport) -> str:
    """Everything, with all rows; what a row has is in docs/compare.md. A limit that is not there is null."""
    compared, rate = report.compared, report.compared.pass_rate
    document: JsonObject = {
        "format": FORMAT,
        "policy": compared.policy.name,
        "exit_code": compared.exit_code,
        "headline": report.headline,
        "environment": compared.environment,
        "alpha": compared.alpha,
        "common_cases": compared.matched,
        "summary": report.summary,
        "geometric_means": [
            {"metric": each.metric, "better": each.better, **msgspec.to_builtins(each.mean)}
            for each in compared.means
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
            for row in compared.status_changes
        ],
        "rows": [_row(row, report) for row in report.ordered],
        "cautions": [caution.text for caution in compared.cautions],
    }
    if compared.ddp is not None:
        document["header_keys"] = compared.header_keys
        document["ddp_rows"] = msgspec.to_builtins(compared.ddp)
    return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _row(row: ComparedRow, report: CompareReport) -> JsonObject:
    record: JsonObject = {
        "name": row.case.benchmark,
        "case": row.case.id,
        "metric": row.metric,
        "verdict": label(row.verdict),
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
            "better": row.better or None,
            "method": found.method or None,
            "method_text": describe_method(found),
            "base_side": _side(found.base),
            "new_side": _side(found.new),
            "p_value": found.p_value,
            "adjusted_p_value": row.adjusted,
            "significant": row.is_significant,
            "margin": row.margin,
            "relevance": row.relevance or None,
            "more_trials": row.more,
        }
    record |= {"base_place": str(row.base_place) or None, "new_place": str(row.new_place) or None}
    if row.verdict is not Verdict.PASS:
        record |= {
            "detail": describe_finding(row, report.confidence),
            "reason": row.detail or None,
            "reproduce": repro_command(row, report),
        }
    return record


def _side(side: Side) -> JsonObject:
    return {"trials": len(side.values), "samples": side.samples, "trial_values": side.values}
