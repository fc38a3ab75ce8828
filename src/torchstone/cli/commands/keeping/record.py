"""``torchstone record``: record runs in a store."""

from __future__ import annotations

import sys
from typing import Any

from torchstone.api.keeping.record import RecordRequest, RecordResult, record_results
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import CONFIG, KIND, SET, show_progress
from torchstone.cli.options.store_options import BRANCH, REVISION, REVISION_FROM, STORE, SUMMARIES_ONLY
from torchstone.core.errors import printable
from torchstone.core.text.units import count_of
from torchstone.store.record_runs import Recorded, RecordEffect

OPTIONS = (STORE, REVISION, REVISION_FROM, BRANCH, SUMMARIES_ONLY, SET, KIND, CONFIG)
_MOST_LINES = 20
_SHORT = 16


def record_files(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Record FILES in the store: all of them, or none.

    FILES are run files, results in any format that torchstone reads, or
    folders of these. A run that is in the store already is not recorded
    again; one that had not finished is completed. Every run needs a revision:
    from the file, from its name (a commit, else a date), or from --revision.

    \b
    Examples:
      torchstone record run.jsonl
      torchstone record nightly/ --branch main
      torchstone record perf.csv --revision 3f2a9c1 --set device=cuda
      torchstone record archive/ --revision-from 'archive/([0-9a-f]+)/'
      torchstone record run.jsonl --store postgresql://ci@db/benchmarks
    """
    request = make_request(RecordRequest, OPTIONS, values, results=arguments)
    with show_progress("recording"):
        result = record_results(request)
    print_recorded(result)
    return 0


def print_recorded(result: RecordResult, *, to_stderr: bool = False) -> None:
    """Print what was recorded: a line for each run, unless there are many, and a summary."""
    for caution in result.cautions:
        sys.stderr.write(f"caution: {printable(caution.text, 2000)}\n")
    shown = sys.stderr if to_stderr else sys.stdout
    if len(result.runs) <= _MOST_LINES:
        for each in result.runs:
            shown.write(f"{_describe(each)}\n")
    shown.write(f"{printable(result.summary, 2000)}\n")


def _describe(run: Recorded) -> str:
    trial = f", trial {run.attempt} of this revision" if run.attempt > 1 else ""
    revision = printable(run.revision if len(run.revision) < 40 else run.revision[:_SHORT])
    counted = f": {count_of(run.cases, 'case')}" if run.effect is not RecordEffect.KNOWN else ""
    return f"{run.effect.value} {printable(run.path)} as {revision}{trial}{counted}"


record_command = make_command("record", record_files, OPTIONS, "FILES...", required=True)
