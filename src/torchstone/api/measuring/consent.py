"""Consent to execute code that a run file or a folder of artifacts names."""

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
"""Asks the user to confirm what would be executed, given as lines; raises a ``UsageError`` if they decline."""
Say = Callable[[str], None]


def refuse(lines: Sequence[str]) -> None:
    """Raise an error that lists what would be executed; used where nobody can be asked."""
    error = UsageError("this would execute code that is not known to be yours")
    advice = "add --trust if you trust it; docs/trust.md lists what is trusted by default"
    error.advice = "\n  ".join([*lines, advice])  # set here, because the constructor would join the lines
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
    """Ask for consent to everything that measuring cases of a run file again would execute. Return whether to load artifacts unchecked."""
    executed = [
        *list_executed(settings, suites),
        *find_artifacts(settings, cases, made_here_folder()),
    ]
    return _require(find_untrusted(executed, trusted_roots()), trust=trust, ask=ask, say=say)


def trust_artifacts(
    settings: Settings, cases: Sequence[Case], *, trust: bool, ask: Ask = refuse, say: Say
) -> bool:
    """Ask for consent to load the artifacts that the user named. Return whether to load them unchecked."""
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
