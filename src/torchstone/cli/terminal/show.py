"""Print reports, and write them to files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from torchstone.cli.options.plain import FILE, FILE_OR_STDOUT, Option, in_section
from torchstone.cli.terminal.output import write_colored, write_data, write_exactly
from torchstone.core.config import CONFIG_NAME, QUARANTINE_NAME, wants_color
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError
from torchstone.core.text.safe_text import escape_commands
from torchstone.reporting.dialects.styles import HTML, STYLES, WIDTH

_SELF_ESCAPING = {"json", "github", HTML}  # these escape foreign text themselves
WIDEST = 140  # columns used on a wider terminal


REPORT = "Report"


def report_options(styles: Sequence[str], output_help: str) -> tuple[Option, ...]:
    """Return the options that choose styles and files of reports."""
    return in_section(
        REPORT,
        Option(
            "--format",
            "style",
            "STYLE",
            f"{', '.join(styles[:-1])} or {styles[-1]} (default: text).",
            choices=tuple(styles),
        ),
        Option("--output", "output", "FILE", output_help, short="-o", writes=FILE_OR_STDOUT),
        Option(
            "--report",
            "reports",
            "STYLE=FILE",
            "Write another report, such as junit=report.xml. Repeatable.",
            True,
            writes=FILE,
        ),
    )


REPORT_OPTIONS = report_options(STYLES, "Write the report to this file, and print the text report.")


class Renderer(Protocol):
    """Renders a report in a style; color and width apply to text."""

    def __call__(self, style: str, *, color: bool, width: int) -> str:
        """Render the report."""


def parse_reports(texts: Sequence[str], styles: Sequence[str] = STYLES) -> list[tuple[str, str]]:
    """Parse values such as ``junit=report.xml``."""
    reports = []
    for text in texts:
        style, found, path = text.partition("=")
        if not found or not path or style not in styles:
            advice = f"the styles are {', '.join(styles)}; for example --report junit=report.xml"
            raise UsageError(f"--report {text}: expected STYLE=FILE", advice=advice)
        reports.append((style, path))
    return reports


def refuse_overwriting(outputs: Sequence[str], inputs: Sequence[str]) -> None:
    """Refuse to overwrite an input, the configuration file or the quarantine file."""
    read = [each for each in (*inputs, CONFIG_NAME, QUARANTINE_NAME) if os.path.exists(each)]
    for output in outputs:
        if os.path.exists(output) and any(os.path.samefile(output, each) for each in read):
            raise UsageError(f"{output} is an input file", advice="name another output file")


class Shown(Struct, frozen=True):
    """Style and file of the main report, and further reports as pairs of style and file."""

    style: str
    output: str | None
    reports: tuple[tuple[str, str], ...]

    @property
    def paths(self) -> list[str]:
        """The files to write."""
        return [path for path in (self.output, *(path for _, path in self.reports)) if path]


def plan_reports(values: Mapping[str, Any], styles: Sequence[str] = STYLES) -> Shown:
    """Return the reports that options ask for, before anything is read or measured.

    Without ``--format``, a file whose name ends like that of a page is a page, if the command can make one.
    """
    reports = tuple(parse_reports(values["reports"], styles))
    output = values["output"]
    is_page = output is not None and HTML in styles and _is_page(output)
    style = values["style"] or (HTML if is_page else "text")
    named = ((style, output),) if output and output != "-" else ()
    refuse_misnamed((*reports, *named), styles)
    return Shown(style, output, reports)


def _is_page(path: str) -> bool:
    return path.lower().endswith((".html", ".htm"))


def refuse_misnamed(reports: Sequence[tuple[str, str]], styles: Sequence[str]) -> None:
    """Refuse to write another style than HTML to a file whose name ends like that of a page."""
    for style, path in reports:
        if _is_page(path) and style != HTML:
            page = "choose html" if HTML in styles else "'torchstone report' writes HTML pages"
            advice = f"{page}; otherwise choose another file extension"
            raise UsageError(f"{path}: this report is {style}, not an HTML page", advice=advice)


def show(render: Renderer, shown: Shown) -> None:
    """Write all reports, then print one: the requested one, or the text report if that was written to a file."""
    style, reports = shown.style, shown.reports
    if shown.output and shown.output != "-":
        reports = (*reports, (style, shown.output))
        style = "text"
    write_reports(render, reports)
    terminal = sys.stdout.isatty()
    width = _terminal_width() if terminal else WIDTH
    print_report(render(style, color=wants_color(terminal), width=width), style)


def _terminal_width() -> int:
    import shutil  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

    return min(WIDEST, shutil.get_terminal_size().columns)


def write_reports(render: Renderer, reports: Sequence[tuple[str, str]]) -> None:
    """Write reports to files, each in its style."""
    for style, path in reports:
        write_text(path, _without_commands(style, render(style, color=False, width=WIDTH)))


def print_report(text: str, style: str) -> None:
    """Print a report, with foreign text made safe as its style requires."""
    if style == "text":
        write_colored(text)
    elif style == "github":
        write_exactly(text)
    else:
        write_data(_without_commands(style, text))


def _without_commands(style: str, text: str) -> str:
    return text if style in _SELF_ESCAPING else escape_commands(text)
