"""Print the summary at the end of a run, and why caches were not used."""

from __future__ import annotations

from collections.abc import Iterable

from torchstone.cli.terminal.tables import print_blocks, text_width
from torchstone.core.records import Outcome, Reading, Run
from torchstone.core.text.units import count_of
from torchstone.reporting.run_text.cache_reasons import cache_reason_blocks
from torchstone.reporting.run_text.summary_blocks import place_blocks, summary_blocks


def print_summary(run: Run, path: str, seconds: float) -> None:
    """Print the summary of a run that has just been measured."""
    reading = Reading(path, "run", run, range(2, 2 + len(run.outcomes)))
    title = f"{count_of(len(run.outcomes), 'case')} in {seconds:.0f} s"
    print_blocks(summary_blocks(reading, title, text_width()))
    print_blocks(place_blocks(path))


def print_cache_reasons(outcomes: Iterable[Outcome]) -> None:
    """Print, for every compile_cache case, the cache misses with their reasons."""
    print_blocks(cache_reason_blocks(outcomes, text_width()))
