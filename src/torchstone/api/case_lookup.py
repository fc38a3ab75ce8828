"""The case of a run that a text means."""

from __future__ import annotations

from difflib import get_close_matches

from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, Run, matches

MOST_LISTED = 10


def find_cases(run: Run, wanted: str, path: str) -> list[Case]:
    """The one case that is meant, or all cases of the one benchmark that is."""
    found = (
        [case for case in run.plan if case.id == wanted]
        or [case for case in run.plan if case.benchmark == wanted]
        or [case for case in run.plan if matches(wanted, case)]
    )
    if not found:
        names = {text: case for case in run.plan for text in (case.id, case.benchmark)}
        close = get_close_matches(wanted, names, n=1, cutoff=0.4)
        hint = f"did you mean {names[close[0]].id}?" if close else f"the run has {len(run.plan)} cases"
        raise UsageError(f"{path} has no case {wanted}", advice=hint)
    if len({(case.suite, case.benchmark) for case in found}) > 1:
        raise _several(found, wanted, path)
    return found


def _several(found: list[Case], wanted: str, path: str) -> UsageError:
    """The error for a text that means cases of several benchmarks, with a line for each case."""
    error = UsageError(f"{wanted} means {len(found)} cases of {path}, and not all are of one benchmark")
    lines = ["say which:", *(printable(case.id, 1000) for case in found[:MOST_LISTED])]
    if len(found) > MOST_LISTED:
        lines.append(f"... and {len(found) - MOST_LISTED} more")
    error.advice = "\n    ".join(lines)  # lines of our own: what an error is given is put on one line
    return error
