"""``torchstone list``: list suites, probes and benchmarks, and whether they run on this machine."""

from __future__ import annotations

import msgspec

from torchstone.api.inspecting.listing import ListRequest, ListResult, list_as_requested
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import Option
from torchstone.cli.terminal.output import write_data
from torchstone.cli.terminal.run_display import make_display
from torchstone.cli.terminal.tables import print_table
from torchstone.core.text.safe_text import escape_json

OPTIONS = (Option("--json", "as_json", "", "Print as JSON."),)


def list_all(targets: tuple[str, ...], *, as_json: bool) -> int:
    """List suites and probes, or the benchmarks of TARGETS.

    \b
    Examples:
      torchstone list
      torchstone list huggingface
      torchstone list bench_mine.py
    """
    found = list_as_requested(ListRequest(targets=targets), make_display())
    if as_json:
        _print_json(found, of_targets=bool(targets))
        return found.exit_code
    for number, table in enumerate(found.tables):
        if number:
            print()
        print_table(table.header, table.rows, title=table.title)
    return found.exit_code


def _print_json(found: ListResult, *, of_targets: bool) -> None:
    document = found.benchmarks if of_targets else {"suites": found.suites, "probes": found.probes}
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    write_data(escape_json(encoded) + "\n")


list_command = make_command("list", list_all, OPTIONS, "[TARGETS]...", required=False, bare=True)
