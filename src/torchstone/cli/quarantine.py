"""``torchstone quarantine``: list, add, remove, and check the cases that may not block."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from datetime import date
from typing import TypeVar

import click

from torchstone.baseline import Baseline
from torchstone.cli.reading import patience, read_results
from torchstone.cli.tables import print_table
from torchstone.disk import read_text
from torchstone.errors import UsageError
from torchstone.formats import read_file
from torchstone.model import Outcome, QuarantineEntry, Reading
from torchstone.quarantine import add_entry, read_quarantine, remove_entries, write_quarantine
from torchstone.results import merge
from torchstone.units import count_of
from torchstone.vocabulary import PASSED

DEFAULT_NAME = "quarantine.toml"
F = TypeVar("F", bound=Callable[..., object])


def _file_option(command: F) -> F:
    help_text = "The quarantine file. [default: quarantine.toml]"
    return click.option("--file", "path", default=DEFAULT_NAME, metavar="FILE", help=help_text)(command)


@click.group("quarantine", context_settings={"help_option_names": ["-h", "--help"]})
def quarantine_command() -> None:
    """The cases that may not block: list, add, remove, check.

    \b
    Examples:
      torchstone quarantine add yolov3 --reason "flaky since the driver update" \\
          --expires 2027-01-31
      torchstone quarantine list
      torchstone quarantine check run1.csv run2.csv run3.csv
    """


@quarantine_command.command("list")
@_file_option
def list_entries(path: str) -> int:
    """Show all entries, the expired ones first.

    \b
    Example:
      torchstone quarantine list --file ci/quarantine.toml
    """
    if path == DEFAULT_NAME and not os.path.exists(path):
        print(f"there is no {path} here: nothing is quarantined")
        return 0
    entries = read_quarantine(path)
    today = _today()
    rows = [_row(entry, today) for entry in sorted(entries, key=lambda entry: not entry.is_expired(today))]
    if not rows:
        print(f"{path}: no entries")
        return 0
    header = ("state", "case", "metric", "platform", "since", "expires", "owner", "reason", "link")
    print_table(header, rows, title=f"{path}: {count_of(len(rows), 'entry')}")
    return 0


def _row(entry: QuarantineEntry, today: date) -> tuple[str, ...]:
    state = "expired" if entry.is_expired(today) else "active"
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
@click.option("--reason", required=True, help="Why it may not block.")
@click.option("--link", default="", help="An issue or discussion about it.")
@click.option("--owner", default="", help="Who looks after it.")
@click.option("--metric", "metrics", multiple=True, help="Only this metric. Repeatable.")
@click.option("--platform", default="", help="Only on this platform.")
@click.option("--since", metavar="DATE", help="The first day. [default: today]")
@click.option("--expires", metavar="DATE", help="The last day. [default: never]")
@click.option("--allow-missing", is_flag=True, help="Cover a result that is not there, too.")
@click.option(
    "--replace", is_flag=True, help="Replace the entries for PATTERN, for example to give a new date."
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
    """Add an entry for PATTERN: a case's name, id, or a shell pattern.

    \b
    Example:
      torchstone quarantine add 'resnet*' --metric graph_breaks \\
          --reason "dynamo rewrite in progress" --expires 2027-01-31
    """
    fields: dict[str, str | date | bool | tuple[str, ...]] = {
        "case": pattern,
        "reason": reason,
        "link": link,
        "owner": owner,
        "metric": metrics,
        "platform": platform,
        "since": _date("--since", since) or _today(),
        "allow_missing": allow_missing,
    }
    if last := _date("--expires", expires):
        fields["expires"] = last
    text = read_text(path) if os.path.exists(path) else ""
    kept, gone = remove_entries(path, text, pattern) if replace else (text, [])
    write_quarantine(path, text, add_entry(path, kept, fields))
    print(f"{'replaced' if gone else 'added'} {pattern} in {path}")
    if not last:
        print("it never expires: a date (--expires) makes sure that somebody looks at it again")
    return 0


@quarantine_command.command("remove")
@click.argument("pattern")
@_file_option
def remove(pattern: str, path: str) -> int:
    """Remove the entries for exactly PATTERN.

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
    print(f"removed {count_of(len(gone), 'entry')} for {pattern} from {path}")
    return 0


@quarantine_command.command("check")
@click.argument("results", nargs=-1)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="FILE",
    help="What counts as passing. [default: the status pass]",
)
@click.option("--as-of", metavar="DATE", help="Judge dates as of this day. [default: today]")
@_file_option
def check_entries(results: tuple[str, ...], baselines: tuple[str, ...], as_of: str | None, path: str) -> int:
    """Say which entries have expired, match nothing, or could be released.

    RESULTS are files of any kind, one for each repeat of a run: an entry
    whose cases passed in all of them could be released. The exit code is 1 if
    an entry has expired.

    \b
    Example:
      torchstone quarantine check run1.csv run2.csv run3.csv
    """
    entries = read_quarantine(path)
    today = _date("--as-of", as_of) or _today()
    with patience("reading"):
        readings = [merge([reading]).readings[0] for reading in read_results(results, None, ())]
        baseline = Baseline([read_file(name) for name in baselines])
    rows = [_verdict(entry, readings, baseline, today) for entry in entries]
    if not rows:
        print(f"{path}: no entries")
        return 0
    print_table(("", "case", "passed", "what to do"), rows, title=f"{path}: {count_of(len(rows), 'entry')}")
    return int(any(entry.is_expired(today) for entry in entries))


def _verdict(
    entry: QuarantineEntry, readings: Sequence[Reading], baseline: Baseline, today: date
) -> tuple[str, str, str, str]:
    """The entry's state, its case, how often it passed, and what to do about it."""
    by_file = [[o for o in reading.run.outcomes if _covers(entry, o)] for reading in readings]
    covered = [outcome for of_file in by_file for outcome in of_file]
    passed = sum(_passes(outcome, baseline) for outcome in covered)
    times = f"{passed} of {len(covered)}" if readings else ""
    absent = sum(not of_file for of_file in by_file)
    if entry.is_expired(today):
        return (
            "expired",
            entry.case,
            times,
            f"ended {entry.expires}: mend the case, or add --replace with a new date",
        )
    if readings and not covered:
        return "unused", entry.case, times, "matches nothing here: remove it if the case is gone"
    if not covered or passed < len(covered):
        return "active", entry.case, times, "keep"
    if absent:
        return "active", entry.case, times, f"no row in {count_of(absent, 'file')}: a shard, or a crash?"
    of_file = "" if entry.path == DEFAULT_NAME else f" --file {shlex.quote(entry.path)}"
    command = f"torchstone quarantine remove {shlex.quote(entry.case)}{of_file}"
    return "release", entry.case, times, f"could be released: {command}"


def _covers(entry: QuarantineEntry, outcome: Outcome) -> bool:
    platforms = frozenset({entry.platform})
    metrics = entry.metrics or ("accuracy",)
    return any(entry.covers(outcome.case, metric, platforms) for metric in metrics)


def _passes(outcome: Outcome, baseline: Baseline) -> bool:
    """Whether a result is as it should be: the status pass, and what the baseline expects of it."""
    match = baseline.find(outcome.case) if baseline.size else None
    if match is None:
        return outcome.status == PASSED
    expected = match.row.outcome
    same_counts = all(
        outcome.value(m.metric) == m.value for m in expected.measurements if isinstance(m.value, int)
    )
    return outcome.status in {PASSED, expected.status} and same_counts


def _today() -> date:
    return date.today()


def _date(option: str, text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise UsageError(f"{option} {text}: expected a date such as 2026-12-31") from None
