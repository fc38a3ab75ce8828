"""Options that say what blocks: policy, verdicts, quarantine files; the same for every command that judges."""

from __future__ import annotations

from torchstone.cli.options.plain import Option
from torchstone.cli.options.shared import parse_day

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
    parse=parse_day,
)
