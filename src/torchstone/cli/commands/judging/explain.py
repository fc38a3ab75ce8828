"""``torchstone explain``: where the time of a case went, or why two instruction counts of a case differ."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import Any

from torchstone.api.explaining.explain import ExplainRequest, ExplainResult, explain_request
from torchstone.api.explaining.explain_time import TimeExplainResult
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.consent import TRUST, ask
from torchstone.cli.options.plain import FILE, FILE_OR_STDOUT, Option
from torchstone.cli.options.quantities import parse_count
from torchstone.cli.options.shared import show_progress
from torchstone.cli.terminal.output import write_data
from torchstone.cli.terminal.run_display import Display
from torchstone.cli.terminal.show import refuse_overwriting
from torchstone.cli.terminal.tables import print_result_table
from torchstone.core.disk import write_bytes, write_text
from torchstone.core.errors import UsageError, printable
from torchstone.reporting.dialects.columns import WIDTH, TextLayout
from torchstone.reporting.dialects.explaining.time_text import overview_table, time_blocks
from torchstone.reporting.dialects.explaining.trace_file import compress_trace
from torchstone.reporting.dialects.explanation import DEFAULT_TOP, STYLES, explanation_blocks
from torchstone.reporting.views.result_table import ResultTable

WIDEST = 160
_BY_SUFFIX = {".json": "json", ".md": "markdown"}
_PAGE = (".html", ".htm")

OPTIONS = (
    Option(
        "--top",
        "top",
        "N",
        f"Number of functions, kernels or lines to show (default: {DEFAULT_TOP}). JSON has all.",
    ),
    Option("--format", "style", "STYLE", "text, json or markdown (default: text).", choices=STYLES),
    Option(
        "--output",
        "output",
        "FILE",
        "Also write to this file: .html is a page with pictures, .json is JSON, .md is Markdown.",
        short="-o",
        writes=FILE_OR_STDOUT,
    ),
    Option(
        "--trace",
        "trace",
        "FILE",
        "Also write the calls of both sides as a trace for Perfetto or chrome://tracing; compressed if the name ends in .gz.",
        writes=FILE,
    ),
    Option("--measure", "measure", "", "Measure the case of one run file again, to take its time profile."),
    TRUST,
)


def explain(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Explain where a case spends its time, or why its count changed.

    RUN CASE explains the time of one case: eager against compiled, by kernel
    family, kernel, module and line, with hints. BASE NEW [CASE] explains the
    difference between two run files: times of a performance case, counts of
    an instructions case. Measure them with --profile. CASE is a name, an id
    or a shell pattern that matches one case. Without it, lists all cases,
    largest change first.

    \b
    Examples:
      torchstone explain main.jsonl mine.jsonl add_loop_eager
      torchstone explain main.jsonl mine.jsonl add_loop_eager -o why.html
      torchstone explain main.jsonl mine.jsonl
      torchstone explain run.jsonl BertForMaskedLM
      torchstone explain run.jsonl mlp --measure --trace mlp.json.gz
    """
    base, new, case = _take_arguments(arguments)
    path = values["output"] if values["output"] != "-" else None
    style = _style_of(path, values["style"])
    top = parse_count("--top", values["top"]) or DEFAULT_TOP
    outputs = [each for each in (path, values["trace"]) if each]
    refuse_overwriting(outputs, [base, *([new] if new else [])])
    request = ExplainRequest(base=base, new=new, case=case, measure=values["measure"], trust=values["trust"])
    result = _explain(request)
    if path:
        write_text(path, result.render(style, top))
    if values["trace"]:
        _write_trace(result, values["trace"])
    for caution in result.cautions:
        sys.stderr.write(f"caution: {printable(caution.text, 2000)}\n")
    _print(result, "text" if path else style, top)
    for output in outputs:
        print(f"\nwrote {printable(output)}")
    return 0


def _take_arguments(arguments: tuple[str, ...]) -> tuple[str, str | None, str]:
    """Return base, new and case: a second argument is a file if there is one of this name, or if it looks like one."""
    match arguments:
        case (run,):
            return run, None, ""
        case (base, second) if os.path.exists(second) or second.endswith((".jsonl", ".json", ".csv", ".gz")):
            return base, second, ""
        case (run, case):
            return run, None, case
        case (base, new, case):
            return base, new, case
    problem = "expected two run files and optionally a case, or one run file and a case"
    raise UsageError(problem, advice="see 'torchstone explain --help'")


def _explain(request: ExplainRequest) -> ExplainResult | TimeExplainResult:
    if request.measure:
        return explain_request(request, Display(), ask)
    with show_progress("reading the run files" if request.new is None else "reading the two run files"):
        return explain_request(request, Display(), ask)


def _write_trace(result: ExplainResult | TimeExplainResult, path: str) -> None:
    if not isinstance(result, TimeExplainResult):
        raise UsageError(
            "--trace requires a performance case", advice="leave it out: instruction counts have no trace"
        )
    trace = result.trace()
    write_bytes(path, compress_trace(trace) if path.endswith(".gz") else trace)


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


def _print(result: ExplainResult | TimeExplainResult, style: str, top: int) -> None:
    """Print the explanation; on a terminal, with tables as wide as it is."""
    if style != "text":
        write_data(result.render(style, top))
        return
    if not sys.stdout.isatty():
        sys.stdout.write(result.render(style, top))
        return
    layout = TextLayout(max(WIDTH, min(WIDEST, shutil.get_terminal_size().columns)), spacing=1)
    for block in _blocks(result, top, layout):
        if isinstance(block, str):
            print(block)
        else:
            print_result_table(block)


def _blocks(
    result: ExplainResult | TimeExplainResult, top: int, layout: TextLayout
) -> Iterator[str | ResultTable]:
    if isinstance(result, ExplainResult):
        yield from explanation_blocks(result.explanation, top, layout)
    elif result.is_overview:
        yield overview_table(result.explanations, layout)
        yield from result.notes
    else:
        yield from time_blocks(result.explanations[0], top, layout)


explain_command = make_command("explain", explain, OPTIONS, "RUN [NEW] [CASE]", required=True)
