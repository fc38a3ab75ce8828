"""``torchstone pr-time``: run PyTorch's ``pr_time_benchmarks``, and write the same files."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from msgspec import structs

from torchstone.api.measuring.pr_time import (
    PrTimeRequest,
    PrTimeResult,
    check_plan,
    rows_of,
    run_request_of,
    write_rows,
)
from torchstone.cli.commands.files.convert import RAW_CELLS
from torchstone.cli.commands.measuring.run import Showing, run_to_file
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.output_checks import STANDARD_OUTPUT
from torchstone.cli.options.plain import FILE_OR_STDOUT, GENERAL, Option
from torchstone.cli.options.quantities import parse_count, parse_seconds
from torchstone.cli.options.requests import make_request
from torchstone.cli.terminal.output import require_stdout, write_data, write_exactly
from torchstone.core.errors import printable
from torchstone.core.records import Outcome
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import COUNTERS

OPTIONS = (
    Option("--output", "output", "FILE", "Append the rows to this CSV file, and write NAME.json next to it (default: print the rows).", writes=FILE_OR_STDOUT),
    Option("--counter", "counter", "NAME", f"{', '.join(COUNTERS)} (default: the first that works on this machine).", choices=tuple(COUNTERS)),
    Option("--repeat", "repeat", "N", "Iterations to count (default: as the file says, else as many as the counter needs).", parse=parse_count),
    Option("--filter", "filters", "REGEX", "Only benchmarks whose name matches. Repeatable.", multiple=True, short="-k"),
    structs.replace(RAW_CELLS, section=GENERAL),
    Option("--timeout", "timeout", "TIME", "End a benchmark that takes longer (default: 30m).", parse=parse_seconds),
    Option("--jobs", "jobs", "N", "Benchmarks to run at once (default: the number of cores).", short="-j", parse=parse_count),
)  # fmt: skip


def run_pr_time(targets: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Count instructions of PyTorch's pr_time_benchmarks.

    FILES import BenchmarkBase from benchmark_base and list their benchmarks
    in main(); they run unchanged, without PyTorch's repository. A folder
    means its *.py files. Of several files, benchmark_base.py, __init__.py and
    files without a benchmark are skipped. Suites such as compile_time and
    files with @torchstone.counted work, too.

    The rows are name,metric,value, with the smallest count of all iterations.
    A benchmark that fails has no row, is reported, and makes the exit code 1;
    so does one of several files that cannot be imported.

    'torchstone run' takes the same files and has more options. The run file
    of this command is in .torchstone/runs.

    \b
    Examples:
      torchstone pr-time benchmarks/*.py --output results.csv
      torchstone pr-time compile_time -k add_loop --counter python
      torchstone check results.csv --baseline expected_results.csv
    """
    output: str | None = None if values["output"] == STANDARD_OUTPUT else values["output"]
    if output:
        write_rows([], output, raw_cells=False)  # raises an error for an invalid file name
    else:
        require_stdout()
    request = make_request(PrTimeRequest, OPTIONS, values, targets=targets, output="")
    with contextlib.nullcontext() if output else contextlib.redirect_stdout(sys.stderr):
        finished = run_to_file(run_request_of(request), Showing(), lambda run: check_plan(run, output))
    if finished.result is None:
        _say_unfinished(finished.path)
        return finished.code
    result = PrTimeResult(finished.result.reading, finished.result.loss, finished.result.broken)
    show_rows(result.counted, output, raw_cells=values["raw_cells"])
    for outcome in result.missing:
        why = f": {printable(outcome.failure.message, 200)}" if outcome.failure else ""
        sys.stderr.write(f"no row for {printable(outcome.case.name, 200)} ({outcome.status}{why})\n")
    return finished.code if result.counted else finished.code or 1


def _say_unfinished(path: str) -> None:
    """Tell how to get the rows of an interrupted run; other hosts of a job have no run file."""
    if path:
        command = f"torchstone export {quote_word(path)} --to pr-time"
        sys.stderr.write(f"no rows were written; when the run is finished, get them with:\n  {command}\n")


def show_rows(outcomes: Sequence[Outcome], output: str | None, *, raw_cells: bool) -> None:
    """Print the rows, or append them to a file."""
    if not output:
        (write_exactly if raw_cells else write_data)(rows_of(outcomes, raw_cells=raw_cells))
        return
    write_rows(outcomes, output, raw_cells=raw_cells)
    if outcomes and os.path.isfile(output):
        print(
            f"wrote {count_of(len(outcomes), 'benchmark')} to {printable(output)}, and a JSON file for each next to it"
        )


pr_time_command = make_command("pr-time", run_pr_time, OPTIONS, "FILES...", required=True)
