"""``torchstone triage``: decide about groups of changes, and tell people about them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from torchstone.api.keeping.changes import STYLES
from torchstone.api.keeping.triage import Triage
from torchstone.cli.options.output_checks import check_outputs
from torchstone.cli.options.plain import FILE, Option
from torchstone.cli.options.shared import CONFIG, show_progress
from torchstone.cli.options.store_options import STORE
from torchstone.cli.terminal.output import write_in_style
from torchstone.core.errors import printable
from torchstone.core.text.safe_text import escape_commands, escape_lines
from torchstone.history.change_records import TriageState
from torchstone.integrations.notify import NotifyRequest, NotifyResult, send_notifications

F = TypeVar("F", bound=Callable[..., object])
_NOTIFY_FILES = (
    Option("--github", "github", "FILE", "", writes=FILE),
    Option("--file", "file", "FILE", "", writes=FILE),
)


def _in_store(command: F) -> F:
    with_store = click.option(STORE.flag, STORE.name, default="", metavar=STORE.metavar, help=STORE.help)
    with_config = click.option(CONFIG.flag, CONFIG.name, metavar=CONFIG.metavar, help=CONFIG.help)
    return with_store(with_config(command))


def _in_style(command: F) -> F:
    return click.option(
        "--format",
        "style",
        type=click.Choice(STYLES),
        default="text",
        metavar="STYLE",
        help="text, json or markdown (default: text).",
    )(command)


@click.group("triage", context_settings={"help_option_names": ["-h", "--help"]})
def triage_command() -> None:
    """Decide about groups of changes.

    A group is new, acknowledged or investigating while it is open, and
    expected, fixed, noise, machine, duplicate or wontfix when it is closed.
    It closes by itself once the old level has been back for 10 points.

    \b
    Examples:
      torchstone triage list
      torchstone triage show 3
      torchstone triage set 3 acknowledged --owner me
      torchstone triage set 3 expected --reason "more precise matmul"
      torchstone triage notify --dry-run
    """


@triage_command.command("list")
@click.option("--all", "closed", is_flag=True, help="List closed groups, too.")
@click.option(
    "--state", "states", multiple=True, metavar="STATE", help="Only groups in this state. Repeatable."
)
@click.option("--owner", default="", metavar="NAME", help="Only groups of this owner.")
@click.option("--branch", default="", metavar="NAME", help="Only changes on this branch.")
@_in_style
@_in_store
def list_groups(
    closed: bool,
    states: tuple[str, ...],
    owner: str,
    branch: str,
    style: str,
    store: str,
    config: str | None,
) -> int:
    """List the open groups, regressions first.

    \b
    Examples:
      torchstone triage list
      torchstone triage list --state new --state investigating
      torchstone triage list --all --format json
    """
    with show_progress("looking for changes"):
        found = Triage(store, config).list(states, closed=closed, owner=owner, branch=branch)
    write_in_style(found.render(style), style)
    return 0


@triage_command.command("show")
@click.argument("group")
@click.option(
    "--repository",
    default="",
    metavar="DIR",
    help="Folder in the repository of the revisions (default: the current one).",
)
@_in_style
@_in_store
def show_group(group: str, repository: str, style: str, store: str, config: str | None) -> int:
    """Show everything about GROUP.

    Shows its members, worst first, the commits in its interval, what the
    worst member shows, what was decided, and what can be done. As Markdown,
    it is the body of an issue.

    \b
    Examples:
      torchstone triage show 3
      torchstone triage show 3 --format markdown
    """
    with show_progress("looking for changes"):
        found = Triage(store, config).show(group, repository=repository)
    write_in_style(found.render(style), style)
    return 0


@triage_command.command("set")
@click.argument("group")
@click.argument("state", metavar="STATE")
@click.option("--reason", default="", metavar="TEXT", help="Why. Required for expected.")
@click.option("--link", default="", metavar="URL", help="An issue, a discussion, a fix.")
@click.option("--owner", default="", metavar="NAME", help="Who looks after it from now on.")
@click.option("--of", "of", metavar="GROUP", help="With duplicate: the group that it duplicates.")
@click.option("--author", default="", metavar="NAME", help="Who decides (default: the user).")
@_in_store
def set_state(
    group: str,
    state: str,
    reason: str,
    link: str,
    owner: str,
    of: str | None,
    author: str,
    store: str,
    config: str | None,
) -> int:
    """Set GROUP to STATE.

    expected needs a reason: the new level becomes the reference. fixed is
    accepted only if the newest points are back at the old level. A closed
    group has to be opened again before it can be closed in another way.
    Nothing is ever removed from the log.

    \b
    Examples:
      torchstone triage set 3 investigating --owner me --link URL
      torchstone triage set 3 expected --reason "more precise matmul"
      torchstone triage set 4 duplicate --of 3
    """
    decided = Triage(store, config).set(
        group, state, reason=reason, link=link, owner=owner, author=author, of=of
    )
    told = f", owner {decided.owner}" if decided.owner else ""
    of_what = f" of group {decided.duplicate_of}" if decided.duplicate_of else ""
    print(printable(f"group {decided.id} is {decided.state}{of_what}{told}: {decided.name}", 1000))
    if decided.state == TriageState.EXPECTED:
        print("the level after the change is the reference now")
    return 0


@triage_command.command("notify")
@click.option("--webhook", default="", metavar="URL", help="Post JSON to this URL.")
@click.option("--slack", default="", metavar="URL", help="Post a message to this Slack webhook.")
@click.option("--github", default="", metavar="FILE", help="Write Markdown, the body of an issue or comment.")
@click.option("--file", "file", default="", metavar="FILE", help="Add a line of JSON for each group.")
@click.option("--since", default="", metavar="DATE|REV", help="Only changes since this day or revision.")
@click.option("--dry-run", is_flag=True, help="Print what would be sent, and send nothing.")
@_in_store
def notify_command(
    webhook: str,
    slack: str,
    github: str,
    file: str,
    since: str,
    dry_run: bool,
    store: str,
    config: str | None,
) -> int:
    """Tell people about open regressions, each group once.

    A group is told once it is confirmed, and again only if it was closed and
    is open again. A delivery that failed is tried again next time; the exit
    code is then 1. Without a target, TORCHSTONE_WEBHOOK and
    TORCHSTONE_SLACK_WEBHOOK are used, or [notify] in torchstone.toml: other
    users can see the arguments of a command.

    \b
    Examples:
      torchstone triage notify --dry-run
      torchstone triage notify --github body.md
      TORCHSTONE_SLACK_WEBHOOK=... torchstone triage notify
    """
    if not dry_run:
        check_outputs(_NOTIFY_FILES, {"github": github or None, "file": file or None})
    request = NotifyRequest(
        webhook=webhook,
        slack=slack,
        github=github,
        file=file,
        since=since,
        dry_run=dry_run,
        store=store,
        config=config,
    )
    with show_progress("telling"):
        result = send_notifications(request)
    _print_told(result)
    return result.exit_code


def _print_told(result: NotifyResult) -> None:
    if result.is_dry_run:
        for each in result.deliveries:
            print(printable(f"group {each.group}, {each.channel.value}:"))
            sys.stdout.write(escape_commands(escape_lines(each.message.rstrip("\n"))) + "\n\n")
    for each in result.failed:
        sys.stderr.write(
            f"failed: group {each.group}: {printable(each.problem)}; it is tried again next time\n"
        )
    print(printable(result.summary))
    for note in result.notes:
        print(printable(note, 1000))
