"""Parse verdicts, and find the quarantine in force."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from torchstone.core.cautions import Caution
from torchstone.core.config import QUARANTINE_NAME
from torchstone.core.errors import UsageError
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.upstream import find_version, tell_idle, without_removed
from torchstone.core.vocabulary import Verdict
from torchstone.gate.blocking_policy import Policy


def parse_verdicts(names: Iterable[str]) -> set[Verdict]:
    """Return the verdicts of these names."""
    return {_parse_verdict(name) for name in names}


def _parse_verdict(name: str) -> Verdict:
    try:
        return Verdict(name)
    except ValueError:
        raise UsageError(f"{name}: no such verdict", advice=f"expected one of {', '.join(Verdict)}") from None


def find_quarantine(
    paths: Sequence[str], policy: Policy
) -> tuple[list[QuarantineEntry], tuple[Caution, ...]]:
    """Return the entries of the named files, else those of quarantine.toml, and cautions about them.

    The policy upstream uses the list of PyTorch's own scripts instead of quarantine.toml; named files are added, and may remove entries from that list.
    """
    default = [QUARANTINE_NAME] if os.path.exists(QUARANTINE_NAME) and not policy.is_upstream else []
    if not (chosen := paths or default) and not policy.is_upstream:
        return [], ()
    from torchstone.gate.quarantine_file import read_quarantine, read_removals  # noqa: PLC0415  (start-up: TOML is slow to import, and most checks need none)

    entries = [entry for path in chosen for entry in read_quarantine(path)]
    if not policy.is_upstream:
        return entries, ()
    removals = [removal for path in chosen for removal in read_removals(path)]
    shipped, idle = without_removed(find_version(policy.upstream_version), removals)
    cautions = (tell_idle(removal, policy.upstream_version) for removal in idle)
    return [*entries, *shipped], tuple(cautions)
