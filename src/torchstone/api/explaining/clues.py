"""Find what differs between two outcomes of a case: what may explain a change between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from torchstone.analyze.attribution import compare
from torchstone.analyze.call_time.time_comparison import compare_times
from torchstone.analyze.profiles import read_profile
from torchstone.core.details.capture_details import CaptureDetails
from torchstone.core.details.outcome_details import OutcomeDetails
from torchstone.core.errors import TorchstoneError
from torchstone.core.records import Measurement, Outcome, find_metric
from torchstone.core.text.units import format_change, format_value
from torchstone.core.vocabulary import CAPTURE_METRICS, LOOK_UPS, Metric
from torchstone.reporting.views.explaining.time_view import milliseconds

LEAST = 1.1
"""A time, or a size, of one run each is told if it became so many times as much or as little."""
_OF_THE_LARGEST = 0.05  # smaller parts of a sum explain nothing
_MOST_OF_A_KIND = 3
_LONGEST = 200
_PHASES = frozenset(
    f"{name}_seconds"
    for name in ("dynamo", "guards", "aot_autograd", "inductor", "codegen", "native", "loading")
)
_RECOMPILES = "recompiles"


_Sized = tuple[float, float, "Clue"]
"""A part of a sum: its size, how much it changed, and the clue."""


class ClueKind(StrEnum):
    """What a clue is about, what explains most first."""

    STATUS = "status"
    GRAPHS = "graphs"
    CACHE = "cache"
    PHASE = "phase"
    KERNEL = "kernel"
    INSTRUCTIONS = "instructions"
    SETTING = "setting"
    METRIC = "metric"


class Clue(Struct, frozen=True):
    """One difference: ``graph breaks 0 -> 3``. ``detail`` says more, such as the reason of a graph break."""

    kind: ClueKind
    what: str
    before: str
    after: str
    detail: str = ""

    def __str__(self) -> str:
        text = f"{self.what} {self.before} -> {self.after}"
        return f"{text}: {self.detail}" if self.detail else text


def find_clues(before: Sequence[Outcome], after: Sequence[Outcome], metric: str) -> tuple[Clue, ...]:
    """Return how the outcomes of a benchmark differ: its own case first, then those of other probes. ``metric`` is what changed.

    Both have the same cases, in the same order.
    """
    found: dict[tuple[ClueKind, str], Clue] = {}
    for old, new in zip(before, after, strict=True):
        for each in _compare(old, new, metric):
            found.setdefault((each.kind, each.what), each)
    order = list(ClueKind)
    return tuple(sorted(found.values(), key=lambda each: order.index(each.kind)))


def _compare(old: Outcome, new: Outcome, metric: str) -> Iterator[Clue]:
    if old.status != new.status:
        failure = new.failure or old.failure
        said = _short(failure.message) if failure else ""
        yield Clue(ClueKind.STATUS, "status", old.status or "-", new.status or "-", said)
    yield from _compare_numbers(old, new, metric)
    yield from _new_reasons(old.capture, new.capture)
    if old.details and new.details:
        yield from _compare_details(old.details, new.details)


def _short(text: str) -> str:
    lines = text.strip().splitlines()
    first = lines[0].strip() if lines else ""
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}..."


def _compare_numbers(old: Outcome, new: Outcome, changed: str) -> Iterator[Clue]:
    """Yield counts that differ, and the times and sizes that differ most; not the metric that is to be explained."""
    measured = {_key(each): each for each in old.measurements}
    phases: list[_Sized] = []
    others: list[Clue] = []
    for each in new.measurements:
        other = measured.get(_key(each))
        metric = find_metric(each.metric, each, new)
        if other is None or metric is None or other.value == each.value or each.metric == changed:
            continue
        clue = _of_metric(metric, other, each)
        if clue.kind in {ClueKind.GRAPHS, ClueKind.CACHE}:
            yield clue
        elif _is_much(other.value, each.value) and clue.kind is ClueKind.PHASE:
            phases.append((max(other.value, each.value), abs(each.value - other.value), clue))
        elif _is_much(other.value, each.value):
            others.append(clue)
    yield from _largest(phases)
    yield from others[:_MOST_OF_A_KIND]


def _key(measurement: Measurement) -> tuple[str, str]:
    return measurement.metric, measurement.counter


def _of_metric(metric: Metric, old: Measurement, new: Measurement) -> Clue:
    kind, what = ClueKind.METRIC, metric.name.replace("_", " ")
    if metric.quantity in _PHASES:
        kind = ClueKind.PHASE
        what = (
            f"compile phase {metric.quantity.removesuffix('_seconds').replace('_', ' ')} ({metric.scenario})"
        )
    elif metric.name in CAPTURE_METRICS or metric.name == _RECOMPILES:
        kind = ClueKind.GRAPHS
    elif metric.quantity in {f"cache_{each}" for each in LOOK_UPS}:
        kind = ClueKind.CACHE
        what = f"compile-cache look-ups that were {_plural(metric.quantity)} ({metric.scenario})"
    before, after = (format_value(each.value, metric.unit) for each in (old, new))
    return Clue(kind, what, before, after)


def _plural(quantity: str) -> str:
    return {"cache_hit": "hits", "cache_miss": "misses", "cache_bypass": "bypassed"}[quantity]


def _is_much(before: float, after: float) -> bool:
    low, high = sorted((abs(before), abs(after)))
    return high > 0 and (low == 0 or high / low >= LEAST)


def _largest(found: list[_Sized]) -> Iterator[Clue]:
    """Yield the parts of a sum that changed most; parts that are small explain nothing."""
    largest = max((size for size, _, _ in found), default=0.0)
    kept = [(change, clue) for size, change, clue in found if size >= _OF_THE_LARGEST * largest]
    kept.sort(key=lambda pair: -pair[0])
    yield from [clue for _, clue in kept[:_MOST_OF_A_KIND]]


def _new_reasons(old: CaptureDetails | None, new: CaptureDetails | None) -> Iterator[Clue]:
    """Yield graph breaks and recompilations whose reason was not there before."""
    if new is None:
        return
    known = {(each.reason, each.place) for each in old.graph_breaks} if old else set()
    for each in [each for each in new.graph_breaks if (each.reason, each.place) not in known][
        :_MOST_OF_A_KIND
    ]:
        where = f"at {each.place}" if each.place else "at an unknown line"
        what = "frames left to eager" if each.fallback else "graph breaks"
        yield Clue(ClueKind.GRAPHS, f"{what} {where}", "0", str(each.count), _short(each.reason))
    reasons = set(old.recompile_reasons) if old else set()
    for reason in [each for each in new.recompile_reasons if each not in reasons][:1]:
        yield Clue(ClueKind.GRAPHS, "recompilations with a new reason", "0", "1", _short(reason))


def _compare_details(old: OutcomeDetails, new: OutcomeDetails) -> Iterator[Clue]:
    yield from _compare_phases(old.phases or {}, new.phases or {})
    yield from _compare_cache_misses(old, new)
    yield from _compare_kernels(old, new)
    yield from _compare_instructions(old, new)
    before, after = (each.torch.describe() if each.torch else "" for each in (old, new))
    if before and after and before != after:
        yield Clue(ClueKind.SETTING, "settings of torch:", before, after)
    if old.device_state and new.device_state and old.device_state.throttled != new.device_state.throttled:
        faults = [", ".join(each.throttled) or "none" for each in (old.device_state, new.device_state)]
        yield Clue(ClueKind.SETTING, "throttled by", faults[0], faults[1])


def _compare_phases(old: dict[str, float], new: dict[str, float]) -> Iterator[Clue]:
    found = [
        (
            max(old[name], new[name]),
            abs(new[name] - old[name]),
            _seconds(f"phase {name}", old[name], new[name]),
        )
        for name in new
        if name in old and _is_much(old[name], new[name])
    ]
    yield from _largest(found)


def _seconds(what: str, before: float, after: float) -> Clue:
    return Clue(ClueKind.PHASE, what, format_value(before, "s"), format_value(after, "s"))


def _compare_cache_misses(old: OutcomeDetails, new: OutcomeDetails) -> Iterator[Clue]:
    if not old.compile_cache or not new.compile_cache:
        return
    known = {(each.scenario, each.cache, each.reason) for each in old.compile_cache.not_warm}
    fresh = [
        each for each in new.compile_cache.not_warm if (each.scenario, each.cache, each.reason) not in known
    ]
    for each in fresh[:_MOST_OF_A_KIND]:
        what = f"look-ups in {each.cache or 'a compile cache'} that found nothing"
        yield Clue(ClueKind.CACHE, what, "0", "1", _short(each.reason))


def _compare_kernels(old: OutcomeDetails, new: OutcomeDetails) -> Iterator[Clue]:
    """Yield the kernels whose time changed most, of the compiled call."""
    if not old.time_profile or not new.time_profile:
        return
    before, after = old.time_profile.compiled, new.time_profile.compiled
    if before is None or after is None:
        before, after = old.time_profile.eager, new.time_profile.eager
    if before is None or after is None or before.problem or after.problem:
        return
    comparison = compare_times(before, after)
    least = _OF_THE_LARGEST * comparison.busy.size
    found = [each for each in comparison.kernels if each.size >= least and _is_much(each.base, each.new)]
    for each in sorted(found, key=lambda kernel: -abs(kernel.change))[:_MOST_OF_A_KIND]:
        told = [milliseconds(value) if value else "absent" for value in (each.base, each.new)]
        yield Clue(ClueKind.KERNEL, f"kernel {_short(each.name)}", told[0], told[1])


def _compare_instructions(old: OutcomeDetails, new: OutcomeDetails) -> Iterator[Clue]:
    """Yield the functions whose count changed most."""
    if old.profile is None or new.profile is None:
        return
    try:
        profiles = [read_profile(each, "the store", 1) for each in (old.profile, new.profile)]
    except TorchstoneError:
        return
    if (profiles[0].counter, profiles[0].unit) != (profiles[1].counter, profiles[1].unit):
        return
    for each in compare(profiles[0], profiles[1]).changed[:_MOST_OF_A_KIND]:
        before, after = (format_value(value, profiles[0].unit) for value in (each.base, each.new))
        yield Clue(
            ClueKind.INSTRUCTIONS,
            f"{profiles[0].unit} of {each.function}",
            before,
            after,
            format_change(each.new, each.base) if each.base else "",
        )
