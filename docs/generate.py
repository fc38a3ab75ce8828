"""Writes the pages that are made from the code: docs/cli.md and docs/reference.md. `make docs` runs it, a test checks the result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from torchstone.cli.group import torchstone
from torchstone.core.config import RULE_KINDS
from torchstone.core.vocabulary import METRICS, PROBES, STATUSES, VERDICTS
from torchstone.formats import FORMATS
from torchstone.gate.policy import STRICT_BLOCKS
from torchstone.gate.rules import DEFAULT_RULES, describe_rule

DOCS = Path(__file__).parent
EXIT_CODES = {
    0: "fine: nothing blocks",
    1: "the gate says no, or the question was answered with no",
    2: "bad input or usage: one message says what, where, and what to do",
    3: "the measurement itself could not be done",
}


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """All commands below a group, with the words that call them."""
    yield path, group
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        elif command:
            yield f"{path} {name}", command


def help_of(path: str, command: click.Command) -> str:
    """What ``--help`` prints, on 80 columns."""
    context = click.Context(
        command, info_name=path, max_content_width=80, terminal_width=78, help_option_names=["-h", "--help"]
    )
    return command.get_help(context)


def render_cli() -> str:
    """The page of all commands."""
    parts = ["# Commands\n\nWhat `--help` says, for every command. This page is generated: `make docs`.\n"]
    for path, command in commands(torchstone, "torchstone"):
        parts.append(f"\n## `{path}`\n\n```text\n{help_of(path, command)}\n```\n")
    return "".join(parts)


def table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def render_reference() -> str:
    """The page of all words with a fixed meaning."""
    rules = {scoped.metric: describe_rule(scoped.rule) for scoped in DEFAULT_RULES}
    parts = [
        "# Reference\n\nThe words with a fixed meaning: the same in code, command line, files and docs. Generated: `make docs`.\n\n",
        "## Exit codes\n\n",
        table(("code", "meaning"), ((f"`{code}`", meaning) for code, meaning in EXIT_CODES.items())),
        "Ctrl-C ends a command with 130, and nothing is written.\n\n",
        (
            "If standard output cannot be written, for example because the disk is full, the code is 2 instead of 0 or 1, because the report is lost; files are written as usual, "
            "and a run is measured to its end. A reader that stops reading (`| head`) is not an error. "
            "If standard output is closed (`>&-`), a command whose output is for other programs ends with 2: "
            "`export`, `import` and `pr-time` without `--output`, `report -o -`, and every command with `--json` or a `--format` other than text. "
            "A report for people is dropped, and the command keeps its own code. "
            "Messages that standard error does not take are dropped.\n\n"
        ),
        "## Verdicts\n\nFrom worst to best. What blocks is what makes the exit code 1; `--block` and `--allow` change it.\n\n",
        table(
            ("verdict", "meaning", "blocks (strict)"),
            (
                (f"`{verdict}`", meaning, "yes" if verdict in STRICT_BLOCKS else "no")
                for verdict, meaning in VERDICTS.items()
            ),
        ),
        "## Statuses\n\nHow a case ended. A word that is not in this list is read as a failure of that name.\n\n",
        table(("status", "meaning"), ((f"`{status}`", meaning) for status, meaning in STATUSES.items())),
        "## Metrics\n\n",
        table(
            ("metric", "unit", "better", "meaning", "several samples", "judged by default"),
            (
                (
                    f"`{m.name}`",
                    m.unit,
                    m.better,
                    m.meaning,
                    "" if m.unit == "status" else m.estimator,
                    rules[m.name],
                )
                for m in METRICS.values()
            ),
        ),
        "## Rules\n\n",
        table(
            ("kind", "takes", "meaning"),
            (
                (f"`{kind}`", ", ".join(f"`{f}`" for f in fields), meaning)
                for kind, (fields, meaning) in RULE_KINDS.items()
            ),
        ),
        "## Probes\n\n",
        table(("probe", "measures"), ((f"`{probe}`", meaning) for probe, meaning in PROBES.items())),
        "## Kinds of files\n\n",
        table(("kind", "what it is"), ((f"`{f.kind}`", f.meaning) for f in FORMATS.values())),
    ]
    return "".join(parts).rstrip() + "\n"


PAGES = {"cli.md": render_cli, "reference.md": render_reference}


def main() -> None:
    """Write the pages."""
    for name, render in PAGES.items():
        (DOCS / name).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
