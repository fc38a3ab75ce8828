"""``torchstone accept``: show how adopting results would change a baseline, ask, and write it."""

from __future__ import annotations

import sys
from typing import Any

from torchstone.api.judging.accept import AcceptResult, propose_adoption, propose_for_folder
from torchstone.api.judging.accept_folder import is_folder
from torchstone.api.judging.accept_request import AcceptRequest, read_adoption, resolve_baseline
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import Option
from torchstone.cli.options.quantities import parse_count, parse_share
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import (
    BASELINE_KIND,
    CASES,
    CONFIG,
    INPUT,
    KIND,
    ONLY,
    RULE,
    SET,
    show_progress,
)
from torchstone.cli.terminal.tables import print_result_table
from torchstone.core.disk import try_file
from torchstone.core.errors import UsageError, printable
from torchstone.core.text.units import count_of

_ADOPTED, _MARGINS = "What to adopt", "Margins"

OPTIONS = (
    Option(
        "--baseline",
        "baseline",
        "PATH",
        "Baseline to update; with --add-new it may be a new file. A folder has a file for each probe.",
        section=INPUT,
    ),
    ONLY,
    Option(
        "--metric",
        "metrics",
        "NAME",
        "Only this metric: a name or pattern. Repeatable.",
        multiple=True,
        section=CASES,
    ),
    Option(
        "--add-new", "add_new", "", "Add rows for cases that have none in the baseline.", section=_ADOPTED
    ),
    Option("--prune", "prune", "", "Remove rows of cases without a result.", section=_ADOPTED),
    Option(
        "--include-unstable",
        "include_unstable",
        "",
        "Where the result files disagree, adopt the majority.",
        section=_ADOPTED,
    ),
    Option(
        "--repeat",
        "repeat",
        "N",
        "Measure the counted cases N more times, show the spread, and derive a margin for each.",
        parse=parse_count,
        section=_MARGINS,
    ),
    Option(
        "--learn-margins",
        "past",
        "PAST",
        "Learn a margin for each row from past runs: a file, a folder, or a quoted shell pattern. Repeatable.",
        multiple=True,
        section=_MARGINS,
    ),
    Option(
        "--false-alarms",
        "false_alarms",
        "RATE",
        "Share of values that a learned margin may exclude although nothing has changed (default: 1%).",
        parse=parse_share,
        section=_MARGINS,
    ),
    Option(
        "--trust",
        "trust",
        "",
        "With --repeat: execute the code that the run file names, without asking.",
        section=_MARGINS,
    ),
    Option("--dry-run", "dry_run", "", "Show the changes and a unified diff; write nothing."),
    Option("--diff", "diff", "", "Also show a unified diff."),
    Option("--yes", "yes", "", "Write without asking."),
    RULE,
    SET,
    KIND,
    BASELINE_KIND,
    CONFIG,
)


def accept(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Adopt RESULTS as the new baseline, after confirmation.

    Shows the changes and asks before writing. Several files may be shards or
    repeats. Statuses and counts are adopted if all files agree, otherwise held
    back; of other numbers the median is adopted, if it moved by more than a
    third of its margin. Row order, comments, blank lines and margins of the
    baseline are kept. With --repeat, counts are measured again to derive
    margins; with --learn-margins, margins are learned from past runs.

    \b
    Examples:
      torchstone accept results.csv --baseline expected.csv
      torchstone accept run*.csv --baseline expected.csv --only 'Bert*' --yes
      torchstone accept results.csv --baseline new.csv --add-new
      torchstone accept run.jsonl --baseline baselines/ --add-new
      torchstone accept results.csv --baseline expected.csv --dry-run
      torchstone accept run.jsonl --baseline expected.csv --repeat 5
      torchstone accept run.jsonl --baseline base.jsonl --learn-margins runs/
    """
    request = resolve_baseline(make_request(AcceptRequest, OPTIONS, values, results=arguments))
    is_trial = values["dry_run"]
    if is_folder(request.baseline):
        with show_progress("comparing"):
            result = propose_for_folder(request)
        for file in result.files if not is_trial else ():
            try_file(file.path, makes_folder=True)
        return _show(result, values)
    if not is_trial:
        try_file(request.baseline)
    with show_progress("comparing"):
        adoption = read_adoption(request)
    repeats = []
    if request.repeat is not None:
        from torchstone.cli.terminal.repeats import measure_on_terminal  # noqa: PLC0415  (start-up: only --repeat measures)

        repeats = measure_on_terminal(adoption)
    with show_progress("comparing"):
        result = propose_adoption(adoption, repeats)
    return _show(result, values)


def _show(result: AcceptResult, values: dict[str, Any]) -> int:
    """Show the changes, and carry them out if the user agrees."""
    for number, file in enumerate(result.files or (result,)):
        if number:
            print()
        print_result_table(file.table)
    for caution in result.cautions:
        print(f"caution: {printable(caution.text, 2000)}")
    return _carry_out(result, show_diff=values["diff"], is_trial=values["dry_run"], is_agreed=values["yes"])


def _carry_out(result: AcceptResult, *, show_diff: bool, is_trial: bool, is_agreed: bool) -> int:
    """Write the new baseline if it has changes and the user agrees."""
    if not result.adopted:
        print("nothing was written")
        return 0
    result.validate()
    if show_diff or is_trial:
        print("\n" + result.diff())
    if is_trial:
        print("\nnothing was written (--dry-run)")
        return 0
    if not is_agreed and not _confirm(result.path, len(result.adopted)):
        print("nothing was written")
        return 1
    result.write()
    for file in result.files or (result,):
        if file.adopted:
            print(f"wrote {printable(file.path)}")
    return 0


def _confirm(path: str, changes: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "cannot ask: this is not a terminal", advice="add --yes to write, or --dry-run to preview"
        )
    answer = input(f"write {count_of(changes, 'change')} to {path}? [y/N] ")
    return answer.strip().lower() in {"y", "yes"}


accept_command = make_command("accept", accept, OPTIONS, "RESULTS...", required=False)
