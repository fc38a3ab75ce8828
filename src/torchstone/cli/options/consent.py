"""``--trust``, and asking a person whether something may be executed that a run file, or a folder of artifacts, brought along."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from torchstone.api.measuring.consent import refuse
from torchstone.cli.options.plain import Option
from torchstone.core.errors import UsageError

TRUST = Option(
    "--trust",
    "trust",
    "",
    "Execute what the run file names, and load compile artifacts, without asking: see docs/trust.md.",
)


def ask(lines: Sequence[str]) -> None:
    """Ask on a terminal; refuse elsewhere."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        refuse(lines)
    listed = "".join(f"  {line}\n" for line in lines)
    sys.stderr.write(f"This would execute, on your machine:\n{listed}Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("nothing was executed")
