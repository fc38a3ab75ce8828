"""Notes on the quality of a run: imprecise speedups, and the cautions of its cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from torchstone.core.cautions import Caution, merge_cautions
from torchstone.core.text.intervals import WIDEST
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.units import count_of, some_of
from torchstone.reporting.run_text.blocks import Block, cut, wrapped
from torchstone.reporting.views.case_row import OK, SPEEDUP, CaseRow, interval_of
from torchstone.reporting.views.names import Names

KNOWN_TO = 0.1
MOST_LINES = 8
MOST_NAMES = 3
LONGEST_STATEMENT = 250


def note_blocks(rows: Sequence[CaseRow], path: str, width: int, *, most_lines: int | None) -> Iterator[Block]:
    """Yield how many speedups are imprecise, and each caution once, in at most about ``most_lines`` lines."""
    if known := _badly_known(rows):
        yield f"\n{wrapped(known, '', '  ', width)}"
    cautions = list(_cautions(rows))
    if cautions:
        yield "\ncautions:"
    told = 0
    for number, text in enumerate(cautions):
        shown = wrapped(text, "  - ", "    ", width)
        told += shown.count("\n") + 1
        if number and most_lines is not None and told > most_lines:
            yield f"  ... and {len(cautions) - number} more: torchstone show {quote_word(path)}"
            return
        yield shown


def _badly_known(rows: Iterable[CaseRow]) -> str:
    """Return how many speedups are imprecise, and which of them are so imprecise that no mean is made of them."""
    speedups = [row for row in rows if row.kind == OK and row.measurement(SPEEDUP)]
    bad = sum(not _is_known(row) for row in speedups)
    if not bad:
        return ""
    verb = "is" if bad == 1 else "are"
    text = f"{bad} of {count_of(len(speedups), 'speedup')} {verb} not known to within {100 * KNOWN_TO:.0f} %: see --budget and --repeat"
    wide = [row for row in speedups if row.is_uncertain(SPEEDUP)]
    if not wide:
        return text
    names = Names(row.case for row in speedups)
    listed = some_of([names.of(row.case) for row in wide], MOST_NAMES)
    which = "1 is" if len(wide) == 1 else f"{len(wide):,} are"
    whose = "its interval is" if len(wide) == 1 else "their intervals are"
    return f"{text}. {which} left out of the mean, because {whose} wider than {100 * WIDEST:.0f} %: {listed}"


def _is_known(row: CaseRow) -> bool:
    value, interval = row.value(SPEEDUP), interval_of(row.measurement(SPEEDUP))
    if not value or interval is None:
        return False
    low, high = interval
    return (high - low) / 2 <= KNOWN_TO * abs(value)


def _cautions(rows: Sequence[CaseRow]) -> Iterator[str]:
    """Yield each caution with its cases, most frequent first; cautions that differ only in numbers are merged."""
    found = [(caution, row) for row in rows for caution in row.cautions]
    merged = merge_cautions(caution for caution, _ in found)
    naming: dict[frozenset[str], Names] = {}
    for caution, places in sorted(merged, key=lambda each: -len(each[1])):
        told = [found[place][1] for place in places]
        probes = frozenset(row.case.probe for row in told)
        if probes not in naming:  # the probe is no part of a name if all cases of the caution share it
            naming[probes] = Names(row.case for row in rows if row.case.probe in probes)
        names = naming[probes]
        listed = list(dict.fromkeys(names.of(row.case) for row in told))
        cases = {row.case for row in told}
        yield f"{_shown(caution)} ({count_of(len(cases), 'case')}: {some_of(listed, MOST_NAMES)})"


def _shown(caution: Caution) -> str:
    """Return what a caution says, shortened if it is foreign text, with its whole advice."""
    statement = cut(" ".join(caution.statement.split()), LONGEST_STATEMENT)
    return f"{statement}; {caution.advice}" if caution.advice else statement
