"""Render a report as one JSON object, for programs."""

from __future__ import annotations

import math

import msgspec

from torchstone.analyze.evidence import Comparison, Evidence
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.text.safe_text import escape_json
from torchstone.gate.blocking_policy import upstream_label
from torchstone.gate.judgement import QUIET, Judgement, Overview, Release, Row
from torchstone.reporting.views.report_view import ReportView, describe_method

FORMAT = 1


def render_json(report: ReportView) -> str:
    """Render the whole report with all rows, as documented in docs/formats.md and docs/compare.md."""
    judgement, overview = report.judgement, report.judgement.overview
    upstream = judgement.policy.upstream_version
    document: dict[str, object] = {
        "format": FORMAT,
        "policy": judgement.policy.name,
        **({"upstream_version": upstream} if upstream else {}),
        "exit_code": judgement.exit_code,
        "headline": report.headline,
        **(_overview_before(overview) if overview else {}),
        "summary": report.summary,
        "without_evidence": judgement.points,
        **(_overview_after(overview, judgement) if overview else {}),
        "rows": [_row(row, report) for row in report.ordered],
    }
    if overview is None:
        document["ignored"] = [_row(row, report) for row in judgement.ignored]
    if overview is None or report.command == "ab":
        document["expired_quarantine"] = [_entry(entry) for entry in judgement.expired]
        document["could_be_released"] = [_release(release) for release in judgement.releases]
    document["cautions"] = [caution.text for caution in judgement.cautions]
    if judgement.rounds:
        document["header_keys"] = judgement.rounds.header_keys
        document["ddp_rows"] = msgspec.to_builtins(judgement.rounds.rows)
    return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _overview_before(overview: Overview) -> dict[str, object]:
    return {
        "environment": overview.environment,
        "alpha": overview.alpha,
        "common_cases": overview.matched,
    }


def _overview_after(overview: Overview, judgement: Judgement) -> dict[str, object]:
    rate = overview.pass_rate
    return {
        "geometric_means": [
            {
                "metric": each.metric,
                "better": each.better,
                **msgspec.to_builtins(each.mean),
                "left_out": each.left_out,
            }
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
    }


def _row(row: Row, report: ReportView) -> dict[str, object]:
    record: dict[str, object] = {
        "name": row.case.benchmark,
        "case": row.case.id,
        "metric": row.metric,
        "verdict": row.verdict.value,
        "blocks": row.blocks,
    }
    record |= _of_comparison(row, report) if report.judgement.overview else _of_check(row, report)
    if row.remarks.quarantine:
        record["quarantine"] = _entry(row.remarks.quarantine)
    return record


def _of_check(row: Row, report: ReportView) -> dict[str, object]:
    """Return the fields of a row that was judged by a baseline."""
    record: dict[str, object] = {
        "actual": row.new_value,
        "expected": row.expected_value,
        "rule": row.rule.kind if row.rule else None,
    }
    if row.comparison is not None and row.comparison.p_value is not None:
        record |= _effect(row, row.comparison)
    if report.judgement.policy.is_upstream:
        record["label"] = upstream_label(row.verdict, row.metric, row.new)
    if row.verdict not in QUIET or row.blocks:
        words = report.row_text(row)
        record |= {
            "detail": words.finding,
            "rule_text": words.fact("rule"),
            "place": str(row.remarks.new_place) or None,
            "expected_place": str(row.remarks.base_place) or None,
            "reproduce": words.repro,
            "accept": words.accept or None,
            "instead": words.instead or None,
        }
    return record


def _of_comparison(row: Row, report: ReportView) -> dict[str, object]:
    """Return the fields of a row that compares two sides."""
    record: dict[str, object] = {"base": row.base_value, "new": row.new_value}
    if row.comparison is not None:
        record |= _effect(row, row.comparison)
    places = {"base_place": row.remarks.base_place, "new_place": row.remarks.new_place}
    record |= {name: str(place) or None for name, place in places.items()}
    if row.verdict.value != "same":
        words = report.row_text(row)
        record |= {"detail": words.finding, "reason": row.detail or None, "reproduce": words.repro}
    return record


def _effect(row: Row, found: Comparison) -> dict[str, object]:
    """Return effect, interval and significance; an unbounded end is null."""
    has_interval = bool(found.method)
    criteria = row.criteria
    return {
        "ratio": row.ratio,
        "low": found.low if has_interval and (found.low or math.isfinite(found.high)) else None,
        "high": found.high if has_interval and math.isfinite(found.high) else None,
        "better": (criteria.better or None) if criteria else None,
        "method": found.method or None,
        "method_text": describe_method(found),
        "base_side": _side(found.base),
        "new_side": _side(found.new),
        "p_value": found.p_value,
        "adjusted_p_value": row.adjusted,
        "significant": row.ruling.is_significant,
        "margin": criteria.margin if criteria else None,
        "relevance": row.ruling.relevance or None,
        "more_trials": row.more,
    }


def _side(side: Evidence) -> dict[str, object]:
    return {"trials": len(side.values), "samples": side.samples, "trial_values": side.values}


def _entry(entry: QuarantineEntry) -> dict[str, object]:
    stated = {
        "case": entry.case,
        "reason": entry.reason,
        "place": entry.place,
        "link": entry.link,
        "owner": entry.owner,
    }
    dates = {"since": entry.since, "expires": entry.expires}
    return {
        **{key: value for key, value in stated.items() if value},
        **{key: day.isoformat() for key, day in dates.items() if day},
    }


def _release(release: Release) -> dict[str, object]:
    return {
        "name": release.case.benchmark,
        "passed": release.passed,
        "seen": release.seen,
        "entry": _entry(release.entry),
    }
