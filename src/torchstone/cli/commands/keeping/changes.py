"""``torchstone changes``: what changed in the store, in groups of one cause."""

from __future__ import annotations

import sys
from typing import Any

from torchstone.api.keeping.changes import STYLES, ChangesRequest, ChangesResult, find_all_changes
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import Option
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import CONFIG, show_progress
from torchstone.cli.options.store_options import STORE
from torchstone.cli.terminal.output import write_in_style
from torchstone.core.text.units import count_of

OPTIONS = (
    STORE,
    Option("--branch", "branch", "NAME", "Only changes on this branch."),
    Option("--since", "since", "DATE|REV", "Only changes since this day or revision."),
    Option(
        "--filter",
        "filters",
        "REGEX",
        "Only benchmarks whose name matches. Repeatable.",
        multiple=True,
        short="-k",
    ),
    Option("--format", "style", "STYLE", "text, json or markdown (default: text).", choices=STYLES),
    Option("--gate", "gate", "", "Exit code 1 if a regression is open that is no longer provisional."),
    CONFIG,
)


def show_changes(_: tuple[str, ...] = (), **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Show what changed in the store, open regressions first.

    New runs are looked at first. Changes of one cause are a group;
    'torchstone triage' decides about groups. A change is provisional until
    enough points, or measuring again, confirm it; until then it does not
    count for --gate.

    \b
    Examples:
      torchstone changes
      torchstone changes --since 2026-11-01 -k resnet
      torchstone changes --gate --format markdown
    """
    request = make_request(ChangesRequest, OPTIONS, values)
    with show_progress("looking for changes"):
        result = find_all_changes(request)
    style = values["style"] or "text"
    write_in_style(result.render(style), style)
    return _tell_gate(result) if values["gate"] else 0


def _tell_gate(result: ChangesResult) -> int:
    """Return the exit code of the gate, with its reason on standard error."""
    confirmed = len(result.view.confirmed)
    waiting = len(result.open_regressions) - confirmed
    if confirmed:
        are = "is" if confirmed == 1 else "are"
        sys.stderr.write(f"gate: {count_of(confirmed, 'confirmed regression')} {are} open: exit code 1\n")
    elif waiting:
        sys.stderr.write(f"gate: {count_of(waiting, 'open regression')}, provisional: exit code 0\n")
    return result.exit_code


changes_command = make_command("changes", show_changes, OPTIONS, "", required=False, bare=True)
