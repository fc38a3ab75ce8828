"""Hints that a person would give who looks at where the time of a call went.

A hint is a kind with its numbers and names; ``reporting.views.explaining.hint_text`` makes the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from torchstone.analyze.call_time.kernel_families import FLOAT32, HALF_PRECISION, KernelFamily
from torchstone.analyze.call_time.time_comparison import family_of_row
from torchstone.core.details.time_profile import KernelTime, SideTime, TimeProfile

WORTH_SAYING = 0.03  # share of the time
MUCH = 0.2
HOST_BOUND = 0.8  # the device works less than this share of the call
_BETWEEN_HOST_AND_DEVICE = ("HtoD", "DtoH", "HostToDevice", "DeviceToHost")
_MULTIPLYING = frozenset({KernelFamily.PRODUCTS, KernelFamily.CONVOLUTIONS})


class HintKind(StrEnum):
    """The closed list of hints."""

    FLOAT32_PRODUCTS = "float32_products"
    ATTENTION_DECOMPOSED = "attention_decomposed"
    TF32_OFF = "tf32_off"
    GRAPH_BREAKS = "graph_breaks"
    FALLBACKS = "fallbacks"
    RECOMPILED = "recompiled"
    HOST_BOUND = "host_bound"
    EAGER_HOST_BOUND = "eager_host_bound"
    CUDA_GRAPHS_SKIPPED = "cuda_graphs_skipped"
    TRANSFERS = "transfers"
    OVERHEAD = "overhead"


class Hint(Struct, frozen=True):
    """One hint. ``share`` is a part of the time, ``count`` a number of launches or events; ``names`` has further facts."""

    kind: HintKind
    count: int = 0
    share: float = 0.0
    names: dict[str, str] = {}


class CaseFacts(Struct, frozen=True):
    """What is known of a case besides its profile. ``walls`` are the milliseconds of an eager and a compiled call, timed without the profiler."""

    counts: dict[str, float] = {}
    walls: tuple[float | None, float | None] = (None, None)
    first_break: str = ""
    first_reason: str = ""


def find_hints(profile: TimeProfile, facts: CaseFacts) -> tuple[Hint, ...]:
    """Return the hints on a case, the most important first."""
    return (*_about_products(profile), *_about_compiling(facts), *_about_host(profile, facts))


def _about_products(profile: TimeProfile) -> Iterator[Hint]:
    """Yield hints about products in a wider dtype than the model's, and about attention that is not fused."""
    eager, compiled = profile.eager, profile.compiled
    side = compiled or eager
    if side is None:
        return
    decomposed = _is_attention_decomposed(eager, compiled)
    wide = [row for row in side.kernels if family_of_row(row) in _MULTIPLYING and row.dtype == FLOAT32]
    share = _share(wide, side)
    facts = {"dtype": profile.model_dtype}
    if profile.tf32 is False and profile.device != "cpu":
        facts["tf32"] = "off"
    if profile.model_dtype in HALF_PRECISION and share >= WORTH_SAYING:
        if decomposed:
            facts["attention"] = "decomposed"
        if eager and compiled and _count(_of(eager, _MULTIPLYING, FLOAT32)) >= _count(wide):
            facts["eager"] = "too"
        yield Hint(HintKind.FLOAT32_PRODUCTS, _count(wide), share, facts)
    elif decomposed and eager:
        fused = _of(eager, {KernelFamily.ATTENTION})
        yield Hint(HintKind.ATTENTION_DECOMPOSED, _count(fused), _share(fused, eager))
    elif profile.model_dtype == FLOAT32 and facts.get("tf32") and share >= MUCH:
        yield Hint(HintKind.TF32_OFF, _count(wide), share)


def _is_attention_decomposed(eager: SideTime | None, compiled: SideTime | None) -> bool:
    """Return whether only eager has a fused attention kernel, and compiled multiplies more matrices instead."""
    if eager is None or compiled is None or not compiled.kernels:
        return False
    fused = _of(eager, {KernelFamily.ATTENTION})
    more = _count(_of(compiled, {KernelFamily.PRODUCTS})) > _count(_of(eager, {KernelFamily.PRODUCTS}))
    return bool(fused) and not _of(compiled, {KernelFamily.ATTENTION}) and more


def _about_compiling(facts: CaseFacts) -> Iterator[Hint]:
    counts = facts.counts
    if breaks := int(counts.get("graph_breaks", 0)):
        names = {"graphs": str(int(counts.get("unique_graphs", 0))), "place": facts.first_break}
        yield Hint(HintKind.GRAPH_BREAKS, breaks, names=names)
    if fallbacks := int(counts.get("fallbacks_to_eager", 0)):
        yield Hint(HintKind.FALLBACKS, fallbacks)
    if recompiles := int(counts.get("recompiles", 0)):
        yield Hint(HintKind.RECOMPILED, recompiles, names={"reason": facts.first_reason})
    if skips := int(counts.get("cudagraph_skips", 0)):
        yield Hint(HintKind.CUDA_GRAPHS_SKIPPED, skips)


def _about_host(profile: TimeProfile, facts: CaseFacts) -> Iterator[Hint]:
    """Yield hints about time in which the device waits, or that is spent around the work."""
    side = profile.compiled or profile.eager
    if side is None or not side.kernels:
        return
    if profile.device == "cpu":
        around = _of(side, {KernelFamily.OVERHEAD})
        if (share := _share(around, side)) >= MUCH and profile.compiled:
            yield Hint(HintKind.OVERHEAD, _count(around), share)
        return
    graphs = {"cuda_graphs": "on" if profile.cuda_graphs else "off"}
    kinds = (HintKind.EAGER_HOST_BOUND, HintKind.HOST_BOUND)
    for kind, each, wall in zip(kinds, (profile.eager, profile.compiled), facts.walls, strict=True):
        if each and each.kernels and wall and each.busy < HOST_BOUND * wall:
            yield Hint(kind, each.launches, each.busy / wall, graphs)
    moved = [row for row in side.kernels if any(way in row.name for way in _BETWEEN_HOST_AND_DEVICE)]
    if (share := _share(moved, side)) >= MUCH / 2:
        yield Hint(HintKind.TRANSFERS, _count(moved), share)


def _of(side: SideTime, families: Iterable[KernelFamily], dtype: str = "") -> list[KernelTime]:
    wanted = frozenset(families)
    return [row for row in side.kernels if family_of_row(row) in wanted and dtype in {"", row.dtype}]


def _count(rows: Iterable[KernelTime]) -> int:
    return sum(row.count for row in rows)


def _share(rows: Iterable[KernelTime], side: SideTime) -> float:
    whole = sum(row.milliseconds for row in side.kernels)
    return sum(row.milliseconds for row in rows) / whole if whole else 0.0
