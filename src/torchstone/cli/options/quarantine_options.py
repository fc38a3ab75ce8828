"""Quarantine options, shared by the commands that judge."""

from __future__ import annotations

from torchstone.cli.options.plain import Option
from torchstone.cli.options.shared import BLOCKING, parse_day

QUARANTINE = Option(
    "--quarantine",
    "quarantines",
    "FILE",
    "List of cases that must not block (default: quarantine.toml, if it exists). Repeatable.",
    True,
    section=BLOCKING,
)
PLATFORM = Option(
    "--platform",
    "platforms",
    "NAME",
    "Apply quarantine entries for this platform, too. Repeatable.",
    True,
    section=BLOCKING,
)
AS_OF = Option(
    "--as-of",
    "as_of",
    "DATE",
    "Evaluate quarantine dates as of this day, such as 2026-12-31 (default: today).",
    parse=parse_day,
    section=BLOCKING,
)
