"""``torchstone accept``: show what adopting results would change in a baseline, ask, and write it."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence

from msgspec import structs

from torchstone.baselines.adopt import Wish
from torchstone.baselines.propose import Proposal, find_repeatable, new_baseline, propose
from torchstone.baselines.text_edits import Change
from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.plain import Option
from torchstone.cli.options.shared import CONFIG, KIND, KINDS, ONLY, RULE, SET, patience, read_results
from torchstone.cli.terminal.tables import print_table
from torchstone.core.cautions import Caution, merged
from torchstone.core.config import load_settings, parse_rule
from torchstone.core.disk import read_text, replace_text, try_file
from torchstone.core.errors import InputError, UsageError, printable
from torchstone.core.fingerprint import unknowns
from torchstone.core.records import Reading
from torchstone.core.text.units import count_of, format_change, format_value
from torchstone.core.vocabulary import METRICS
from torchstone.formats import FORMATS, recognise
from torchstone.formats.merge import merge, require_results
from torchstone.gate.baseline import require_common_probe
from torchstone.gate.rules import RuleBook
from torchstone.reporting.views.names import Names

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
    Option(
        "--repeat",
        "repeat",
        "N",
        "Measure the counted cases N more times, show their spread, and adopt a margin for each from it.",
    ),
    Option(
        "--learn-margins",
        "past",
        "PAST",
        "Learn a margin for each row from past runs: a file, a folder of files, or a pattern in quotation marks. Repeatable.",
        multiple=True,
    ),
    Option(
        "--false-alarms",
        "false_alarms",
        "RATE",
        "How many values a learned margin may leave out though nothing has changed; default 1%.",
    ),
    Option("--trust", "trust", "", "With --repeat: execute what the run file names without asking."),
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
_HOLDING_MARGINS = ("pr-time-expected", "run")


def accept(
    arguments: tuple[str, ...],
    *,
    baseline: str | None,
    only: tuple[str, ...],
    metrics: tuple[str, ...],
    add_new: bool,
    prune: bool,
    include_unstable: bool,
    repeat: str | None,
    past: tuple[str, ...],
    false_alarms: str | None,
    trust: bool,
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
    With --repeat, counts are measured again, and get margins that fit them;
    with --learn-margins, rows get the margins that past runs ask for.

    \b
    Examples:
      torchstone accept results.csv --baseline expected.csv
      torchstone accept run*.csv --baseline expected.csv --only 'Bert*' --yes
      torchstone accept results.csv --baseline new.csv --add-new
      torchstone accept results.csv --baseline expected.csv --dry-run
      torchstone accept run.jsonl --baseline expected.csv --repeat 5
      torchstone accept run.jsonl --baseline base.jsonl --learn-margins runs/
    """
    settings = load_settings(config)
    path = _baseline_path(baseline, settings.baselines)
    _require_sense(arguments, repeat, past, trust=trust)
    if not dry_run:
        try_file(path)
    wish = Wish(only, metrics, prune, add_new, include_unstable, repeat is not None)
    with patience("comparing"):
        readings = _read_results(arguments, kind, assignments)
        old, text = _read_baseline(path, baseline_kind, readings, wish)
        require_common_probe(readings, [old])
        rule_book = RuleBook((*settings.rules, *map(parse_rule, rules)))
    again = (old, readings, wish, repeat or "", assignments)
    repeats = _measure_again(*again, trust=trust) if repeat is not None else []
    with patience("comparing"):
        wish, cautions = _learn(old, readings, wish, past, false_alarms, kind, assignments)
        proposal = propose(old, text, [*readings, *repeats], rule_book, wish)
    _show(proposal, path)
    cautions = [*_unknown_variables(old, readings), *cautions]
    for caution in (*(caution for reading in (*readings, old) for caution in reading.cautions), *cautions):
        print(f"caution: {printable(caution.text, 2000)}")
    return _carry_out(proposal, old, text, diff=diff, dry_run=dry_run, yes=yes)


def _unknown_variables(old: Reading, readings: Sequence[Reading]) -> tuple[Caution, ...]:
    """The variables of which nobody can say whether they are what they were when the baseline was measured."""
    told = (unknowns(reading.run.environment, old.run.environment) for reading in readings)
    return merged(caution for found in told for caution in found)


def _require_sense(
    arguments: tuple[str, ...], repeat: str | None, past: tuple[str, ...], *, trust: bool
) -> None:
    """Refuse what cannot be meant, before anything is read."""
    if not arguments:
        raise UsageError(
            "no results given", advice="for example: torchstone accept results.csv --baseline expected.csv"
        )
    if repeat is not None and past:
        raise UsageError("--repeat and --learn-margins both find margins", advice="choose one of them")
    if trust and repeat is None:
        raise UsageError("--trust requires --repeat", advice="leave it out")


def _read_results(
    arguments: tuple[str, ...], kind: str | None, assignments: tuple[str, ...]
) -> list[Reading]:
    """The results, in which no file has a case twice."""
    readings = read_results(arguments, kind, assignments)
    require_results(readings, kind)
    for reading in readings:
        merge([reading])
    return readings


def _carry_out(proposal: Proposal, old: Reading, text: str, *, diff: bool, dry_run: bool, yes: bool) -> int:
    """Write the new baseline, if there is anything new and that is wanted."""
    if not proposal.adopted:
        print("nothing was written")
        return 0
    FORMATS[old.kind].read(
        old.path, proposal.text
    )  # what is written can be read: an error here writes nothing
    if diff or dry_run:
        _show_diff(old.path, text, proposal.text)
    if dry_run:
        print("\nnothing was written (--dry-run)")
        return 0
    return _write(old.path, text, proposal, yes=yes)


def _measure_again(
    old: Reading,
    readings: Sequence[Reading],
    wish: Wish,
    repeat: str,
    assignments: Sequence[str],
    *,
    trust: bool,
) -> list[Reading]:
    """The repeats that --repeat asks for. Everything that stands in the way is said before anything is measured."""
    from torchstone.cli.options.repeats import measure_again, parse_repeats  # noqa: PLC0415  (most accept what is there)

    repeats = parse_repeats(repeat)
    if len(readings) != 1 or readings[0].kind != "run":
        raise UsageError(
            "--repeat needs one run file, which says how to measure its cases again",
            advice="give the file that 'torchstone run' has written, or several files without --repeat",
        )
    if assignments:
        raise UsageError("--repeat measures the cases as they are, so --set has no place")
    _require_place_for_margins(old, "--repeat")
    cases = find_repeatable(old, readings[0], wish)
    if not cases:
        raise UsageError(
            "--repeat: there is nothing to measure again: no case to be accepted has a count",
            advice="look at --only and --add-new, and at what 'torchstone run --probe instructions' has measured",
        )
    return measure_again(readings[0], cases, repeats, trust=trust)


def _learn(
    old: Reading,
    readings: Sequence[Reading],
    wish: Wish,
    names: Sequence[str],
    false_alarms: str | None,
    kind: str | None,
    assignments: Sequence[str],
) -> tuple[Wish, list[Caution]]:
    """The wish with what --learn-margins finds in past runs, and what is to be said about them."""
    if not names:
        if false_alarms is not None:
            raise UsageError("--false-alarms is for --learn-margins", advice="name past runs to learn from")
        return wish, []
    from torchstone.cli.options.past_runs import learn_from, parse_false_alarms, read_past  # noqa: PLC0415

    rate = parse_false_alarms(false_alarms)
    _require_place_for_margins(old, "--learn-margins")
    past = read_past("--learn-margins", names, readings, [old.path], kind, assignments)
    lessons = learn_from(past, readings, old, wish, rate)
    return structs.replace(wish, lessons=lessons), [*past.cautions, *past.tell_apart()]


def _require_place_for_margins(old: Reading, option: str) -> None:
    """Refuse a kind of baseline that has no place for a margin."""
    if old.kind not in _HOLDING_MARGINS:
        raise UsageError(
            f"{old.path}: a file of the kind {old.kind} cannot hold the margins that {option} finds",
            advice=f"use a baseline of the kind {' or '.join(_HOLDING_MARGINS)}",
        )


def _write(path: str, text: str, proposal: Proposal, *, yes: bool) -> int:
    """Ask, unless told not to, and replace the file."""
    if not yes and not _confirm(path, len(proposal.adopted)):
        print("nothing was written")
        return 1
    replace_text(path, text, proposal.text)
    print(f"wrote {printable(path)}")
    return 0


def _baseline_path(given: str | None, configured: Sequence[str]) -> str:
    if given:
        return given
    if len(configured) == 1:
        return configured[0]
    raise UsageError("no baseline given", advice="say which file to update: --baseline FILE")


def _read_baseline(
    path: str, kind: str | None, readings: Sequence[Reading], wish: Wish
) -> tuple[Reading, str]:
    if not os.path.exists(path):
        if not wish.add_new:
            raise InputError("no such file", path=path, advice="to start a new baseline, add --add-new")
        fresh = new_baseline(path, readings, wish.only)
        return Reading(path, kind or fresh.kind, fresh.run, ()), ""
    text = read_text(path)
    return FORMATS[kind or recognise(path, text)].read(path, text), text


def _show(proposal: Proposal, path: str) -> None:
    """The changes as a table, then what was left alone and why."""
    if not proposal.changes:
        print(f"nothing to change in {printable(path)}")
    else:
        names = Names(change.case for change in proposal.changes)
        rows = [_row(change, names) for change in proposal.changes]
        header = ("", "case", "metric", "old", "new", "spread", "margin", "note")
        print_table(header, rows, title=f"{path}: {_tally(proposal)}")
    if proposal.unadded:
        print(f"{count_of(proposal.unadded, 'case')} without a baseline row: --add-new adds them")
    for probe, number in proposal.unfit.items():
        cases = count_of(number, "case")
        print(
            f"{cases} of {probe} left out: the rows of {printable(path)} are of something else; use a file of its own"
        )
    if proposal.unpruned:
        print(f"{count_of(proposal.unpruned, 'row')} without a result kept: --prune removes them")


def _tally(proposal: Proposal) -> str:
    of_action = {
        action: sum(c.action == action for c in proposal.changes)
        for action in ("change", "add", "remove", "keep", "hold")
    }
    nouns = {
        "change": "changed",
        "add": "added",
        "remove": "removed",
        "keep": "as it was",
        "hold": "held back",
    }
    return ", ".join(f"{number:,} {nouns[action]}" for action, number in of_action.items() if number)


def _row(change: Change, names: Names) -> tuple[str, ...]:
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
    apart = "" if change.spread is None else _percent(change.spread)
    return change.action, names.of(change.case), change.metric, old, new, apart, _margin_text(change), note


def _margin_text(change: Change) -> str:
    """The margin before and after, where it was looked at."""
    if change.margin is None:
        return ""
    if change.old_margin is None or change.old_margin == change.margin:
        return _percent(change.margin)
    return f"{_percent(change.old_margin)} -> {_percent(change.margin)}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:.0f}%"


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
