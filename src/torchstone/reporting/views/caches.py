"""Summarise compile_cache cases: time and savings of each scenario, and why caches missed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import fsum

from msgspec import Struct

from torchstone.core.details.compile_cache_details import CacheDetails, CacheMiss, ScenarioResult
from torchstone.core.records import Measurement, Outcome
from torchstone.core.text.units import count_of, format_number, format_value
from torchstone.core.vocabulary import METRICS, PASSED, SCENARIOS, SKIPPED, Probe
from torchstone.reporting.views.case_row import CaseRow, as_number, interval_of

COLD, WARM = "cold", "warm"
REST = "rest"
PHASES = {
    "dynamo": "turning bytecode into graphs",
    "guards": "building guards",
    "aot_autograd": "AOT autograd",
    "inductor": "inductor, before code generation",
    "codegen": "inductor, during code generation",
    "native": "the C++ or Triton compiler",
    "loading": "loading compiled graphs",
    REST: "not covered by torch's timers",
}
_GOOD = frozenset({PASSED, SKIPPED})


class Start(Struct, frozen=True):
    """One scenario of a case.

    ``seconds`` is the compile time (None if it was not measured), ``mean`` its mean over the repeats, ``parts``
    the seconds by phase, and ``load`` the time to load artifacts before. ``asked`` and ``hits`` count the
    look-ups of all repeats.
    """

    scenario: str
    status: str
    reason: str
    seconds: float | None
    mean: float | None
    parts: tuple[tuple[str, float], ...]
    load: float | None
    saved: float | None
    interval: tuple[float, float] | None
    asked: float
    hits: float
    files: float | None
    size: float | None

    @property
    def is_good(self) -> bool:
        """Return whether it passed or was skipped on purpose."""
        return self.status in _GOOD


class Reason(Struct, frozen=True):
    """Reason for cache misses of some graphs of a case. Reasons that differ only in numbers are merged."""

    scenario: str
    cache: str
    state: str
    text: str
    graphs: tuple[str, ...]
    repeats: tuple[str, ...]


class CacheCase(Struct, frozen=True):
    """A compile_cache case with its scenarios and the reasons for cache misses."""

    row: CaseRow
    starts: tuple[Start, ...]
    reasons: tuple[Reason, ...]

    def start(self, scenario: str) -> Start | None:
        """Return the result of a scenario; None if there is none."""
        return next((start for start in self.starts if start.scenario == scenario), None)


class Total(Struct, frozen=True):
    """Totals over the cases that have both this scenario and a cold start.

    ``saved`` is computed from the sums; None for the cold start.
    """

    scenario: str
    cases: int
    cold: float
    seconds: float
    saved: float | None
    asked: float
    hits: float


class ReasonGroup(Struct, frozen=True):
    """One reason with all its cases and their graphs. ``alike``: the numbers in the text differ between cases."""

    reason: Reason
    alike: bool
    graphs: tuple[tuple[CaseRow, tuple[str, ...]], ...]


class MissingStart(Struct, frozen=True):
    """A scenario without a result in some cases, and why."""

    scenario: str
    status: str
    reason: str
    rows: tuple[CaseRow, ...]


def split_metric(metric: str) -> tuple[str, str] | None:
    """Return the scenario and the quantity of a metric of the compile_cache probe; None for other metrics."""
    known = METRICS.get(metric)
    return (known.scenario, known.quantity) if known and known.scenario else None


def read_starts(outcome: Outcome) -> tuple[Start, ...]:
    """Return the scenarios of an outcome, in their usual order."""
    found = {measurement.metric: measurement for measurement in outcome.measurements}
    stated = _details_of(outcome).scenarios
    starts = (_read_start(scenario, found, stated.get(scenario)) for scenario in SCENARIOS)
    return tuple(start for start in starts if start)


def _details_of(outcome: Outcome) -> CacheDetails:
    return (outcome.details.compile_cache if outcome.details else None) or CacheDetails()


def _read_start(scenario: str, found: dict[str, Measurement], stated: ScenarioResult | None) -> Start | None:
    def value(quantity: str) -> float | None:
        measurement = found.get(f"{scenario}_{quantity}")
        return as_number(measurement.value) if measurement else None

    def count(state: str) -> float:
        return _total(found.get(f"{scenario}_cache_{state}")) or 0.0

    seconds = value("compile_seconds")
    if seconds is None and stated is None:
        return None
    hits = count("hit")
    compiled = found.get(f"{scenario}_compile_seconds")
    whole = _total(compiled)
    return Start(
        scenario,
        (stated.status if stated else "") or (PASSED if seconds is not None else ""),
        stated.reason if stated else "",
        seconds,
        whole / len(compiled.samples) if compiled and whole is not None else None,
        _parts(seconds, {phase: value(f"{phase}_seconds") or 0.0 for phase in PHASES if phase != REST}),
        value("load_seconds"),
        value("saved"),
        interval_of(found.get(f"{scenario}_saved")),
        hits + count("miss") + count("bypass"),
        hits,
        value("cache_files"),
        value("cache_bytes"),
    )


def _parts(seconds: float | None, phases: dict[str, float]) -> tuple[tuple[str, float], ...]:
    """Return the seconds by phase, with the remainder as the last one."""
    known = {phase: amount for phase, amount in phases.items() if amount > 0}
    rest = (seconds or 0.0) - fsum(known.values())
    return (*known.items(), *([(REST, rest)] if rest > 0 else ()))


def _total(measurement: Measurement | None) -> float | None:
    numbers = [as_number(sample) for sample in measurement.samples] if measurement else []
    known = [number for number in numbers if number is not None]
    return fsum(known) if known and len(known) == len(numbers) else None


def read_reasons(outcome: Outcome) -> tuple[Reason, ...]:
    """Return why caches missed, as an outcome states it; reasons that differ only in numbers are one."""
    found: dict[tuple[str, str, str, str], list[CacheMiss]] = {}
    for miss in _details_of(outcome).not_warm:
        key = (miss.scenario, miss.cache, miss.state, _without_numbers(miss.reason))
        found.setdefault(key, []).append(miss)
    return tuple(
        Reason(
            *key[:3],
            misses[0].reason,
            tuple(dict.fromkeys(miss.graph for miss in misses if miss.graph)),
            tuple(dict.fromkeys(str(miss.repeat) for miss in misses if miss.repeat is not None)),
        )
        for key, misses in found.items()
    )


def artifact_sizes(outcome: Outcome | None) -> dict[str, float]:
    """Return the size in bytes of the artifacts of each scenario that loads some."""
    artifacts = _details_of(outcome).artifacts if outcome else {}
    sizes = {scenario: as_number(found.get("bytes")) for scenario, found in artifacts.items()}
    return {scenario: size for scenario, size in sizes.items() if size is not None}


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "0", text)


def make_cases(rows: Iterable[CaseRow]) -> list[CacheCase]:
    """Return the compile_cache cases that have a result, smallest saving of a warm start first."""
    cases = [
        CacheCase(row, starts, read_reasons(row.outcome))
        for row in rows
        if row.case.probe == Probe.COMPILE_CACHE and row.outcome and (starts := read_starts(row.outcome))
    ]
    return sorted(cases, key=_saved_when_warm)


def _saved_when_warm(case: CacheCase) -> float:
    warm = case.start(WARM)
    return float("inf") if warm is None or warm.saved is None else warm.saved


def total_starts(rows: Iterable[CaseRow]) -> tuple[Total, ...]:
    """Return the totals of each scenario: saved is (1 - sum / sum of cold) * 100."""
    cases = make_cases(rows)
    totals = (_total_start(scenario, cases) for scenario in SCENARIOS)
    return tuple(total for total in totals if total)


def _total_start(scenario: str, cases: Sequence[CacheCase]) -> Total | None:
    pairs = [
        (cold, start)
        for case in cases
        if (cold := case.start(COLD)) and (start := case.start(scenario))
        if cold.is_good and start.is_good and cold.mean is not None and start.mean is not None
    ]
    if not pairs:
        return None
    before, after = fsum(cold.mean or 0 for cold, _ in pairs), fsum(start.mean or 0 for _, start in pairs)
    return Total(
        scenario,
        len(pairs),
        before,
        after,
        100 * (1 - after / before) if before > 0 and scenario != COLD else None,
        fsum(start.asked for _, start in pairs),
        fsum(start.hits for _, start in pairs),
    )


def group_reasons(cases: Iterable[CacheCase]) -> list[ReasonGroup]:
    """Group the reasons of all cases, by scenario, most cases first."""
    found: dict[tuple[str, ...], list[tuple[CaseRow, Reason]]] = {}
    for case in cases:
        for reason in case.reasons:
            key = (reason.scenario, reason.cache, reason.state, _without_numbers(reason.text))
            found.setdefault(key, []).append((case.row, reason))
    groups = [
        ReasonGroup(
            members[0][1],
            len({reason.text for _, reason in members}) > 1,
            tuple((row, reason.graphs) for row, reason in members),
        )
        for members in found.values()
    ]
    order = {scenario: number for number, scenario in enumerate(SCENARIOS)}
    return sorted(groups, key=lambda group: (order.get(group.reason.scenario, 9), -len(group.graphs)))


def group_missing_starts(cases: Iterable[CacheCase]) -> list[MissingStart]:
    """Group the scenarios that failed or are not available, with their cases."""
    found: dict[tuple[str, str, str], list[CaseRow]] = {}
    for case in cases:
        for start in case.starts:
            if not start.is_good:
                found.setdefault((start.scenario, start.status, start.reason), []).append(case.row)
    return [MissingStart(*key, tuple(rows)) for key, rows in found.items()]


def graphs_text(graphs: Sequence[str], most: int = 20) -> str:
    """Name graphs: ``all graphs``, ``graph 0/0``, ``graphs 0/0, 1/0``."""
    if not graphs or graphs[0] == "all":
        return "all graphs"
    more = f" and {len(graphs) - most:,} more" if len(graphs) > most else ""
    return f"graph{'s' if len(graphs) > 1 else ''} {', '.join(graphs[:most])}{more}"


def hits_text(hits: float, asked: float) -> str:
    """Format hits and look-ups: ``100% (2/2)``; empty if there were no look-ups."""
    return f"{hit_rate(hits, asked)} ({hits_of(hits, asked)})" if asked > 0 else ""


def hit_rate(hits: float, asked: float) -> str:
    """Format a hit rate: ``100%`` only if all look-ups were hits; empty if there were none."""
    return f"{min(100 * hits / asked, 100 if hits >= asked else 99.9):.3g}%" if asked > 0 else ""


def hits_of(hits: float, asked: float) -> str:
    """Format hits over look-ups: ``2/2``."""
    return f"{format_number(hits)}/{format_number(asked)}"


def format_percent(percent: float) -> str:
    """Format a percentage with one decimal: ``94.7%``."""
    return f"{percent:.1f}%" if abs(percent) < 10_000 else f"{percent:.3g}%"


def format_seconds(seconds: float) -> str:
    """Format seconds; absurdly large values in exponent notation, to stay short."""
    return format_value(seconds, "s") if abs(seconds) < 1e9 else f"{seconds:.3g} s"


def format_size(number: float) -> str:
    """Format a number of bytes.

    >>> format_size(999), format_size(325_424), format_size(1.5e9)
    ('999 B', '325 kB', '1.5 GB')
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(number) < 999.5 or unit == "TB":
            break
        number /= 1000
    return f"{number:.3g} {unit}"


def cache_figures(totals: Sequence[Total]) -> tuple[str, list[str]]:
    """Return the key figure of the caches and notes on it; empty if nothing was measured."""
    by_name = {total.scenario: total for total in totals}
    warm, cold = by_name.get(WARM), by_name.get(COLD)
    others = [
        f"{total.scenario} saves {format_percent(total.saved)}"
        for total in totals
        if total.saved is not None and total.scenario != WARM
    ]
    if warm is None or warm.saved is None:
        figure = format_seconds(cold.seconds) if cold else ""
        return figure, [
            f"to compile {count_of(cold.cases, 'case')} from a cold start",
            ", ".join(others),
        ] if cold else []
    sums = f"{format_seconds(warm.cold)} cold, {format_seconds(warm.seconds)} warm"
    rate = hits_text(warm.hits, warm.asked)
    return format_percent(warm.saved), [
        f"saved by a warm start: {sums}, in {count_of(warm.cases, 'case')}",
        f"hit rate of the warm start {rate}" if rate else "",
        ", ".join(others),
    ]
