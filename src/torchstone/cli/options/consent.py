"""Asking a person whether something may be executed that a run file, or a folder of artifacts, brought along."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from torchstone.cli.options.plain import Option
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case
from torchstone.measure.code.trust import Doubt, find_artifacts, find_doubts, find_executed, trusted_roots
from torchstone.measure.measuring import Settings
from torchstone.worker.worker_environment import made_here_folder

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
    lines = [printable(f"{doubt.what}: {doubt.reason}", 1000) for doubt in doubts]
    listed = "".join(f"  {line}\n" for line in lines)
    if trust:
        sys.stderr.write(f"--trust: continuing without confirmation:\n{listed}")
        return True
    if sys.stdin.isatty() and sys.stderr.isatty():
        sys.stderr.write(f"This would execute, on your machine:\n{listed}Go on? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in {"y", "yes"}:
            return True
        raise UsageError("nothing was executed")
    error = UsageError("this would execute code that is not known to be yours")
    advice = "add --trust if you trust it; docs/trust.md lists what is trusted by default"
    error.advice = "\n  ".join([*lines, advice])  # set here: the constructor would put it on one line
    raise error
