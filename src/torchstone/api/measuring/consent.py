"""Consent to executing what a run file, or a folder of artifacts, brought along."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case
from torchstone.core.run_settings import Settings
from torchstone.measure.code.trust import (
    UntrustedItem,
    find_artifacts,
    find_untrusted,
    list_executed,
    trusted_roots,
)
from torchstone.worker.worker_environment import made_here_folder

Ask = Callable[[Sequence[str]], None]
"""Asks a person about what would be executed, a line for each thing; raises a ``UsageError`` unless they agree."""
Say = Callable[[str], None]


def refuse(lines: Sequence[str]) -> None:
    """Refuse, with the list of what would be executed: there is nobody to ask."""
    error = UsageError("this would execute code that is not known to be yours")
    advice = "add --trust if you trust it; docs/trust.md lists what is trusted by default"
    error.advice = "\n  ".join([*lines, advice])  # set here: the constructor would put it on one line
    raise error


def trust_run(
    settings: Settings,
    suites: Collection[str],
    cases: Sequence[Case],
    *,
    trust: bool,
    ask: Ask = refuse,
    say: Say,
) -> bool:
    """Make sure that everything may be executed that measuring cases of a run file again would; whether its artifacts are trusted without being looked at."""
    executed = [
        *list_executed(settings, suites),
        *find_artifacts(settings, cases, made_here_folder()),
    ]
    return _require(find_untrusted(executed, trusted_roots()), trust=trust, ask=ask, say=say)


def trust_artifacts(
    settings: Settings, cases: Sequence[Case], *, trust: bool, ask: Ask = refuse, say: Say
) -> bool:
    """The same for the artifacts alone that the person has named."""
    doubts = find_untrusted(find_artifacts(settings, cases, made_here_folder()), ())
    return _require(doubts, trust=trust, ask=ask, say=say)


def _require(doubts: Sequence[UntrustedItem], *, trust: bool, ask: Ask, say: Say) -> bool:
    if not doubts:
        return trust
    lines = [printable(f"{doubt.what}: {doubt.reason}", 1000) for doubt in doubts]
    if trust:
        say("\n".join(["--trust: continuing without confirmation:", *(f"  {line}" for line in lines)]))
    else:
        ask(lines)
    return True
