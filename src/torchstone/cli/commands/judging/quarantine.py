"""``torchstone quarantine``: list, add, remove and check cases that must not block."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import date
from typing import TypeVar

import click

from torchstone.api.sources import list_baselines, read_input, read_inputs
from torchstone.cli.commands.judging.suggest_quarantine import suggest_command
from torchstone.cli.options.shared import SET, parse_day, show_progress
from torchstone.cli.terminal.tables import print_table
from torchstone.core.config import QUARANTINE_NAME, load_config
from torchstone.core.disk import read_text
from torchstone.core.errors import UsageError, printable
from torchstone.core.quarantine_entries import EntriesByCase, QuarantineEntry
from torchstone.core.records import Reading, Rule, ScopedRule
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import quote_word
from torchstone.core.text.units import count_of
from torchstone.core.upstream import find_version, tell_idle, without_removed
from torchstone.core.vocabulary import ACCURACY, Verdict
from torchstone.formats.merge import merge, parse_axes
from torchstone.gate.baseline import Baseline
from torchstone.gate.blocking_policy import make_policy
from torchstone.gate.checking.against_baseline import check_against_baseline
from torchstone.gate.judgement import Conditions, Row
from torchstone.gate.quarantine_file import (
    add_entry,
    read_quarantine,
    read_removals,
    remove_entries,
    write_quarantine,
)
from torchstone.gate.rules import RuleBook

F = TypeVar("F", bound=Callable[..., object])


def _file_option(command: F) -> F:
    help_text = "Quarantine file (default: quarantine.toml)."
    return click.option("--file", "path", default=QUARANTINE_NAME, metavar="FILE", help=help_text)(command)


@click.group("quarantine", context_settings={"help_option_names": ["-h", "--help"]})
def quarantine_command() -> None:
    """Manage the list of cases that must not block.

    \b
    Examples:
      torchstone quarantine add yolov3 --reason "flaky since the driver update" \\
          --expires 2027-01-31
      torchstone quarantine list
      torchstone quarantine check run1.csv run2.csv run3.csv
      torchstone quarantine suggest --branch main
    """


quarantine_command.add_command(suggest_command)


def _version_option(command: F) -> F:
    help_text = (
        "Include PyTorch's list of flaky models, of this version, without the entries that the file removes."
    )
    option = click.option("--upstream-version", "version", metavar="VERSION", help=help_text)
    return option(command)


def _read_entries(path: str, version: str | None) -> list[QuarantineEntry]:
    """Return the entries of a file and of an upstream version; warn about removals that match none of the latter."""
    if version is None:
        return read_quarantine(path)
    chosen = find_version(version)
    if not os.path.exists(path) and path == QUARANTINE_NAME:
        return list(chosen.flaky)
    shipped, idle = without_removed(chosen, read_removals(path))
    for removal in idle:
        print(f"caution: {tell_idle(removal, chosen.name).text}")
    return [*read_quarantine(path), *shipped]


@quarantine_command.command("list")
@_version_option
@_file_option
def list_entries(path: str, version: str | None) -> int:
    """List all entries, expired ones first.

    \b
    Examples:
      torchstone quarantine list --file ci/quarantine.toml
      torchstone quarantine list --upstream-version 2.13
    """
    if path == QUARANTINE_NAME and not os.path.exists(path) and version is None:
        print(f"no {printable(path)} in this folder: nothing is quarantined")
        return 0
    entries = _read_entries(path, version)
    today = date.today()
    rows = [_row(entry, today) for entry in sorted(entries, key=lambda entry: not entry.is_expired(today))]
    if not rows:
        print(f"{printable(path)}: no entries")
        return 0
    header = ("state", "case", "metric", "platform", "since", "expires", "owner", "reason", "link")
    print_table(header, rows, title=f"{_title(path, version)}: {count_of(len(rows), 'entry')}")
    return 0


def _title(path: str, version: str | None) -> str:
    if version is None:
        return path
    return f"{path} and the flaky list {version}" if os.path.exists(path) else f"the flaky list {version}"


def _row(entry: QuarantineEntry, today: date) -> tuple[str, ...]:
    state = "expired" if entry.is_expired(today) else "active" if entry.is_active(today) else "pending"
    dates = (
        entry.since.isoformat() if entry.since else "",
        entry.expires.isoformat() if entry.expires else "never",
    )
    return (
        state,
        entry.case,
        ", ".join(entry.metrics),
        entry.platform,
        *dates,
        entry.owner,
        entry.reason,
        entry.link,
    )


@quarantine_command.command("add")
@click.argument("pattern")
@click.option("--reason", required=True, help="Why the case must not block.")
@click.option("--link", default="", help="URL of an issue or discussion.")
@click.option("--owner", default="", help="Who is responsible for the entry.")
@click.option("--metric", "metrics", multiple=True, help="Only this metric. Repeatable.")
@click.option("--platform", default="", help="Only on this platform.")
@click.option("--since", metavar="DATE", help="First day (default: today).")
@click.option("--expires", metavar="DATE", help="Last day (default: no expiry).")
@click.option("--allow-missing", is_flag=True, help="Also cover a missing result.")
@click.option(
    "--replace", is_flag=True, help="Replace the entry for PATTERN, for example to change its dates."
)
@_file_option
def add(
    pattern: str,
    reason: str,
    link: str,
    owner: str,
    metrics: tuple[str, ...],
    platform: str,
    since: str | None,
    expires: str | None,
    allow_missing: bool,
    replace: bool,
    path: str,
) -> int:
    """Add an entry for PATTERN.

    PATTERN is the name or id of a case, or a shell pattern.

    \b
    Example:
      torchstone quarantine add 'resnet*' --metric graph_breaks \\
          --reason "dynamo rewrite in progress" --expires 2027-01-31
    """
    text = read_text(path) if os.path.exists(path) else ""
    kept, gone = _take_out(path, text, pattern, metrics, platform) if replace else (text, [])
    old = gone[0] if gone else QuarantineEntry(pattern, reason, path, 0)
    first = parse_day("--since", since) or old.since or date.today()
    last = parse_day("--expires", expires) or old.expires
    if last and last < first:
        raise UsageError(f"--expires {last} is before the first day, {first}", advice="nothing was written")
    fields: dict[str, str | date | bool | tuple[str, ...]] = {
        "case": pattern,
        "reason": redact(reason),
        "link": redact(link or old.link),
        "owner": owner or old.owner,
        "metric": metrics or old.metrics,
        "platform": platform or old.platform,
        "since": first,
        "allow_missing": allow_missing or old.allow_missing,
    }
    if last:
        fields["expires"] = last
    write_quarantine(path, text, add_entry(path, kept, fields))
    print(f"{'replaced' if gone else 'added'} {printable(pattern)} in {printable(path)}")
    if not last:
        print("the entry never expires; set --expires to make sure that somebody reviews it")
    return 0


def _take_out(
    path: str, text: str, pattern: str, metrics: tuple[str, ...], platform: str
) -> tuple[str, list[QuarantineEntry]]:
    """Return the text without the entry to replace: the only one for the pattern, or the one with this metric and platform."""
    _, there = remove_entries(path, text, pattern)
    meant = [
        entry
        for entry in there
        if len(there) == 1
        or ((not metrics or entry.metrics == metrics) and (not platform or entry.platform == platform))
    ]
    if len(meant) > 1:
        told = "; ".join(
            f"line {entry.line}: metric {', '.join(entry.metrics) or 'any'}, platform {entry.platform or 'any'}"
            for entry in meant
        )
        raise UsageError(
            f"{path} has {len(meant)} entries for {pattern} ({told})",
            advice="select one with --metric and --platform, or remove all of them first",
        )
    return remove_entries(path, text, pattern, lambda entry: entry in meant)


@quarantine_command.command("remove")
@click.argument("pattern")
@_file_option
def remove(pattern: str, path: str) -> int:
    """Remove the entries whose pattern is exactly PATTERN.

    \b
    Example:
      torchstone quarantine remove yolov3
    """
    text = read_text(path)
    left, gone = remove_entries(path, text, pattern)
    if not gone:
        there = ", ".join(entry.case for entry in read_quarantine(path)) or "none"
        raise UsageError(f"{path} has no entry for {pattern}", advice=f"it has: {there}")
    write_quarantine(path, text, left)
    print(f"removed {count_of(len(gone), 'entry')} for {printable(pattern)} from {printable(path)}")
    return 0


@quarantine_command.command("check")
@click.argument("results", nargs=-1)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="FILE",
    help="Baseline file (default: every status must be pass). Repeatable.",
)
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    metavar="NAME",
    help="Apply entries for this platform, too. Repeatable.",
)
@click.option(SET.flag, SET.name, multiple=True, metavar=SET.metavar, help=SET.help)
@click.option("--as-of", metavar="DATE", help="Evaluate dates as of this day (default: today).")
@_version_option
@_file_option
def check_entries(
    results: tuple[str, ...],
    baselines: tuple[str, ...],
    platforms: tuple[str, ...],
    axes: tuple[str, ...],
    as_of: str | None,
    path: str,
    version: str | None,
) -> int:
    """Find entries that have expired, match nothing, or can be released.

    RESULTS are files in any format, one for each repeat of a run: an entry
    can be released if its cases passed in all of them. The exit code is 1 if
    an entry has expired.

    \b
    Example:
      torchstone quarantine check run1.csv run2.csv --baseline expected.csv
    """
    entries = _read_entries(path, version)
    today = parse_day("--as-of", as_of) or date.today()
    with show_progress("judging"):
        expected = [read_input(each) for each in list_baselines(baselines)]
        judged = [
            _judge(reading, expected) for reading in read_inputs(results, "", tuple(parse_axes(axes).items()))
        ]
    covered = [_covered(entries, rows, frozenset(platforms)) for rows in judged]
    rows = [_verdict(entry, [by_entry[n] for by_entry in covered], today) for n, entry in enumerate(entries)]
    if not rows:
        print(f"{printable(path)}: no entries")
        return 0
    title = f"{_title(path, version)}: {count_of(len(rows), 'entry')}"
    print_table(("", "case", "passed", "what to do"), rows, title=title)
    return int(any(entry.is_expired(today) for entry in entries))


def _judge(reading: Reading, expected: Sequence[Reading]) -> list[Row]:
    """Judge one file as the gate does; without a baseline, each status must be pass."""
    further = load_config(None).rules
    rules = further if expected else (*further, ScopedRule(Rule("must_pass"), ACCURACY))
    conditions = Conditions(make_policy("strict", (), ()), RuleBook(rules))
    return check_against_baseline(merge([reading]), Baseline(expected), conditions).rows


def _covered(
    entries: Sequence[QuarantineEntry], rows: Sequence[Row], platforms: frozenset[str]
) -> list[list[Row]]:
    """Return the rows of one file that each entry covers."""
    index, places = EntriesByCase(entries), {entry: n for n, entry in enumerate(entries)}
    found: list[list[Row]] = [[] for _ in entries]
    for row in rows:
        for entry in index.of(row.case):
            if entry.covers(row.case, row.metric, platforms):
                found[places[entry]].append(row)
    return found


def _verdict(
    entry: QuarantineEntry, by_file: Sequence[Sequence[Row]], today: date
) -> tuple[str, str, str, str]:
    """Return an entry's state, its case, how often it passed, and what to do, from the rows it covers in each file."""
    seen = [{row.case: True for row in rows} for rows in by_file]
    for rows, cases in zip(by_file, seen, strict=True):
        cases.update({row.case: False for row in rows if not _is_good(row)})
    passed, total = sum(sum(cases.values()) for cases in seen), sum(map(len, seen))
    times = f"{passed} of {total}" if by_file else ""
    known = {case for cases in seen for case in cases}
    absent = sum(not known <= cases.keys() for cases in seen)
    if entry.is_expired(today):
        return (
            "expired",
            entry.case,
            times,
            f"ended {entry.expires}: fix the case, or add --replace with a new date",
        )
    if by_file and not total:
        return "unused", entry.case, times, "matches no judged case"
    if not total or passed < total:
        return "active", entry.case, times, "keep"
    if absent:
        of_what = "no row" if len(known) == 1 else "a case without a row"
        return "active", entry.case, times, f"{of_what} in {count_of(absent, 'file')}: shard or crash?"
    if not entry.line:
        return (
            "release",
            entry.case,
            times,
            "passed here: to remove it from the flaky list, add a [[not_flaky]] table",
        )
    of_file = "" if entry.path == QUARANTINE_NAME else f" --file {quote_word(entry.path)}"
    command = f"torchstone quarantine remove {quote_word(entry.case)}{of_file}"
    return "release", entry.case, times, f"could be released: {command}"


def _is_good(row: Row) -> bool:
    """Return whether a row is no reason to keep an entry: it passes, or its number has improved."""
    return row.verdict in {Verdict.PASS, Verdict.IMPROVEMENT}
