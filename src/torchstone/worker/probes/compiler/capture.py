"""Read torch.compile's statistics: capture counts, compile time, graph breaks and recompiles with reasons."""

from __future__ import annotations

import linecache
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from traceback import FrameSummary
from typing import Any

import torch
from torch._dynamo import utils

from torchstone.core.vocabulary import COMPILE_SECONDS
from torchstone.worker.probes.compiler.compiling_apart import waited_in_benchmarks, watch_again
from torchstone.worker.probes.reply import Result
from torchstone.worker.protocol.case_findings import GraphBreakFound

MOST_REASONS = 50
LONGEST_REASON = 2_000
# torch's timers of a whole compilation, forward and backward: current and former names.
_COMPILE_TIMERS = (
    ("_compile.compile_inner", "entire_frame_compile"),
    ("backward._backward_impl", "entire_backward_compile"),
)
_COMPILES = ("unique_graphs", "recompiles", "fallbacks_to_eager")
_OWN_FOLDER = os.path.dirname(torch.__file__) + os.sep
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Capture:
    """The statistics since the last reset."""

    counts: dict[str, int]
    seconds: float
    graph_breaks: list[GraphBreakFound]
    recompile_reasons: list[str]

    def has_compiled_since(self, before: Capture) -> bool:
        """Return whether anything was compiled, or given up, after ``before`` was read."""
        return any(self.counts[name] != before.counts[name] for name in _COMPILES)


def add_capture(result: Result, captured: Capture, identity: dict[str, str]) -> None:
    """Add counts, times and reasons to a result; ``identity`` distinguishes compile times of different setups."""
    result.add(COMPILE_SECONDS, captured.seconds, **identity)
    for metric, count in captured.counts.items():
        result.add(metric, count)
    if captured.graph_breaks:
        result.details = replace(result.details, graph_breaks=tuple(captured.graph_breaks))
    if captured.recompile_reasons:
        result.details = replace(result.details, recompile_reasons=tuple(captured.recompile_reasons))


def reset_capture() -> None:
    """Reset the compiler and its statistics in this process."""
    torch._dynamo.reset()
    watch_again()
    utils.counters.clear()
    utils.compilation_time_metrics.clear()
    utils.graph_break_reasons.clear()
    utils.clear_compilation_metrics()
    utils.set_compilation_metrics_limit(100_000)


def read_capture() -> Capture:
    """Return the statistics since the last reset."""
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
    """Return torch's own compile time of whole frames and backward graphs, which excludes running the model."""
    timers = utils.compilation_time_metrics
    found = (next((timers[name] for name in names if name in timers), ()) for names in _COMPILE_TIMERS)
    return max(0.0, float(sum(map(sum, found))) - waited_in_benchmarks())


def _recompiles() -> list[str]:
    """Return the reasons of all recompilations (``frame/number``); empty if torch gives none.

    A frame whose backward is compiled too is listed twice, and only once with its reason.
    """
    reasons: dict[str, str] = {}
    for metrics in utils.get_compilation_metrics():
        compile_id = str(getattr(metrics, "compile_id", "") or "")
        number = compile_id.rpartition("/")[2].partition("_")[0]
        if number.isdigit() and int(number) > 0:
            reason = _cleaned(str(getattr(metrics, "recompile_reason", "") or ""))
            reasons[compile_id] = reason or reasons.get(compile_id, "")
    return list(reasons.values())


def _graph_breaks() -> list[GraphBreakFound]:
    """Return each reason and location once, with its count and source line, most frequent first.

    A break in a loop or in a ``with`` makes torch skip the whole frame; torch does not count this as a break,
    but the reason is the same.
    """
    found = Counter(
        (*_located(reason.user_stack), _cleaned(str(reason.reason)), False) for reason in _breaks()
    )
    found.update(_fallbacks())
    return [
        GraphBreakFound(reason, count, place, source, is_fallback)
        for (place, source, reason, is_fallback), count in found.most_common(MOST_REASONS)
    ]


def _breaks() -> Iterator[Any]:
    return (reason for reason in utils.graph_break_reasons if getattr(reason, "graph_break", True))


def _fallbacks() -> Iterator[tuple[str, str, str, bool]]:
    for metrics in utils.get_compilation_metrics():
        if reason := getattr(metrics, "fail_reason", None):
            file = getattr(metrics, "fail_user_frame_filename", None) or getattr(metrics, "co_filename", None)
            line = getattr(metrics, "fail_user_frame_lineno", None) or getattr(
                metrics, "co_firstlineno", None
            )
            yield *_place(file, line), f"left to eager as a whole: {_cleaned(str(reason))}", True


def _located(stack: Sequence[FrameSummary] | None) -> tuple[str, str]:
    """Return the innermost line outside torch, and its source."""
    frames = list(reversed(stack or ()))
    own = next((frame for frame in frames if not frame.filename.startswith(_OWN_FOLDER)), None)
    frame = own or (frames[0] if frames else None)
    return _place(frame.filename, frame.lineno) if frame else ("", "")


def _place(file: str | None, line: int | None) -> tuple[str, str]:
    if not file:
        return "", ""
    return f"{file}:{line}", linecache.getline(file, line or 0).strip()


def _cleaned(text: str) -> str:
    """Remove addresses, which differ between processes, and shorten the text."""
    plain = _ADDRESS.sub("", text)
    return plain if len(plain) <= LONGEST_REASON else f"{plain[:LONGEST_REASON]} ..."
