"""Asking a person whether something may be executed that a run file, or a folder of artifacts, brought along."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from torchstone.cli.plain import Option
from torchstone.errors import UsageError, printable
from torchstone.measure.settings import Settings
from torchstone.measure.surroundings import made_here_folder
from torchstone.measure.trust import Doubt, find_artifacts, find_doubts, find_executed, trusted_roots
from torchstone.model import Case
from torchstone.units import count_of

TRUST = Option(
    "--trust",
    "trust",
    "",
    "Execute what the run file names, and load compile artifacts, without asking: see docs/trust.md.",
)


def trust_run(settings: Settings, suites: Collection[str], cases: Sequence[Case], *, trust: bool) -> bool:
    """Make sure that everything may be executed that measuring cases of a run file again would; says whether its artifacts are trusted without being looked at."""
    executed = [
        *find_executed(settings, suites),
        *find_artifacts(settings, cases, made_here_folder()),
    ]
    return _require(find_doubts(executed, trusted_roots()), trust=trust)


def trust_artifacts(settings: Settings, cases: Sequence[Case], *, trust: bool) -> bool:
    """The same for the artifacts alone that the person has named."""
    return _require(find_doubts(find_artifacts(settings, cases, made_here_folder()), ()), trust=trust)


def _require(doubts: Sequence[Doubt], *, trust: bool) -> bool:
    if not doubts:
        return trust
    if trust:
        sys.stderr.write(
            f"--trust: going on with {count_of(len(doubts), 'thing')} that would have to be confirmed\n"
        )
        return True
    lines = [f"{doubt.what}: {doubt.reason}" for doubt in doubts]
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write("This would execute, on your machine:\n")
        sys.stderr.writelines(f"  {printable(line, 1000)}\n" for line in lines)
        sys.stderr.write("Go on? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in {"y", "yes"}:
            return True
        raise UsageError("nothing was executed")
    error = UsageError("this would execute code that is not known to be yours")
    shown = [
        printable(line, 1000) for line in lines
    ]  # lines of our own: what an error is given is put on one line
    error.advice = "\n  ".join(
        [*shown, "if you trust it, add --trust; docs/trust.md says what is trusted without"]
    )
    raise error
