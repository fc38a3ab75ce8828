"""Find cases of a run by name, id or pattern."""

from __future__ import annotations

from difflib import get_close_matches

from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, Run, matches
from torchstone.core.text.units import count_of

MOST_LISTED = 10


def match_cases(run: Run, wanted: str, path: str) -> list[Case]:
    """Return the case with this id, else all cases with this name, else all that match this pattern. Raise an error if there is none."""
    found = (
        [case for case in run.plan if case.id == wanted]
        or [case for case in run.plan if case.benchmark == wanted]
        or [case for case in run.plan if matches(wanted, case)]
    )
    if not found:
        names = {text: case for case in run.plan for text in (case.id, case.benchmark)}
        close = get_close_matches(wanted, names, n=1, cutoff=0.4)
        hint = (
            f"did you mean {names[close[0]].id}?"
            if close
            else f"the run has {count_of(len(run.plan), 'case')}"
        )
        raise UsageError(f"{path} has no case {wanted}", advice=hint)
    return found


def find_cases(run: Run, wanted: str, path: str) -> list[Case]:
    """Return the case with this id, or all cases of the one benchmark with this name or pattern."""
    found = match_cases(run, wanted, path)
    if len({(case.suite, case.benchmark) for case in found}) > 1:
        raise _several(found, wanted, path)
    return found


def _several(found: list[Case], wanted: str, path: str) -> UsageError:
    """Return the error for a text that matches cases of several benchmarks, with a line for each case."""
    error = UsageError(f"{wanted} matches {len(found)} cases of several benchmarks in {path}")
    lines = ["choose one of:", *(printable(case.id, 1000) for case in found[:MOST_LISTED])]
    if len(found) > MOST_LISTED:
        lines.append(f"... and {len(found) - MOST_LISTED} more")
    error.advice = "\n    ".join(lines)  # set here, because the constructor would join the lines
    return error
