"""``torchstone pr-time``: PyTorch's ``pr_time_benchmarks``, with its files in and its files out."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from torchstone.cli.commands.files.convert import RAW_CELLS
from torchstone.cli.commands.measuring.run import run_to_file
from torchstone.cli.options import run_options
from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.output_trial import STANDARD_OUTPUT
from torchstone.cli.options.plain import FILE_OR_STDOUT, Option
from torchstone.cli.terminal.output import require_stdout, write_data, write_exactly
from torchstone.core.disk import read_text, replace_text, try_file, write_text
from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case, Outcome, Run
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import COUNTERS, PASSED, Probe
from torchstone.formats import read_file
from torchstone.formats.table import defuse
from torchstone.formats.torch import pr_time_csv
from torchstone.measure.runner import RUNS

OPTIONS = (
    Option("--output", "output", "FILE", "Append the rows to this CSV file, and write NAME.json beside it; by default the rows are printed.", writes=FILE_OR_STDOUT),
    Option("--counter", "counter", "NAME", f"What counts: {', '.join(COUNTERS)}; by default the first that this machine has.", choices=tuple(COUNTERS)),
    Option("--repeat", "repeat", "N", "Count N iterations; by default as many as the file asks for, else what the counter needs."),
    Option("--filter", "filters", "REGEX", "Only benchmarks whose name has this in it. Repeatable.", multiple=True, short="-k"),
    RAW_CELLS,
    Option("--timeout", "timeout", "TIME", "End a benchmark that takes longer; by default 30m."),
    Option("--jobs", "jobs", "N", "Benchmarks at once; by default as many as there are cores.", short="-j"),
)  # fmt: skip
_SEPARATORS = re.compile(r"[%/\\:\x00-\x1f\x7f]")


def run_pr_time(targets: tuple[str, ...], **given: Any) -> int:  # noqa: ANN401  (click gives texts, flags and tuples)
    """Count the instructions of files that were written for PyTorch's pr_time_benchmarks.

    FILES say 'from benchmark_base import BenchmarkBase', and in their main()
    which benchmarks there are; they run as they are, and need nothing of
    PyTorch's repository. A folder means its *.py files. Of several files,
    benchmark_base.py, __init__.py and those without a benchmark are skipped.
    Suites work too, such as compile_time, and files with
    @torchstone.counted. The rows are name,metric,value, the smallest count of
    all iterations. A benchmark that fails has no row, is named, and makes the
    exit code 1; so does one of several files that cannot be imported.

    'torchstone run' takes the same files, and has more options. The run file
    of this command is in .torchstone/runs.

    \b
    Examples:
      torchstone pr-time benchmarks/*.py --output results.csv
      torchstone pr-time compile_time -k add_loop --counter python
      torchstone check results.csv --baseline expected_results.csv
    """
    output = None if given["output"] == STANDARD_OUTPUT else given["output"]
    if output:
        _check_output(output)
    else:
        require_stdout()
    with contextlib.nullcontext() if output else contextlib.redirect_stdout(sys.stderr):
        finished = run_to_file(targets, _request(new_run_file(), given), lambda run: _check_plan(run, output))
    code, run_file = finished.code, finished.path
    if not run_file:
        return code
    run = read_file(run_file).run
    if not run.finished:
        command = f"torchstone export {quote_word(run_file)} --to pr-time"
        sys.stderr.write(
            f"no rows were written; once the run is finished, these are its rows:\n  {command}\n"
        )
        return code
    outcomes = sorted(run.outcomes, key=lambda outcome: run.plan.index(outcome.case))
    counted = [outcome for outcome in outcomes if outcome.status == PASSED and outcome.measurements]
    write_rows(counted, output, raw_cells=given["raw_cells"])
    _name_missing([outcome for outcome in outcomes if outcome not in counted])
    return code if counted else code or 1


def _check_output(path: str) -> None:
    """Refuse a name that the JSON file of a benchmark may have."""
    if path.endswith(".json"):
        raise UsageError(f"--output {path}: the rows are CSV", advice="such as results.csv")


def new_run_file() -> str:
    """A name where runs are kept unless somebody says where."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return os.path.join(RUNS, f"{now}-{secrets.token_hex(3)}.jsonl")


def _request(run_file: str, given: dict[str, Any]) -> dict[str, Any]:
    """The same as options of ``torchstone run``."""
    request: dict[str, Any] = {
        option.name: () if option.multiple else None if option.metavar else False
        for option in run_options.OPTIONS
    }
    passed_on = {name: value for name, value in given.items() if name not in {"output", "raw_cells"}}
    return request | passed_on | {"probes": (Probe.INSTRUCTIONS.value,), "output": run_file}


def _check_plan(run: Run, output: str | None) -> None:
    """Refuse, before anything is measured, names that rows or files cannot have."""
    _refuse_namesakes(run.plan)
    if output and (os.path.isfile(output) or not os.path.exists(output)):
        for case in run.plan:
            try_file(_records_file(output, case))


def _records_file(output: str, case: Case) -> str:
    return os.path.join(os.path.dirname(os.path.abspath(output)), file_name(case.benchmark))


def _refuse_namesakes(cases: Sequence[Case]) -> None:
    """Refuse rows that nobody could tell apart: they have only a name."""
    suites: dict[str, str] = {}
    for case in cases:
        name, suite = case.benchmark, case.suite
        if name in suites:
            raise UsageError(
                f"{printable(name)} is in {suites[name]} and in {suite}, so their rows could not be told apart",
                advice="measure one of the two",
            )
        suites[name] = suite


def write_rows(outcomes: Sequence[Outcome], output: str | None, *, raw_cells: bool) -> None:
    """Print the rows, or append them to a file, with the records of each benchmark beside it."""
    rows = "".join(map(pr_time_csv.write_rows, outcomes))
    rows = rows if raw_cells else defuse(rows)
    if not output:
        (write_exactly if raw_cells else write_data)(rows)
        return
    if not outcomes:
        return
    _append(output, rows)
    if not os.path.isfile(output):  # beside a pipe or a device nothing is written
        return
    for outcome in outcomes:
        write_text(_records_file(output, outcome.case), pr_time_csv.write_records(outcome))
    print(
        f"wrote {count_of(len(outcomes), 'benchmark')} to {printable(output)}, and a JSON file for each beside it"
    )


def _append(path: str, rows: str) -> None:
    """Add rows to what is there, each on a line of its own; what is no regular file is only written to."""
    if os.path.exists(path) and not os.path.isfile(path):
        write_text(path, rows)
        return
    before = read_text(path) if os.path.exists(path) else ""
    end = "" if not before or before.endswith("\n") else "\n"
    replace_text(path, before, f"{before}{end}{rows}")


def file_name(benchmark: str) -> str:
    """The name of a benchmark's JSON file, which lies in the folder it is written into, whatever the benchmark is called.

    >>> file_name("add_loop_eager"), file_name("../a/b")
    ('add_loop_eager.json', '..%2Fa%2Fb.json')
    """
    return _SEPARATORS.sub(lambda found: f"%{ord(found[0]):02X}", benchmark) + ".json"


def _name_missing(outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        why = f": {printable(outcome.failure.message, 200)}" if outcome.failure else ""
        sys.stderr.write(f"no row for {printable(outcome.case.name, 200)} ({outcome.status}{why})\n")


pr_time_command = make_command("pr-time", run_pr_time, OPTIONS, "FILES...", required=True)
