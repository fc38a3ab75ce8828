"""``torchstone report``: results as one HTML page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torchstone.api.files.report import ReportRequest, make_report
from torchstone.api.sources import names_of
from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.output_trial import STANDARD_OUTPUT
from torchstone.cli.options.plain import FILE_OR_STDOUT, Option
from torchstone.cli.options.quantities import parse_count
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import (
    COMPARE_ANYWAY,
    CONFIG,
    CROSS_ENVIRONMENT,
    KIND,
    KINDS,
    ONLY,
    SET,
    patience,
)
from torchstone.cli.terminal.output import require_stdout, write_data
from torchstone.cli.terminal.show import refuse_overwriting
from torchstone.core.disk import try_file
from torchstone.core.errors import printable
from torchstone.core.text.units import count_of
from torchstone.reporting.views.page_view import MOST_ROWS, Page

DEFAULT_OUTPUT = "report.html"

OPTIONS = (
    Option(
        "--baseline", "baselines", "FILE", "What is expected, to show what the gate says. Repeatable.", True
    ),
    Option(
        "--output",
        "output",
        "FILE",
        f"Where to write; by default {DEFAULT_OUTPUT}, - for standard output.",
        short="-o",
        writes=FILE_OR_STDOUT,
    ),
    ONLY,
    Option(
        "--most-rows",
        "most_rows",
        "N",
        f"Maximum number of cases in the table (default {MOST_ROWS:,}), red and failed first. Totals and charts cover all cases.",
        parse=parse_count,
    ),
    SET,
    KIND,
    Option(
        "--baseline-kind",
        "baseline_kind",
        "KIND",
        "The kind of the baseline files, if it is not to be recognised.",
        choices=KINDS,
    ),
    COMPARE_ANYWAY,
    CROSS_ENVIRONMENT,
    CONFIG,
)


def report_files(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Show results as one HTML page that needs nothing but a browser.

    RUNFILE is a run file, or results of any other kind torchstone reads;
    several are merged. With --baseline each case also has what the gate says
    about it, by the strict policy and the rules and quarantine that check uses.
    The exit code says nothing about the results: that is what check is for.

    \b
    Examples:
      torchstone report run.jsonl
      torchstone report run.jsonl --baseline last-week.jsonl -o report.html
      torchstone report shard*.csv --baseline expected.csv
    """
    request = make_request(ReportRequest, OPTIONS, values, results=arguments)
    path = _find_place(request.output, (*arguments, *names_of(request.baselines)))
    with patience("making the report"):
        result = make_report(request)
        if path:
            result.write(path)
    if not path:
        write_data(result.html)
    _tell(result.page, path)
    return 0


def _find_place(output: str | None, inputs: Sequence[str]) -> str:
    """The file to write, which is tried first; empty for standard output."""
    if output == STANDARD_OUTPUT:
        require_stdout()
        return ""
    path = output or DEFAULT_OUTPUT
    refuse_overwriting([path], inputs)
    try_file(path)
    return path


def _tell(page: Page, path: str) -> None:
    """Say what the page says in short, and where it is; beside a page on standard output, say it on standard error."""
    for caution in page.cautions:
        sys.stderr.write(f"caution: {printable(caution.text, 2000)}\n")
    total, held = count_of(len(page.rows), "case"), len(page.shown)
    in_table = (
        f": its table holds {held:,} of them, --most-rows asks for more" if held < len(page.rows) else ""
    )
    place = printable(path) if path else "standard output"
    told = f"{page.headline}\nwrote {total} to {place}{in_table}"
    print(told, file=sys.stdout if path else sys.stderr)


report_command = make_command("report", report_files, OPTIONS, "RUNFILE...", required=True)
