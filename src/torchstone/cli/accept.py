"""``torchstone accept``: show what adopting results would change in a baseline, ask, and write it."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence

from torchstone.baseline import require_common_probe
from torchstone.baseline_edit import Change
from torchstone.cli.clicked import make_command
from torchstone.cli.plain import Option
from torchstone.cli.reading import CONFIG, KIND, KINDS, ONLY, RULE, SET, patience, read_results
from torchstone.cli.tables import print_table
from torchstone.config import load_settings, parse_rule
from torchstone.disk import read_text, replace_text
from torchstone.errors import InputError, UsageError
from torchstone.formats import FORMATS, recognise
from torchstone.gate.rules import RuleBook
from torchstone.model import Reading
from torchstone.proposal import Proposal, Wish, new_baseline, propose
from torchstone.report.rows import short_name
from torchstone.results import merge, require_results
from torchstone.units import count_of, format_change, format_value
from torchstone.vocabulary import METRICS

OPTIONS = (
    Option("--baseline", "baseline", "FILE", "The baseline to update; with --add-new it may be a new file."),
    ONLY,
    Option(
        "--metric",
        "metrics",
        "NAME",
        "Adopt only this metric (a name or pattern). Repeatable.",
        multiple=True,
    ),
    Option("--add-new", "add_new", "", "Add rows for cases that have none."),
    Option("--prune", "prune", "", "Remove rows of cases that have no result."),
    Option("--include-unstable", "include_unstable", "", "Adopt the majority where the files disagree."),
    Option("--dry-run", "dry_run", "", "Show the changes and a unified diff; write nothing."),
    Option("--diff", "diff", "", "Show a unified diff as well."),
    Option("--yes", "yes", "", "Do not ask."),
    RULE,
    SET,
    KIND,
    Option(
        "--baseline-kind",
        "baseline_kind",
        "KIND",
        "The kind of the baseline file, if it is not to be recognised.",
        choices=KINDS,
    ),
    CONFIG,
)


def accept(
    arguments: tuple[str, ...],
    *,
    baseline: str | None,
    only: tuple[str, ...],
    metrics: tuple[str, ...],
    add_new: bool,
    prune: bool,
    include_unstable: bool,
    dry_run: bool,
    diff: bool,
    yes: bool,
    rules: tuple[str, ...],
    assignments: tuple[str, ...],
    kind: str | None,
    baseline_kind: str | None,
    config: str | None,
) -> int:
    """Make RESULTS the new baseline, after showing what that changes.

    Several files may be shards or repeats. A status or count is adopted by
    majority, and held back where the files disagree; a number is the median,
    and adopted only if it moved by more than a third of its margin. Row
    order, comments, blank lines and margins of the baseline stay as they are.

    \b
    Examples:
      torchstone accept results.csv --baseline expected.csv
      torchstone accept run*.csv --baseline expected.csv --only 'Bert*' --yes
      torchstone accept results.csv --baseline new.csv --add-new
      torchstone accept results.csv --baseline expected.csv --dry-run
    """
    settings = load_settings(config)
    path = _baseline_path(baseline, settings.baselines)
    if not arguments:
        raise UsageError(
            "no results given", advice="for example: torchstone accept results.csv --baseline expected.csv"
        )
    with patience("comparing"):
        readings = read_results(arguments, kind, assignments)
        require_results(readings, kind)
        for reading in readings:
            merge([reading])
        old, text = _read_baseline(path, baseline_kind, readings, add_new=add_new)
        require_common_probe(readings, [old])
        rule_book = RuleBook((*settings.rules, *map(parse_rule, rules)))
        proposal = propose(
            old, text, readings, rule_book, Wish(only, metrics, prune, add_new, include_unstable)
        )
    _show(proposal, path)
    for caution in (caution for reading in (*readings, old) for caution in reading.cautions):
        print(f"caution: {caution}")
    if not proposal.adopted:
        print("nothing was written")
        return 0
    FORMATS[old.kind].read(path, proposal.text)  # what is written can be read: an error here writes nothing
    if diff or dry_run:
        _show_diff(path, text, proposal.text)
    if dry_run:
        print("\nnothing was written (--dry-run)")
        return 0
    return _write(path, text, proposal, yes=yes)


def _write(path: str, text: str, proposal: Proposal, *, yes: bool) -> int:
    """Ask, unless told not to, and replace the file."""
    if not yes and not _confirm(path, len(proposal.adopted)):
        print("nothing was written")
        return 1
    replace_text(path, text, proposal.text)
    print(f"wrote {path}")
    return 0


def _baseline_path(given: str | None, configured: Sequence[str]) -> str:
    if given:
        return given
    if len(configured) == 1:
        return configured[0]
    raise UsageError("no baseline given", advice="say which file to update: --baseline FILE")


def _read_baseline(
    path: str, kind: str | None, readings: Sequence[Reading], *, add_new: bool
) -> tuple[Reading, str]:
    if not os.path.exists(path):
        if not add_new:
            raise InputError("no such file", path=path, advice="to start a new baseline, add --add-new")
        fresh = new_baseline(path, readings)
        return Reading(path, kind or fresh.kind, fresh.run, ()), ""
    text = read_text(path)
    return FORMATS[kind or recognise(path, text)].read(path, text), text


def _show(proposal: Proposal, path: str) -> None:
    """The changes as a table, then what was left alone and why."""
    if not proposal.changes:
        print(f"nothing to change in {path}")
    else:
        rows = [_row(change) for change in proposal.changes]
        print_table(("", "case", "metric", "old", "new", "note"), rows, title=f"{path}: {_tally(proposal)}")
    if proposal.unadded:
        print(f"{count_of(proposal.unadded, 'case')} without a baseline row: --add-new adds them")
    if proposal.unpruned:
        print(f"{count_of(proposal.unpruned, 'row')} without a result kept: --prune removes them")


def _tally(proposal: Proposal) -> str:
    of_action = {
        action: sum(c.action == action for c in proposal.changes)
        for action in ("change", "add", "remove", "hold")
    }
    nouns = {"change": "changed", "add": "added", "remove": "removed", "hold": "held back"}
    return ", ".join(f"{number:,} {nouns[action]}" for action, number in of_action.items() if number)


def _row(change: Change) -> tuple[str, ...]:
    metric = METRICS.get(change.metric)
    unit = metric.unit if metric else ""
    note = change.note
    if (
        isinstance(change.old, int | float)
        and isinstance(change.new, int | float)
        and change.old != change.new
    ):
        note = f"{format_change(change.new, change.old)} {note}".strip()
    old, new = (format_value(value, unit) for value in (change.old, change.new))
    return change.action, short_name(change.case, axes=True), change.metric, old, new, note


def _show_diff(path: str, old: str, new: str) -> None:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), path, path, lineterm="")
    print("\n" + "\n".join(lines))


def _confirm(path: str, changes: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "cannot ask: this is not a terminal", advice="add --yes to write, or --dry-run to look"
        )
    answer = input(f"write {count_of(changes, 'change')} to {path}? [y/N] ")
    return answer.strip().lower() in {"y", "yes"}


accept_command = make_command("accept", accept, OPTIONS, "RESULTS...", required=False)
