"""Record look-ups in torch's compile caches: which graphs were found, and why others were not."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from torch._dynamo import utils

from torchstone.core.vocabulary import HIT, KERNEL_CACHE, LOOK_UPS, MISS
from torchstone.worker.protocol.replies import CacheLookUp

MOST_EVENTS = 2_000
MOST_PARTS = 2_000
LONGEST_NAME = 200
LONGEST_PART = 20_000
MOST_TEXT = 4_000_000  # characters of parts, all events together: beyond it only hashes are kept
LONGEST_REASON = 2_000
# Caches that report look-ups as events, by the prefix of the event names.
_REPORTED = {"aotautograd_cache": "aot_autograd", "fx_graph_cache": "fx_graph"}
# Caches that only count: torch's group of counters, and the prefix of their names.
_COUNTED = {
    "aot_autograd": ("aot_autograd", "autograd_cache"),
    "fx_graph": ("inductor", "fxgraph_cache"),
    "precompile": ("dynamo_cache", "dynamo_cache"),
    KERNEL_CACHE: ("inductor", "async_compile_cache"),
}
# Loggers that warn if a compiled graph cannot be saved.
_WARNED = {
    "torch._functorch._aot_autograd.autograd_cache": "aot_autograd",
    "torch._inductor.codecache": "fx_graph",
}
_ALSO_MISSES = ("guard_miss", "error")


@dataclass
class CacheEvents:
    """The look-ups reported while listening, in order; ``more`` counts those that were dropped."""

    seen: list[CacheLookUp] = field(default_factory=list)
    more: int = 0
    _text: int = 0

    def add(self, metadata: Mapping[str, object], payload: str) -> None:
        """Record a structured log record of torch, if it is about a cache."""
        artifact = metadata.get("artifact")
        name, _, state = str(artifact.get("name", "") if isinstance(artifact, dict) else "").rpartition("_")
        if name not in _REPORTED or state not in LOOK_UPS:
            return  # about something else
        if len(self.seen) >= MOST_EVENTS:
            self.more += 1
            return
        reported = json.loads(payload) if payload else {}
        parts = _parts(reported.get("components"), LONGEST_PART if self._text < MOST_TEXT else 0)
        self._text += sum(map(len, parts.values()))
        frame, attempt = metadata.get("frame_id", "?"), metadata.get("frame_compile_id", 0)
        self.seen.append(
            CacheLookUp(
                cache=_REPORTED[name],
                state=state,
                graph=f"{frame}/{attempt}",
                key=str(reported.get("key") or "")[:LONGEST_NAME],
                reason=str(reported.get("cache_bypass_reason") or "")[:LONGEST_REASON],
                unsaved="",
                parts=parts,
            )
        )

    def add_unsaved(self, cache: str, reason: str) -> None:
        """Note that the graph last looked up in a cache was compiled but could not be saved."""
        at = max((index for index, event in enumerate(self.seen) if event.cache == cache), default=None)
        if at is not None and self.seen[at].state == MISS and not self.seen[at].unsaved:
            self.seen[at] = replace(self.seen[at], unsaved=reason[:LONGEST_REASON])


class _Listener(logging.Handler):
    """Forward torch's structured records and warnings; errors here must not disturb the compiler."""

    def __init__(self, events: CacheEvents) -> None:
        super().__init__()
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        """Handle a log record."""
        with contextlib.suppress(Exception):
            metadata = getattr(record, "metadata", None)
            if isinstance(metadata, dict) and "artifact" in metadata:
                self._events.add(metadata, getattr(record, "payload", None) or "")
            elif record.name in _WARNED and record.levelno >= logging.WARNING:
                error = record.exc_info[1] if record.exc_info else None
                self._events.add_unsaved(
                    _WARNED[record.name], f"{record.getMessage()}{f': {error}' if error else ''}"
                )


@contextlib.contextmanager
def listening() -> Iterator[CacheEvents]:
    """Listen to torch's structured trace, which reports each look-up with its key, and to warnings of the caches."""
    events = CacheEvents()
    listener = _Listener(events)
    logs = [logging.getLogger(name) for name in ("torch.__trace", *_WARNED)]
    for log in logs:
        log.addHandler(listener)
    try:
        yield events
    finally:
        for log in logs:
            log.removeHandler(listener)


def read_look_ups() -> dict[str, dict[str, int]]:
    """Return the number of look-ups by cache and result; unused caches are left out."""
    found = {}
    for cache, (group, prefix) in _COUNTED.items():
        counts = utils.counters[group]
        states = {state: counts[f"{prefix}_{state}"] for state in LOOK_UPS}
        states[MISS] += sum(counts[f"{prefix}_{kind}"] for kind in _ALSO_MISSES)
        if cache == KERNEL_CACHE:  # torch first counts every look-up as a miss
            states[MISS] = max(0, states[MISS] - states[HIT])
        if any(states.values()):
            found[cache] = states
    return found


def _parts(components: object, longest: int) -> dict[str, str]:
    """Parse the parts of a key, ``[hash] name: value``: by name, the hash and the beginning of the value."""
    if not isinstance(components, list):
        return {}
    parts: dict[str, str] = {}
    for line in components[:MOST_PARTS]:
        digest, _, rest = str(line).partition("] ")
        name, _, value = rest.partition(": ")
        parts[name[:LONGEST_NAME]] = f"{digest.lstrip('[')} {value[:longest]}"
    return parts
