"""Details of a compile_cache case: how each scenario ended, look-ups in each cache, and why caches missed."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

_Count = Annotated[int, Meta(ge=0)]


class ScenarioResult(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """How a scenario ended: its status, and the reason if it did not pass."""

    status: str
    reason: str = ""


class CacheMiss(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """One look-up that found nothing: its scenario and repeat, the graph, the cache, ``miss`` or ``bypass``, and the reason."""

    reason: str
    scenario: str = ""
    repeat: int | None = None
    graph: str = ""
    cache: str = ""
    state: str = ""


class CacheDetails(Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Details of a compile_cache case; a field that is not known is empty.

    ``scenarios`` and ``caches`` are by scenario; ``caches`` counts look-ups by cache and result over all repeats. ``artifacts`` has, for each scenario that loads
    artifacts, their size in bytes and their number by kind. ``not_warm`` lists the look-ups that found nothing. ``probing_seconds`` is the time that torch's checks of the machine took,
    which are made once and are no part of the compile time.
    """

    scenarios: dict[str, ScenarioResult] = {}
    caches: dict[str, dict[str, dict[str, _Count]]] = {}
    probing_seconds: float | None = None
    artifacts: dict[str, dict[str, _Count]] = {}
    not_warm: tuple[CacheMiss, ...] = ()
