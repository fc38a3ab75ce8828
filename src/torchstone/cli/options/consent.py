"""``--trust``, and asking for consent to execute code that a run file or a folder of artifacts names."""

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
    "Execute the code that a run file names, and load compile artifacts, without asking; see docs/trust.md.",
)


def ask(lines: Sequence[str]) -> None:
    """Ask on a terminal; refuse if there is none."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        refuse(lines)
    listed = "".join(f"  {line}\n" for line in lines)
    sys.stderr.write(f"This would execute on your machine:\n{listed}Continue? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise UsageError("nothing was executed")
