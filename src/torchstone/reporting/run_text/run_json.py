"""A run, or some of its cases, as one JSON object for programs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.core.cautions import Caution
from torchstone.core.records import Reading
from torchstone.core.text.safe_text import escape_json
from torchstone.reporting.run_text.case_view import CaseView

FORMAT = 1


def render_run_json(reading: Reading, views: Sequence[CaseView]) -> str:
    """Render the cases, as documented in docs/formats.md."""
    run = reading.run
    document = {
        "format": FORMAT,
        "file": reading.path,
        "kind": reading.kind,
        "run": run.id,
        "finished": run.finished,
        "revision": msgspec.to_builtins(run.revision),
        "planned": len(run.plan),
        "measured": len(run.outcomes),
        "cautions": [_caution(caution) for caution in reading.cautions],
        "cases": [_case(view) for view in views],
    }
    return escape_json(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()) + "\n"


def _case(view: CaseView) -> dict[str, object]:
    case, failure = view.case, view.failure
    return {
        "case": case.id,
        "suite": case.suite,
        "benchmark": case.benchmark,
        "probe": case.probe,
        "axes": case.variant.axes(),
        "status": view.status,
        "line": view.place.line,
        "seconds": view.duration,
        "metrics": msgspec.to_builtins(view.metrics),
        "left_out": dict(view.left_out),
        "device": view.device,
        "torch_settings": view.settings,
        "cautions": [_caution(caution) for caution in view.cautions],
        "graph_breaks": msgspec.to_builtins(view.graph_breaks),
        "recompile_reasons": view.recompile_reasons,
        "failure": {"phase": failure.phase, "message": failure.message, "traceback": failure.traceback}
        if failure
        else None,
        "log": view.log,
        "repro": view.repro,
    }


def _caution(caution: Caution) -> dict[str, object]:
    return {"kind": caution.kind.value, "text": caution.statement, "advice": caution.advice}
