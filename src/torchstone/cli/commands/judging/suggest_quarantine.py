"""``torchstone quarantine suggest``: entries for flaky cases, and releases, from the statuses in a store."""

from __future__ import annotations

import sys

import click

from torchstone.api.keeping.flaky import DAYS, SuggestRequest, suggest
from torchstone.cli.options.quantities import parse_count
from torchstone.cli.options.shared import show_progress
from torchstone.cli.options.store_options import STORE
from torchstone.cli.terminal.output import write_data
from torchstone.core.config import QUARANTINE_NAME
from torchstone.core.errors import printable
from torchstone.core.text.safe_text import escape_commands, escape_lines
from torchstone.core.text.units import count_of
from torchstone.history.flaky_cases import POINTS


@click.command("suggest")
@click.option(STORE.flag, STORE.name, default="", metavar=STORE.metavar, help=STORE.help)
@click.option(
    "--file",
    "path",
    default=QUARANTINE_NAME,
    metavar="FILE",
    help="Quarantine file (default: quarantine.toml).",
)
@click.option("--only", "cases", multiple=True, metavar="PATTERN", help="Only these cases. Repeatable.")
@click.option("--branch", default="", metavar="NAME", help="Only runs of this branch.")
@click.option("--since", default="", metavar="DATE", help="Only runs since this day.")
@click.option("--last", metavar="N", help=f"Only the last runs of each case (default: {POINTS}).")
@click.option("--days", metavar="N", help=f"Days until an entry expires (default: {DAYS}).")
@click.option("--apply", is_flag=True, help="Write to the file. Without this option, nothing is changed.")
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    metavar="STYLE",
    help="text or json (default: text).",
)
def suggest_command(
    store: str,
    path: str,
    cases: tuple[str, ...],
    branch: str,
    since: str,
    last: str | None,
    days: str | None,
    apply: bool,
    style: str,
) -> int:
    """Suggest entries for flaky cases, and entries to remove.

    A case is flaky if it failed and passed again at least twice in its last
    runs in the store. An entry can be removed if its cases have passed so
    often in a row that chance does not explain it.

    \b
    Examples:
      torchstone quarantine suggest --branch main
      torchstone quarantine suggest --apply
    """
    request = SuggestRequest(
        cases=cases,
        branch=branch,
        since=since,
        last=parse_count("--last", last) or POINTS,
        store=store,
        file=path,
        days=parse_count("--days", days) or DAYS,
    )
    with show_progress("reading the store"):
        found = suggest(request)
    if apply:
        found.write()
    if style == "json":
        write_data(found.to_json())
        return 0
    sys.stdout.write(escape_commands(escape_lines(f"{found}\n")))
    if found.entries or found.releases:
        done = (
            f"{count_of(len(found.entries), 'entry')} added, {count_of(len(found.releases), 'entry')} removed"
        )
        print(
            f"\n{printable(found.path)}: {done}"
            if apply
            else "\nnothing was changed; add --apply to write this to the file"
        )
    return 0
