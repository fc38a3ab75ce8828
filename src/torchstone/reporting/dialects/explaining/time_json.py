"""Render where the time of a call went as JSON, for programs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.analyze.call_time.time_comparison import TimePair
from torchstone.core.text.safe_text import escape_json
from torchstone.reporting.views.explaining.time_view import TimeExplanation

FORMAT = 1
KIND = "time"


def render_time_json(explanations: Sequence[TimeExplanation], notes: Sequence[str] = ()) -> str:
    """Render all cases with everything that is known of them."""
    document = {
        "format": FORMAT,
        "explains": KIND,
        "files": explanations[0].files,
        "environment_differences": explanations[0].differences,
        "notes": notes,
        "cases": [_case_record(each) for each in explanations],
    }
    return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _case_record(each: TimeExplanation) -> dict[str, object]:
    found = each.comparison
    return {
        "name": each.case.benchmark,
        "case": each.case.id,
        "device": each.device,
        "sides": each.names,
        "unit": "ms",
        "what": each.what,
        "total": _pair_record(found.busy),
        "wall": _pair_record(found.wall, counted=False),
        "families": [
            {"family": row.family, "dtype": row.dtype} | _pair_record(row) for row in found.families
        ],
        "kernels": [
            {
                "name": row.name,
                "family": row.family,
                "dtype": row.dtype,
                "operator": row.operator,
                "places": row.places,
                "state": row.state,
            }
            | _pair_record(row)
            for row in found.kernels
        ],
        "places": [
            {"module": row.module, "place": row.place, "source": row.source} | _pair_record(row)
            for row in found.places
        ],
        "hints": [
            {
                "kind": shown.hint.kind,
                "text": shown.text,
                "count": shown.hint.count,
                "share": shown.hint.share,
                "names": shown.hint.names,
                "held_before": shown.held_before,
            }
            for shown in each.hints
        ],
        "notes": each.notes,
    }


def _pair_record(pair: TimePair, *, counted: bool = True) -> dict[str, object]:
    times: dict[str, object] = {"base": pair.base, "new": pair.new, "change": round(pair.change, 6)}
    return {**times, "base_count": pair.base_count, "new_count": pair.new_count} if counted else times
