"""A report onto the terminal and into files."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Protocol

from torchstone.cli.options.plain import FILE, FILE_OR_STDOUT, Option
from torchstone.cli.terminal.output import write_colored, write_data, write_exactly
from torchstone.core.config import CONFIG_NAME, QUARANTINE_NAME, wants_color
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError
from torchstone.core.text.safe_text import escape_commands
from torchstone.reporting.views.check_rows import Report

STYLES = ("text", "markdown", "junit", "json", "github")
_HAVE_NO_FOREIGN_LINES = {"json", "github"}  # foreign text is escaped where it enters these
WIDTH = 80
WIDEST = 140  # columns of a terminal that are used


REPORT_OPTIONS = (
    Option(
        "--format",
        "style",
        "STYLE",
        f"What the report looks like: {', '.join(STYLES)}. Default: text.",
        choices=STYLES,
    ),
    Option(
        "--output",
        "output",
        "FILE",
        "Write the report there, and print the text report as well.",
        short="-o",
        writes=FILE_OR_STDOUT,
    ),
    Option(
        "--report",
        "reports",
        "STYLE=FILE",
        "Write one more report, such as junit=report.xml. Repeatable.",
        True,
        writes=FILE,
    ),
)


class Renderer(Protocol):
    """Makes the text of a report in one of the styles; color and width are for text."""

    def __call__(self, style: str, *, color: bool, width: int) -> str:
        """The text."""


def parse_reports(texts: Sequence[str]) -> list[tuple[str, str]]:
    """``STYLE=FILE`` as given on the command line."""
    reports = []
    for text in texts:
        style, found, path = text.partition("=")
        if not found or not path or style not in STYLES:
            advice = f"the styles are {', '.join(STYLES)}; for example --report junit=report.xml"
            raise UsageError(f"--report {text}: expected STYLE=FILE", advice=advice)
        reports.append((style, path))
    return reports


def refuse_overwriting(outputs: Sequence[str], inputs: Sequence[str]) -> None:
    """Refuse to write a report over a file that it is made from, or that says how to judge."""
    read = [each for each in (*inputs, CONFIG_NAME, QUARANTINE_NAME) if os.path.exists(each)]
    for output in outputs:
        if os.path.exists(output) and any(os.path.samefile(output, each) for each in read):
            raise UsageError(f"{output} is one of the files to read", advice="name another file to write to")


def show(render: Renderer, style: str, output: str | None, reports: Sequence[tuple[str, str]]) -> None:
    """Write all reports, then print one: the one asked for, or the text where that went into a file."""
    if output and output != "-":
        reports = [*reports, (style, output)]
        style = "text"
    for of_style, path in reports:
        if path.lower().endswith((".html", ".htm")):
            advice = "'torchstone report' makes pages; or name a file that says what is in it"
            raise UsageError(f"{path}: there would be no page in it, but {of_style}", advice=advice)
    for of_style, path in reports:
        write_text(path, _without_commands(of_style, render(of_style, color=False, width=WIDTH)))
    terminal = sys.stdout.isatty()
    width = min(WIDEST, shutil.get_terminal_size().columns) if terminal else WIDTH
    text = render(style, color=wants_color(terminal), width=width)
    if style == "text":
        write_colored(text)
    elif style == "github":
        write_exactly(text)
    else:
        write_data(_without_commands(style, text))


def _without_commands(style: str, text: str) -> str:
    return text if style in _HAVE_NO_FOREIGN_LINES else escape_commands(text)


def render(report: Report, style: str, *, color: bool, width: int) -> str:
    """The report in one of the styles; color and width are for text."""
    match style:
        case "text":
            from torchstone.reporting.dialects.check_text import render_text  # noqa: PLC0415

            return render_text(report, color=color, width=width)
        case "markdown":
            from torchstone.reporting.dialects.check_markdown import render_markdown as renderer  # noqa: PLC0415
        case "junit":
            from torchstone.reporting.dialects.check_junit import render_junit as renderer  # noqa: PLC0415
        case "json":
            from torchstone.reporting.dialects.check_json import render_json as renderer  # noqa: PLC0415
        case _:
            from torchstone.reporting.dialects.check_github import render_github as renderer  # noqa: PLC0415
    return renderer(report)
