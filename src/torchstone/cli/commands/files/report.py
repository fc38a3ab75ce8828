"""``torchstone report``: results as one HTML page."""

from __future__ import annotations

import sys
from typing import Any

from torchstone.api.files.report import ReportRequest, make_report
from torchstone.api.sources import names_of
from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.plain import FILE, Option
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
        "--output", "output", "FILE", f"Where to write; by default {DEFAULT_OUTPUT}.", short="-o", writes=FILE
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
    path = request.output or DEFAULT_OUTPUT
    refuse_overwriting([path], (*arguments, *names_of(request.baselines)))
    try_file(path)
    with patience("making the report"):
        result = make_report(request)
        result.write(path)
    _tell(result.page, path)
    return 0


def _tell(page: Page, path: str) -> None:
    """Say what the page says in short, and where it is."""
    for caution in page.cautions:
        sys.stderr.write(f"caution: {printable(caution, 2000)}\n")
    total, held = count_of(len(page.rows), "case"), len(page.shown)
    in_table = (
        f": its table holds {held:,} of them, --most-rows asks for more" if held < len(page.rows) else ""
    )
    print(f"{page.headline}\nwrote {total} to {printable(path)}{in_table}")


report_command = make_command("report", report_files, OPTIONS, "RUNFILE...", required=True)
