"""Explain for each case why compile caches were not used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchstone.core.errors import printable
from torchstone.core.records import Outcome
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import Probe
from torchstone.reporting.run_text.blocks import WIDTH, Block, wrapped
from torchstone.reporting.run_text.case_lines import reason_line
from torchstone.reporting.views.caches import (
    COLD,
    Reason,
    Start,
    graphs_text,
    hits_of,
    read_reasons,
    read_starts,
)

_INDENT = " " * 13


def cache_reason_blocks(outcomes: Iterable[Outcome], width: int = WIDTH) -> Iterator[Block]:
    """Yield, for every compile_cache case, the cache misses with their reasons, and scenarios without a result."""
    cases = [outcome for outcome in outcomes if outcome.case.probe == Probe.COMPILE_CACHE]
    if not cases:
        yield "\nnothing to explain: the run has no compile_cache cases"
        return
    unserved = {outcome.case: problems for outcome in cases if (problems := list(_unserved(outcome)))}
    if not unserved:
        yield f"\nall cache lookups were hits, in {count_of(len(cases), 'case')}"
        return
    yield "\nwhy caches were not used:"
    for case, problems in unserved.items():
        yield printable(case.id, 1000)
        for scenario, text in problems:
            yield wrapped(printable(text, 2_000), f"  {scenario:<10} ", _INDENT, width)
    if served := len(cases) - len(unserved):
        yield f"all cache lookups were hits in {count_of(served, 'other case')}"


def _unserved(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield the scenarios of a case that have a problem, with its description."""
    starts, reasons = read_starts(outcome), read_reasons(outcome)
    if not starts:
        reason = reason_line(outcome.failure) if outcome.failure else ""
        yield "", f"{outcome.status}: {reason}".removesuffix(": ")
    for start in starts:
        own = [_reason_text(reason) for reason in reasons if reason.scenario == start.scenario]
        yield from ((start.scenario, text) for text in [*_problem(start, explained=bool(own)), *own])


def _problem(start: Start, *, explained: bool) -> Iterator[str]:
    """Yield the problem of a scenario that torch gives no reason for."""
    if not start.is_good:
        yield f"{start.status}: {start.reason}".removesuffix(": ")
    elif start.scenario != COLD and not start.asked:
        yield "no cache was looked up"
    elif start.scenario != COLD and start.hits < start.asked and not explained:
        yield f"hits {hits_of(start.hits, start.asked)}, and torch gives no reason for the misses"


def _reason_text(reason: Reason) -> str:
    """Format a reason such as ``fx_graph bypass, graphs 0/0, 1/0 (repeats 1, 2): ...``."""
    repeats = f" (repeats {', '.join(reason.repeats)})" if len(reason.repeats) > 1 else ""
    return f"{reason.cache} {reason.state}, {graphs_text(reason.graphs)}{repeats}: {reason.text}"
