"""``torchstone quarantine``: list, add, remove and check cases that must not block."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import date
from typing import TypeVar

import click

from torchstone.api.quarantine.quarantine_list import (
    NewEntryRequest,
    add_to_file,
    check_file,
    name_of,
    read_entries,
    remove_from_file,
)
from torchstone.api.quarantine.quarantine_review import CheckEntriesRequest
from torchstone.cli.commands.judging.suggest_quarantine import suggest_command
from torchstone.cli.options.shared import SET, parse_day, show_progress
from torchstone.cli.terminal.tables import print_result_table, print_table
from torchstone.core.cautions import Caution
from torchstone.core.config import QUARANTINE_NAME
from torchstone.core.errors import printable
from torchstone.core.quarantine_entries import QuarantineEntry
from torchstone.core.text.units import count_of
from torchstone.formats.merge import parse_axes

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


def _say_cautions(cautions: Sequence[Caution]) -> None:
    for caution in cautions:
        print(f"caution: {caution.text}")


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
    entries, cautions = read_entries(path, version or "")
    _say_cautions(cautions)
    today = date.today()
    rows = [_row(entry, today) for entry in sorted(entries, key=lambda entry: not entry.is_expired(today))]
    if not rows:
        print(f"{printable(path)}: no entries")
        return 0
    header = ("state", "case", "metric", "platform", "since", "expires", "owner", "reason", "link")
    print_table(header, rows, title=f"{name_of(path, version or '')}: {count_of(len(rows), 'entry')}")
    return 0


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
    request = NewEntryRequest(
        case=pattern,
        reason=reason,
        link=link,
        owner=owner,
        metrics=metrics,
        platform=platform,
        since=parse_day("--since", since),
        expires=parse_day("--expires", expires),
        allow_missing=allow_missing,
        replace=replace,
    )
    entry, has_replaced = add_to_file(path, request)
    print(f"{'replaced' if has_replaced else 'added'} {printable(pattern)} in {printable(path)}")
    if not entry.expires:
        print("the entry never expires; set --expires to make sure that somebody reviews it")
    return 0


@quarantine_command.command("remove")
@click.argument("pattern")
@_file_option
def remove(pattern: str, path: str) -> int:
    """Remove the entries whose pattern is exactly PATTERN.

    \b
    Example:
      torchstone quarantine remove yolov3
    """
    gone = remove_from_file(path, pattern)
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
    """Find entries that are expired, unused, or no longer needed.

    RESULTS are files in any format, one for each repeat of a run: an entry
    can be released if its cases passed in all of them. The exit code is 1 if
    an entry has expired.

    \b
    Example:
      torchstone quarantine check run1.csv run2.csv --baseline expected.csv
    """
    request = CheckEntriesRequest(
        results=results,
        baselines=baselines,
        platforms=platforms,
        axes=tuple(parse_axes(axes).items()),
        as_of=parse_day("--as-of", as_of),
        upstream_version=version or "",
    )
    with show_progress("judging"):
        review = check_file(path, request)
    _say_cautions(review.cautions)
    print_result_table(review.table)
    return review.exit_code
