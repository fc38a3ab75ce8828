"""Options that say what blocks: policy, verdicts, quarantine files; the same for every command that judges."""

from __future__ import annotations

import os
from collections.abc import Sequence

from torchstone.cli.options.plain import Option
from torchstone.core.config import QUARANTINE_NAME
from torchstone.core.records import QuarantineEntry
from torchstone.core.upstream import find_version, tell_idle, without_removed
from torchstone.gate.policy import Policy

QUARANTINE = Option(
    "--quarantine",
    "quarantines",
    "FILE",
    "Cases that may not block; by default quarantine.toml. Repeatable.",
    True,
)
PLATFORM = Option(
    "--platform",
    "platforms",
    "NAME",
    "The platform, for quarantine entries that name one. Repeatable.",
    True,
)
AS_OF = Option(
    "--as-of",
    "as_of",
    "DATE",
    "Judge quarantine dates as of this day, such as 2026-12-31; by default today.",
)


def read_entries(paths: Sequence[str], policy: Policy) -> tuple[list[QuarantineEntry], tuple[str, ...]]:
    """The entries of the named files, otherwise those of quarantine.toml, and cautions about them.

    The policy upstream has the original's own list in place of quarantine.toml; files that are named count too, and may take entries out of that list.
    """
    default = [QUARANTINE_NAME] if os.path.exists(QUARANTINE_NAME) and not policy.is_upstream else []
    if not (chosen := paths or default) and not policy.is_upstream:
        return [], ()
    from torchstone.gate.quarantine import read_quarantine, read_removals  # noqa: PLC0415  (TOML takes its time to import)

    entries = [entry for path in chosen for entry in read_quarantine(path)]
    if not policy.is_upstream:
        return entries, ()
    removals = [removal for path in chosen for removal in read_removals(path)]
    shipped, idle = without_removed(find_version(policy.upstream_version), removals)
    told = (tell_idle(removal, policy.upstream_version) for removal in idle)
    return [*entries, *shipped], tuple(told)
