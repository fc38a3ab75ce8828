"""The click command line: all commands, and messages about usage errors."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from torchstone import __version__
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.completion import answer_shell
from torchstone.cli.terminal.output import write_exactly
from torchstone.core.config import completion_request
from torchstone.core.errors import UsageError
from torchstone.core.text.suggestions import did_you_mean

COMMANDS = {
    "run": "torchstone.cli.commands.measuring.run",
    "list": "torchstone.cli.commands.measuring.listing",
    "repro": "torchstone.cli.commands.measuring.repro",
    "cachebench": "torchstone.cli.commands.measuring.cachebench",
    "pr-time": "torchstone.cli.commands.measuring.pr_time",
    "ab": "torchstone.cli.commands.measuring.ab",
    "selftest": "torchstone.cli.commands.measuring.selftest",
    "check": "torchstone.cli.commands.judging.check",
    "compare": "torchstone.cli.commands.judging.compare",
    "accept": "torchstone.cli.commands.judging.accept",
    "quarantine": "torchstone.cli.commands.judging.quarantine",
    "show": "torchstone.cli.commands.files.show_run",
    "report": "torchstone.cli.commands.files.report",
    "explain": "torchstone.cli.commands.judging.explain",
    "import": "torchstone.cli.commands.files.convert",
    "export": "torchstone.cli.commands.files.convert",
    "record": "torchstone.cli.commands.keeping.record",
    "store": "torchstone.cli.commands.keeping.manage_store",
    "changes": "torchstone.cli.commands.keeping.changes",
    "triage": "torchstone.cli.commands.keeping.triage",
    "serve": "torchstone.cli.commands.keeping.serve",
    "site": "torchstone.cli.commands.keeping.write_site",
    "doctor": "torchstone.cli.commands.measuring.doctor",
}


LONGEST_SUMMARY = 200  # never cut; a test makes sure that they fit

SECTIONS = {
    "Measure": ("run", "list", "repro", "ab", "selftest", "doctor"),
    "Judge": ("check", "compare", "accept", "quarantine", "explain"),
    "Keep the history": ("record", "store", "changes", "triage", "serve", "site"),
    "Files": ("show", "report", "import", "export"),
    "PyTorch's own benchmarks": ("cachebench", "pr-time"),
}


class LazyGroup(click.Group):
    """Imports a command's module only when that command is called."""

    def list_commands(self, _context: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        """Return the command of this name."""
        if name not in COMMANDS:
            return None
        module = import_module(COMMANDS[name])
        if name == "check":
            return make_command("check", module.check, module.OPTIONS, "[RESULTS]...", required=False)
        if name == "compare":
            return make_command("compare", module.compare, module.OPTIONS, "BASE NEW", required=False)
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without importing the modules of all commands, else an option."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name) for name in COMMANDS if name.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands under headings."""
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name.ljust(width), command.get_short_help_str(LONGEST_SUMMARY))
                        for name, command in commands
                        if command
                    ]
                )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="torchstone")
def torchstone() -> None:
    """Continuous benchmarking for PyTorch and torch.compile.

    \b
    Measure a suite, or your own models:
      torchstone run smoke
      torchstone run bench_mine.py
    Decide whether a change made something slower on this machine:
      torchstone ab bench_mine.py --a rev=main --b rev=HEAD
    Compare two runs:
      torchstone compare main.jsonl new.jsonl
    Judge results against a committed baseline:
      torchstone check results.csv --baseline expected.csv
    Keep the history, and see what changed:
      torchstone record run.jsonl
      torchstone changes
    Adopt results as the new baseline:
      torchstone accept results.csv --baseline expected.csv

    \b
    Exit codes:
      0  success
      1  something blocks, or a case failed
      2  bad input or usage
      3  nothing could be measured, or a run file was lost
    """


def _plain_words(error: click.UsageError) -> str:
    """Return an error of click as other errors read: without a capital at its start and a full stop at its end."""
    message = error.format_message().removesuffix(".")
    return message[:1].lower() + message[1:]


def run_group(arguments: Sequence[str]) -> int:
    """Run a command line, and return its exit code."""
    if request := completion_request():
        write_exactly(f"{answer_shell(torchstone, request)}\n")
        return 0
    try:
        result = torchstone.main(list(arguments), prog_name="torchstone", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.NoSuchOption as error:
        # Never suggest --trust: a typing mistake must not lead to executing code.
        options = [each for each in error.possibilities or () if each != "--trust"]
        hint = f"did you mean {' or '.join(options)}? " if options else ""
        command = error.ctx.command_path if error.ctx else "torchstone"
        problem = f"no such option: {error.option_name}"
        raise UsageError(problem, advice=f"{hint}see '{command} --help'") from None
    except click.UsageError as error:
        is_unknown = bool(arguments) and arguments[0] not in COMMANDS
        asked = "torchstone" if is_unknown else " ".join(("torchstone", *arguments[:1]))
        command = error.ctx.command_path if error.ctx else asked
        meant = did_you_mean(arguments[0], COMMANDS) if is_unknown else ""
        raise UsageError(_plain_words(error), advice=f"{meant}see '{command} --help'") from None
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    except click.Abort:
        click.echo("\nstopped; nothing was written", err=True)
        return 130
    return result if isinstance(result, int) else 0
