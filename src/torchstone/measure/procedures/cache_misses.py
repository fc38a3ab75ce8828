"""Find why a cache missed: torch's own reason, or what differs in the key since the cold start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from torchstone.core.details.compile_cache_details import CacheMiss
from torchstone.worker.protocol.replies import CacheLookUp

MOST_PARTS = 3
LONGEST_VALUE = 80
LED_BY = 20  # characters before the first difference, so that one sees where it is
SHORT = 0.2  # seconds of native compilation that are not worth reporting
_SAME_KEY = "nothing was found under the same key: torch did not save it, or its guards no longer hold"
_SAME_KEY_LOADED = (
    "nothing was found under the same key: it is not among the artifacts, or its guards no longer hold"
)
_NEW = "the cold start has no such look-up to compare it with"


def find_reasons(
    scenario: str, repeat: int, cold: Sequence[CacheLookUp], look_ups: Sequence[CacheLookUp]
) -> list[CacheMiss]:
    """Return every look-up that found nothing, with the reason; ``cold`` are the look-ups of the cold start before it."""
    before: dict[tuple[str, str], list[CacheLookUp]] = defaultdict(list)
    for each in cold:
        before[(each.cache, each.graph)].append(each)
    misses = []
    for each in look_ups:
        twins = before[(each.cache, each.graph)]
        twin = twins.pop(0) if twins else None
        if each.state != "hit":
            reason = each.reason or _why_missed(scenario, twin, each)
            misses.append(CacheMiss(reason, scenario, repeat, each.graph, each.cache, each.state))
    return misses


def find_native_miss(
    scenario: str, repeat: int, look_ups: Sequence[CacheLookUp], cold: float, now: float
) -> CacheMiss | None:
    """Return a miss of the native compiler's output, if graphs were cache hits but compiling C++ or Triton code took about as long as in the cold start."""
    if now < SHORT or now < cold / 2 or any(map(_is_compiled_anew, look_ups)):
        return None
    reason = f"inductor's code was compiled again, in {now:.1f} s (cold: {cold:.1f} s): the saved artifacts do not contain it"
    return CacheMiss(reason, scenario, repeat, "all", "native", "miss")


def _is_compiled_anew(look_up: CacheLookUp) -> bool:
    """Return whether inductor generated code after this look-up; what AOT autograd's cache bypasses, inductor's may still have."""
    return look_up.state == "miss" or (look_up.state == "bypass" and look_up.cache == "fx_graph")


def _why_missed(scenario: str, cold: CacheLookUp | None, look_up: CacheLookUp) -> str:
    if cold is None:
        return _NEW
    if unsaved := cold.reason or cold.unsaved:
        return f"the cold start could not save it: {unsaved}"
    if cold.key == look_up.key:
        return _SAME_KEY if scenario == "warm" else _SAME_KEY_LOADED
    changed = _changed_parts(cold.parts, look_up.parts)
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
    """Format a part of a key without its hash, on one line, shortened to where it begins to differ from the other."""
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
