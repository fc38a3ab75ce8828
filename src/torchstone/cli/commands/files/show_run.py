"""``torchstone show``: print a run again, or everything about some of its cases."""

from __future__ import annotations

import sys
from typing import Any

from torchstone.api.files.show_run import SHOW_STYLES, ShowRequest, show_results
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import Option
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import KIND, SET, show_progress
from torchstone.cli.terminal.output import write_data
from torchstone.cli.terminal.tables import print_blocks, terminal_width, text_width
from torchstone.core.errors import UsageError, printable
from torchstone.reporting.run_text.run_blocks import TextRoom

OPTIONS = (
    Option("--format", "style", "STYLE", "text or json (default: text).", choices=SHOW_STYLES),
    SET,
    KIND,
)


def show_run(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Show a run, or everything about one CASE.

    RUNFILE is a run file, finished or not, or results in any other format
    that torchstone reads. Prints the lines and the summary that 'torchstone
    run' printed, then tracebacks and logs of the cases that failed.

    CASE is a name, an id or a shell pattern. For every case that matches,
    prints all metrics with their intervals, the value of each trial,
    cautions, graph breaks, traceback, log, and the command that measures the
    case again.

    \b
    Examples:
      torchstone show run.jsonl
      torchstone show run.jsonl mlp
      torchstone show run.jsonl '*training*::accuracy'
      torchstone show results.csv --format json
    """
    if len(arguments) not in {1, 2}:
        problem = "expected a file, and optionally a case"
        raise UsageError(problem, advice="see 'torchstone show --help'; quote a pattern")
    path, *case = arguments
    request = make_request(ShowRequest, OPTIONS, values, file=path, case=case[0] if case else "")
    with show_progress(f"reading {path}"):
        result = show_results(request)
    for caution in result.cautions:
        sys.stderr.write(f"caution: {printable(caution.text, 2000)}\n")
    if values["style"] == "json":
        write_data(result.render("json"))
    else:
        room = TextRoom(text_width(), terminal_width() if sys.stdout.isatty() else None)
        print_blocks(result.blocks(room))
    return 0


show_command = make_command("show", show_run, OPTIONS, "RUNFILE [CASE]", required=True)
