"""``torchstone store``: what is in a store, and how to keep it small and sound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from torchstone.api.keeping.history_store import HistoryStore
from torchstone.api.keeping.record import RecordRequest, record_results
from torchstone.cli.commands.keeping.record import OPTIONS as RECORD_OPTIONS
from torchstone.cli.commands.keeping.record import print_recorded
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.requests import make_request
from torchstone.cli.options.shared import show_progress
from torchstone.cli.options.store_options import STORE
from torchstone.cli.terminal.tables import print_table
from torchstone.core.errors import printable
from torchstone.core.text.units import count_of
from torchstone.store.upkeep.retention import DAYS

F = TypeVar("F", bound=Callable[..., object])
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def _store_option(command: F) -> F:
    return click.option(STORE.flag, STORE.name, default="", metavar=STORE.metavar, help=STORE.help)(command)


@click.group("store", context_settings={"help_option_names": ["-h", "--help"]})
def store_command() -> None:
    """Manage the store that 'torchstone record' writes to.

    \b
    Examples:
      torchstone store info
      torchstone store load archive/ --summaries-only
      torchstone store prune --apply
      torchstone store copy postgresql://ci@db/benchmarks
    """


@store_command.command("info")
@click.option("--runs", is_flag=True, help="List all runs, too.")
@_store_option
def show_info(runs: bool, store: str) -> int:
    """Show what is in the store, and how much room it takes."""
    kept = HistoryStore(store)
    info = kept.info()
    print(f"{printable(info.place)}: {info.kind} store {info.id}, version {info.version}")
    counts = info.counts
    print(
        f"{count_of(counts['runs'], 'run')} ({info.pinned:,} pinned, {info.unfinished:,} unfinished) of"
        f" {count_of(counts['revisions'], 'revision')}, {count_of(counts['cases'], 'case')},"
        f" {counts['series']:,} series (without statuses), {count_of(counts['points'], 'point')}, {count_of(counts['changes'], 'change')}"
    )
    print(f"{_bytes(info.size)} on disk, {_bytes(info.raw_bytes)} of it raw samples and details")
    if info.last_recorded:
        print(f"recorded from {info.first_recorded} to {info.last_recorded}")
    for each in info.renames:
        print(
            f"renamed: {printable(f'{each.suite}::{each.old}' if each.suite else each.old)} to {printable(each.new)}"
        )
    if runs:
        _list_runs(kept)
    return 0


def _list_runs(kept: HistoryStore) -> None:
    rows = [
        (
            str(run.id),
            run.name,
            run.revision[:16],
            run.branch,
            (run.measured_at or run.recorded_at)[:16].replace("T", " "),
            str(run.outcomes),
            str(run.points),
            f"{'' if run.finished else 'unfinished '}{'' if run.pinned is None else 'pinned'}".strip(),
            "" if run.pinned is None else run.pinned,
        )
        for run in kept.runs()
    ]
    header = ("number", "run", "revision", "branch", "time", "cases", "points", "state", "reason")
    if rows:
        print_table(header, rows, title="")


@store_command.command("prune")
@click.option(
    "--days", type=int, default=DAYS, metavar="N", help=f"Keep raw data for this many days (default: {DAYS})."
)
@click.option("--apply", is_flag=True, help="Remove it. Without this option, nothing is changed.")
@_store_option
def prune_store(days: int, apply: bool, store: str) -> int:
    """Remove raw samples and details of old runs.

    Values, statuses, failures and pinned runs are kept for ever.

    \b
    Examples:
      torchstone store prune
      torchstone store prune --days 30 --apply
    """
    with show_progress("pruning"):
        found = HistoryStore(store).prune(days, apply=apply)
    done = "removed" if found.is_applied else "would remove"
    print(
        f"{done} {_bytes(found.bytes)} of raw data: {count_of(found.samples, 'measurement')} in"
        f" {count_of(found.runs, 'run')} before {found.before[:10]}"
    )
    if found.kept:
        print(f"kept: {count_of(found.kept, 'pinned run')}")
    if found.around:
        print(f"kept: {count_of(found.around, 'measurement')} near a change")
    if not found.is_applied and found.runs:
        print("nothing was changed; add --apply to remove it")
    return 0


@store_command.command("pin")
@click.argument("run")
@click.option("--reason", default="", help="Why the run is kept.")
@click.option("--release", is_flag=True, help="Let its raw data be pruned again.")
@_store_option
def pin_run(run: str, reason: str, release: bool, store: str) -> int:
    """Keep the raw data of RUN for ever.

    RUN is the id, number or revision of a run.

    \b
    Example:
      torchstone store pin 20261118T203113-ab12cd --reason "release 2.13"
    """
    kept = HistoryStore(store)
    found = kept.release(run) if release else kept.pin(run, reason)
    print(f"{'released' if release else 'pinned'} run {found.id}: {printable(found.name)}")
    return 0


@store_command.command("remove")
@click.argument("run")
@_store_option
def remove_run(run: str, store: str) -> int:
    """Remove RUN with all its points.

    Use it for a run that was measured wrongly.

    \b
    Example:
      torchstone store remove 20261118T203113-ab12cd
    """
    found = HistoryStore(store).remove(run)
    print(f"removed run {found.id}: {printable(found.name)}, {count_of(found.points, 'point')}")
    return 0


@store_command.command("rename")
@click.argument("old")
@click.argument("new")
@_store_option
def rename_benchmark(old: str, new: str, store: str) -> int:
    """Rename a benchmark from OLD to NEW without losing its history.

    OLD is a name, or SUITE::NAME. Files with the old name can still be
    recorded: their results continue the series of the new name.

    \b
    Example:
      torchstone store rename huggingface::Bert BertForMaskedLM
    """
    done = HistoryStore(store).rename(old, new)
    joined = f", {done.joined:,} of them joined with {printable(done.new)}" if done.joined else ""
    print(f"renamed {printable(done.old)} to {printable(done.new)}: {count_of(done.cases, 'case')}{joined}")
    return 0


@store_command.command("verify")
@_store_option
def verify_store(store: str) -> int:
    """Check that every run is whole, and that all data can be read.

    The exit code is 1 if something is wrong.
    """
    with show_progress("verifying"):
        found = HistoryStore(store).verify()
    for problem in found.problems:
        print(f"wrong: {printable(problem, 2000)}")
    checked = f"{count_of(found.runs, 'run')}, {count_of(found.points, 'point')}"
    if found.is_valid:
        print(f"{printable(found.place)} is valid: {checked}")
    return int(not found.is_valid)


@store_command.command("copy")
@click.argument("target")
@_store_option
def copy_store(target: str, store: str) -> int:
    """Copy the store to TARGET, a new store in SQLite or PostgreSQL.

    \b
    Examples:
      torchstone store copy backup.db
      torchstone store copy postgresql://ci@db/benchmarks
    """
    with show_progress("copying"):
        done = HistoryStore(store).copy_to(target)
    rows = done.rows
    counted = f"{count_of(rows['runs'], 'run')}, {count_of(rows['points'], 'point')}"
    print(f"copied {printable(done.source)} to {printable(done.target)}: {counted}")
    return 0


def load_files(arguments: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Record many FILES, a thousand at a time.

    For an archive: folders are searched to their end. If a file cannot be
    read, the thousands before it are kept, and running the command again
    continues.

    \b
    Example:
      torchstone store load archive/ --summaries-only
    """
    request = make_request(RecordRequest, RECORD_OPTIONS, values, results=arguments, in_batches=True)
    with show_progress("loading"):
        result = record_results(request)
    print_recorded(result)
    return 0


store_command.add_command(make_command("load", load_files, RECORD_OPTIONS, "FILES...", required=True))


def _bytes(size: float) -> str:
    """Format a number of bytes with three digits.

    >>> _bytes(999), _bytes(1234567)
    ('999 bytes', '1.23 MB')
    """
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"
