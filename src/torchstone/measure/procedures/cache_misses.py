"""Why a cache did not serve a graph: torch's own reason, or what is different in the key since the cold start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

MOST_PARTS = 3
LONGEST_VALUE = 80
LED_BY = 20  # characters before the first difference, so that one sees where it is
SHORT = 0.2  # seconds of native compiling that are not worth a word
_SAME_KEY = "nothing was found under the same key: torch did not save it, or its guards no longer hold"
_SAME_KEY_LOADED = (
    "nothing was found under the same key: it is not among the artifacts, or its guards no longer hold"
)
_NEW = "the cold start has no such look-up to compare it with"

Event = Mapping[str, Any]


def find_reasons(
    scenario: str, repeat: int, cold: Sequence[Event], events: Sequence[Event]
) -> list[dict[str, object]]:
    """Every look-up that found nothing, with the reason; ``cold`` are the look-ups of the cold start before it."""
    before: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in cold:
        before[(event["cache"], event["graph"])].append(event)
    reasons: list[dict[str, object]] = []
    for event in events:
        twins = before[(event["cache"], event["graph"])]
        twin = twins.pop(0) if twins else None
        if event["state"] != "hit":
            reasons.append(
                {
                    "scenario": scenario,
                    "repeat": repeat,
                    "graph": event["graph"],
                    "cache": event["cache"],
                    "state": event["state"],
                    "reason": event["reason"] or _why_missed(scenario, twin, event),
                }
            )
    return reasons


def find_native_reason(events: Sequence[Event], cold: float, now: float) -> dict[str, object] | None:
    """What to say where graphs came from a cache, and yet the C++ or Triton compiler took about as long as in the cold start."""
    if now < SHORT or now < cold / 2 or any(_is_compiled_anew(event) for event in events):
        return None
    return {
        "graph": "all",
        "cache": "native",
        "state": "miss",
        "reason": f"what inductor wrote was compiled again, in {now:.1f} s (cold: {cold:.1f} s): it is not among what was saved",
    }


def _is_compiled_anew(event: Event) -> bool:
    """Whether inductor wrote code after this look-up: one that only AOT autograd's cache refuses may still be found by inductor's."""
    return bool(event["state"] == "miss" or (event["state"] == "bypass" and event["cache"] == "fx_graph"))


def _why_missed(scenario: str, cold: Event | None, event: Event) -> str:
    if cold is None:
        return _NEW
    if unsaved := cold["reason"] or cold["unsaved"]:
        return f"the cold start could not save it: {unsaved}"
    if cold["key"] == event["key"]:
        return _SAME_KEY if scenario == "warm" else _SAME_KEY_LOADED
    changed = _changed_parts(cold["parts"], event["parts"])
    if not changed:
        return "its key is another one, and torch does not say in which part"
    shown = "; ".join(changed[:MOST_PARTS])
    more = len(changed) - MOST_PARTS
    return f"its key is another one: {shown}" + (f"; and {more} more" if more > 0 else "")


def _changed_parts(cold: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return [
        f"{name} was {_value(cold.get(name), now.get(name))}, is {_value(now.get(name), cold.get(name))}"
        for name in (*cold, *(each for each in now if each not in cold))
        if cold.get(name) != now.get(name)
    ]


def _value(part: str | None, other: str | None) -> str:
    """A part of a key without its hash, on one line, no longer than anyone reads: from where it begins to differ from the other."""
    if part is None:
        return "absent"
    value, compared = (" ".join((each or "").partition(" ")[2].split()) for each in (part, other))
    start = 0
    if len(value) > LONGEST_VALUE and other is not None:
        pairs = enumerate(zip(value, compared, strict=False))
        first = next((place for place, (ours, theirs) in pairs if ours != theirs), 0)
        start = max(0, first - LED_BY)
    shown = value[start : start + LONGEST_VALUE]
    return f"{'...' if start else ''}{shown}{'...' if start + LONGEST_VALUE < len(value) else ''}"
