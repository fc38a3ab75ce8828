"""``torchstone explain``: attribute the difference between two instruction counts of a case."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from torchstone.api.judging.explain import ExplainRequest, ExplainResult, explain_counts
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import FILE_OR_STDOUT, Option
from torchstone.cli.options.quantities import parse_count
from torchstone.cli.options.shared import show_progress
from torchstone.cli.terminal.output import write_data
from torchstone.cli.terminal.show import refuse_overwriting
from torchstone.cli.terminal.tables import print_result_table
from torchstone.core.disk import write_text
from torchstone.core.errors import UsageError, printable
from torchstone.reporting.dialects.explanation import (
    DEFAULT_TOP,
    STYLES,
    WIDTH,
    TextLayout,
    explanation_blocks,
)

WIDEST = 160
_BY_SUFFIX = {".json": "json", ".md": "markdown"}
_PAGE = (".html", ".htm")

OPTIONS = (
    Option("--top", "top", "N", f"Number of functions to show (default: {DEFAULT_TOP}). JSON has all."),
    Option("--format", "style", "STYLE", "text, json or markdown (default: text).", choices=STYLES),
    Option(
        "--output",
        "output",
        "FILE",
        "Also write to this file: .html is a page with flame graphs, .json is JSON, .md is Markdown.",
        short="-o",
        writes=FILE_OR_STDOUT,
    ),
)


def explain(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Explain the difference between two instruction counts.

    BASE and NEW are run files, both measured with --probe instructions
    --profile. CASE is a name, an id or a shell pattern that matches one case
    of both. Shows the compiler phases, the functions that changed most, and
    the call stacks that lead to the change. Without CASE, lists all cases,
    largest change first.

    \b
    Examples:
      torchstone explain main.jsonl mine.jsonl add_loop_eager
      torchstone explain main.jsonl mine.jsonl add_loop_eager -o why.html
      torchstone explain main.jsonl mine.jsonl
    """
    if len(arguments) not in {2, 3}:
        problem = "expected two run files, and optionally a case"
        raise UsageError(problem, advice="see 'torchstone explain --help'")
    base, new, *case = arguments
    path = values["output"] if values["output"] != "-" else None
    style = _style_of(path, values["style"])
    top = parse_count("--top", values["top"]) or DEFAULT_TOP
    refuse_overwriting([path] if path else [], (base, new))
    with show_progress("reading the two run files"):
        result = explain_counts(ExplainRequest(base=base, new=new, case=case[0] if case else ""))
        if path:
            write_text(path, result.render(style, top))
    for caution in result.cautions:
        sys.stderr.write(f"caution: {printable(caution.text, 2000)}\n")
    _print(result, "text" if path else style, top)
    if path:
        print(f"\nwrote {printable(path)}")
    return 0


def _style_of(path: str | None, style: str | None) -> str:
    """Return the format to write: as requested, else by the file extension."""
    suffix = os.path.splitext(path or "")[1].lower()
    if suffix not in _PAGE:
        return style or _BY_SUFFIX.get(suffix, "text")
    if style:
        raise UsageError(
            f"{path} is an HTML page, which --format {style} contradicts", advice="leave out one of the two"
        )
    return "html"


def _print(result: ExplainResult, style: str, top: int) -> None:
    """Print the explanation; on a terminal, with tables as wide as it is."""
    if style != "text":
        write_data(result.render(style, top))
        return
    if not sys.stdout.isatty():
        sys.stdout.write(result.render(style, top))
        return
    layout = TextLayout(max(WIDTH, min(WIDEST, shutil.get_terminal_size().columns)), spacing=1)
    for block in explanation_blocks(result.explanation, top, layout):
        if isinstance(block, str):
            print(block)
        else:
            print_result_table(block)


explain_command = make_command("explain", explain, OPTIONS, "BASE NEW [CASE]", required=True)
