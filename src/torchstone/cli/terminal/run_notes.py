"""Notes on the quality of a run: imprecise speedups, and the cautions of its cases."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from torchstone.core.cautions import merge_cautions
from torchstone.core.errors import printable
from torchstone.core.text.units import count_of
from torchstone.reporting.views.case_row import OK, SPEEDUP, CaseRow, interval_of

WIDTH = 100  # unless the terminal is narrower
KNOWN_TO = 0.1
MOST_LINES = 8
MOST_NAMES = 3
LONGEST_CAUTION = 200


def print_notes(rows: Sequence[CaseRow]) -> None:
    """Print how many speedups are imprecise, and each caution once."""
    if known := _badly_known(rows):
        print(f"\n{known}")
    cautions = list(_cautions(rows))
    if cautions:
        print("\ncautions:")
    told = 0
    for number, text in enumerate(cautions):
        lines = wrapped(text, "  - ", "    ")
        if number and told + len(lines) > MOST_LINES:
            print(f"  ... and {len(cautions) - number} more; 'torchstone report' shows all")
            return
        print("\n".join(lines))
        told += len(lines)


def _badly_known(rows: Iterable[CaseRow]) -> str:
    speedups = [row for row in rows if row.kind == OK and row.measurement(SPEEDUP)]
    bad = sum(not _is_known(row) for row in speedups)
    if not bad:
        return ""
    verb = "is" if bad == 1 else "are"
    return f"{bad} of {count_of(len(speedups), 'speedup')} {verb} not known to within {100 * KNOWN_TO:.0f} %: see --budget and --repeat"


def _is_known(row: CaseRow) -> bool:
    value, interval = row.value(SPEEDUP), interval_of(row.measurement(SPEEDUP))
    if not value or interval is None:
        return False
    low, high = interval
    return (high - low) / 2 <= KNOWN_TO * abs(value)


def _cautions(rows: Iterable[CaseRow]) -> Iterator[str]:
    """Yield each caution with its cases, most frequent first; cautions that differ only in numbers are merged."""
    found = [(caution, row) for row in rows for caution in row.cautions]
    merged = merge_cautions(caution for caution, _ in found)
    for caution, places in sorted(merged, key=lambda each: -len(each[1])):
        told = [found[place][1] for place in places]
        names = list(dict.fromkeys(row.case.name for row in told))
        more = ", ..." if len(names) > MOST_NAMES else ""
        cases = {row.case for row in told}
        shown = cut(" ".join(caution.text.split()), LONGEST_CAUTION)
        yield f"{shown} ({count_of(len(cases), 'case')}: {', '.join(names[:MOST_NAMES])}{more})"


def wrapped(text: str, first: str, further: str) -> list[str]:
    """Wrap text to the width of the terminal, without breaking URLs and paths."""
    width = min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
    return textwrap.wrap(
        printable(text, max(1, len(text))),
        width,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def cut(text: str, limit: int) -> str:
    """Shorten text to a limit, at a word boundary unless that would drop half of it.

    >>> cut("look at https://pytorch.org", 16)
    'look at https:/…'
    >>> cut("please look at https://pytorch.org", 20)
    'please look at …'
    """
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    whole = kept[: max(kept.rfind(" "), kept.rfind("\n")) + 1]
    return f"{whole if len(whole) > limit // 2 else kept}…"
