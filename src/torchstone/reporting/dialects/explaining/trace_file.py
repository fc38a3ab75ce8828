"""Write both calls as a trace that Perfetto and chrome://tracing open: one process a side, one thread a stream.

The format is the JSON of Chrome's trace viewer: complete events (``ph`` is ``X``) in microseconds, with metadata events that
name processes and threads.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import msgspec

from torchstone.analyze.call_time.time_comparison import REST
from torchstone.core.details.time_profile import KernelTime, SideTime
from torchstone.reporting.views.explaining.time_view import TimeExplanation

_UNKNOWN = KernelTime(REST, "other", "", 0, 0.0)


def render_trace(explanation: TimeExplanation) -> bytes:
    """Return the trace as JSON."""
    sides = list(zip(explanation.names, explanation.sides, strict=True))
    if explanation.is_alone:
        sides = sides[1:]
    events = [
        event
        for number, (name, side) in enumerate(sides, 1)
        for event in _events(explanation, name, number, side)
    ]
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ms",
        "otherData": {
            "case": explanation.case.id,
            "device": explanation.device,
            "files": list(explanation.files),
        },
    }
    return msgspec.json.encode(document)


def compress_trace(trace: bytes) -> bytes:
    """Return a trace as gzip; the same trace gives the same bytes."""
    return gzip.compress(trace, mtime=0)


def _events(
    explanation: TimeExplanation, name: str, process: int, side: SideTime
) -> Iterator[dict[str, object]]:
    yield _name("process_name", process, 0, f"{name}: {explanation.label}")
    yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}
    kind = "thread" if explanation.on_cpu else "stream"
    for stream in sorted({interval[1] for interval in side.timeline}):
        yield _name("thread_name", process, stream, f"{kind} {stream}")
    for index, stream, start, duration in side.timeline:
        row = side.kernels[index] if 0 <= index < len(side.kernels) else _UNKNOWN
        facts = {"operator": row.operator, "module": row.module, "line": row.place, "source": row.source}
        yield {
            "ph": "X",
            "name": row.name,
            "cat": f"{row.family} {row.dtype}".rstrip(),
            "pid": process,
            "tid": stream,
            "ts": start / 1000,
            "dur": duration / 1000,
            "args": {name: text for name, text in facts.items() if text},
        }


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
