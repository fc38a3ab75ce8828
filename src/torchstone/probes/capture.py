"""What torch.compile says about its own work: capture statistics, compile seconds, graph breaks and recompiles with their reasons."""

from __future__ import annotations

import linecache
from collections import Counter
from dataclasses import dataclass
from typing import Any

from torch._dynamo import utils

MOST_REASONS = 50
LONGEST_REASON = 2_000
_COMPILE_TIMERS = ("entire_frame_compile", "_compile.compile_inner", "entire_backward_compile")


@dataclass(frozen=True)
class Capture:
    """What has been captured since the last reset."""

    counts: dict[str, int]
    seconds: float
    graph_breaks: list[dict[str, Any]]
    recompile_reasons: list[str]


def reset_capture() -> None:
    """Forget everything compiled and counted so far in this process."""
    import torch  # noqa: PLC0415

    torch._dynamo.reset()
    utils.counters.clear()
    utils.compilation_time_metrics.clear()
    utils.graph_break_reasons.clear()
    utils.clear_compilation_metrics()
    utils.set_compilation_metrics_limit(100_000)


def read_capture() -> Capture:
    """What has been captured since the last reset."""
    recompiles = _recompiles()
    return Capture(
        {**_counts(), "recompiles": len(recompiles)},
        _compile_seconds(),
        _graph_breaks(),
        list(dict.fromkeys(reason for reason in recompiles if reason))[:MOST_REASONS],
    )


def _counts() -> dict[str, int]:
    counters = utils.counters
    frames = counters["frames"]
    breaks = counters["graph_break"]
    return {
        "calls_captured": counters["stats"]["calls_captured"],
        "unique_graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(breaks.values()),
        "unique_graph_breaks": len(breaks),
        "fallbacks_to_eager": frames["total"] - frames["ok"],
        "autograd_captures": counters["compiled_autograd"]["captures"],
        "autograd_compiles": counters["compiled_autograd"]["compiles"],
        "cudagraph_skips": counters["inductor"]["cudagraph_skips"],
    }


def _compile_seconds() -> float:
    """What dynamo's own timers saw of whole compilations, forward and backward."""
    timers = utils.compilation_time_metrics
    return float(sum(sum(timers.get(name, ())) for name in _COMPILE_TIMERS))


def _recompiles() -> list[str]:
    """The reasons of all compilations of a frame after its first, as ``frame/number`` tells; empty where torch gives none."""
    reasons: dict[str, str] = {}
    for metrics in utils.get_compilation_metrics():
        compile_id = str(getattr(metrics, "compile_id", "") or "")
        number = compile_id.rpartition("/")[2].partition("_")[0]
        if number.isdigit() and int(number) > 0:
            reasons[compile_id] = _cut(str(getattr(metrics, "recompile_reason", "") or ""))
    return list(reasons.values())


def _graph_breaks() -> list[dict[str, Any]]:
    """Each reason and place once, with how often, most frequent first, and the line of source it is about."""
    found: Counter[tuple[str, str, str]] = Counter()
    for reason in utils.graph_break_reasons:
        if getattr(reason, "graph_break", True):
            frame = reason.user_stack[-1] if reason.user_stack else None
            place = f"{frame.filename}:{frame.lineno}" if frame else ""
            source = linecache.getline(frame.filename, frame.lineno or 0).strip() if frame else ""
            found[(_cut(str(reason.reason)), place, source)] += 1
    return [
        {"reason": reason, "count": count, "place": place, "source": source}
        for (reason, place, source), count in found.most_common(MOST_REASONS)
    ]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]} ..."
