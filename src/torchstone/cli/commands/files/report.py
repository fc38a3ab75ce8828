"""``torchstone report``: write results as one HTML page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from torchstone.api.files.report import ReportRequest, make_report
from torchstone.api.sources import names_of
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.output_checks import STANDARD_OUTPUT
from torchstone.cli.options.plain import FILE_OR_STDOUT, Option
from torchstone.cli.options.quantities import parse_count
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import (
    BASELINE_KIND,
    COMPARE_ANYWAY,
    CONFIG,
    CROSS_ENVIRONMENT,
    INPUT,
    KIND,
    ONLY,
    SET,
    show_progress,
)
from torchstone.cli.terminal.output import require_stdout, write_data
from torchstone.cli.terminal.show import REPORT, refuse_overwriting
from torchstone.core.disk import try_file
from torchstone.core.errors import printable
from torchstone.core.text.units import count_of
from torchstone.reporting.views.page_view import MOST_ROWS, Page

DEFAULT_OUTPUT = "report.html"

OPTIONS = (
    Option(
        "--baseline",
        "baselines",
        "FILE",
        "Baseline file; adds verdicts to the page. Repeatable.",
        True,
        section=INPUT,
    ),
    Option(
        "--output",
        "output",
        "FILE",
        f"Output file (default: {DEFAULT_OUTPUT}); - is standard output.",
        short="-o",
        writes=FILE_OR_STDOUT,
        section=REPORT,
    ),
    ONLY,
    Option(
        "--most-rows",
        "most_rows",
        "N",
        f"Maximum number of cases in the table, blocking and failed ones first (default: {MOST_ROWS:,}). Totals and charts cover all cases.",
        parse=parse_count,
        section=REPORT,
    ),
    SET,
    KIND,
    BASELINE_KIND,
    COMPARE_ANYWAY,
    CROSS_ENVIRONMENT,
    CONFIG,
)


def report_files(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Write results as a self-contained HTML page.

    RUNFILE is a run file, or results in any other format that torchstone
    reads; several are merged. With --baseline, each case has a verdict, by
    the strict policy and the same rules and quarantine as 'torchstone check'.
    The exit code does not depend on the results; use 'torchstone check' for
    that.

    \b
    Examples:
      torchstone report run.jsonl
      torchstone report run.jsonl --baseline last-week.jsonl -o report.html
      torchstone report shard*.csv --baseline expected.csv
    """
    request = make_request(ReportRequest, OPTIONS, values, results=arguments)
    path = _resolve_output(request.output, (*arguments, *names_of(request.baselines)))
    with show_progress("making the report"):
        result = make_report(request)
        if path:
            result.write(path)
    if not path:
        write_data(result.html)
    _print_summary(result.page, path)
    return 0


def _resolve_output(output: str | None, inputs: Sequence[str]) -> str:
    """Return the file to write, after testing that it can be written; empty for standard output."""
    if output == STANDARD_OUTPUT:
        require_stdout()
        return ""
    path = output or DEFAULT_OUTPUT
    refuse_overwriting([path], inputs)
    try_file(path)
    return path


def _print_summary(page: Page, path: str) -> None:
    """Print a summary and the name of the file; on standard error if the page goes to standard output."""
    for caution in page.cautions:
        sys.stderr.write(f"caution: {printable(caution.text, 2000)}\n")
    total, held = count_of(len(page.rows), "case"), len(page.shown)
    in_table = f"; its table has {held:,} of them (see --most-rows)" if held < len(page.rows) else ""
    place = printable(path) if path else "standard output"
    summary = f"{page.headline}\nwrote {total} to {place}{in_table}"
    print(summary, file=sys.stdout if path else sys.stderr)


report_command = make_command("report", report_files, OPTIONS, "RUNFILE...", required=True)
