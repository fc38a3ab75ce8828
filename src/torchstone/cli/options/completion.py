"""Complete command lines in a shell: words of options, suites, files, and cases of files and suites.

Nothing here imports torch.

click prints the script for each shell, and asks here for candidates (docs/completion.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from torchstone.api.presets import list_presets
from torchstone.core.config import COMPLETION_VARIABLE
from torchstone.core.errors import TorchstoneError, UsageError
from torchstone.core.records import Run
from torchstone.core.run_file import decode_run
from torchstone.formats import read_file
from torchstone.measure.targets import list_built_in
from torchstone.suites import BUILT_IN
from torchstone.worker.benchmark_sources import list_packages

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
"""Returns the candidates for an incomplete word."""

LARGEST_TABLE = 5_000_000  # bytes of a file that is read whole while somebody waits
_NEEDS_NO_QUOTES = re.compile(r"[\w.+@/-]+\Z")
"""Words that every shell takes as they are; others would not survive the command line."""


def complete_words(words: Sequence[str]) -> Complete:
    """Complete words of a list that is separated by commas."""

    def complete(
        _context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        used = before.split(",")
        return [
            CompletionItem(f"{before}{comma}{word}")
            for word in words
            if word.startswith(last) and word not in used
        ]

    return complete


def complete_preset(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a preset; nothing if torchstone.toml has a mistake, which the command will report."""
    try:
        return _starting(incomplete, list_presets())
    except TorchstoneError:
        return []


def complete_file(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def complete_folder(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a folder."""
    return [CompletionItem(incomplete, type="dir")]


def complete_target(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a suite, else the name of a file or folder."""
    suites = _starting(incomplete, (*BUILT_IN, *list_packages()))
    return suites or complete_file(context, parameter, incomplete)


def complete_case(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the name of a benchmark in the files and suites of the command line."""
    words: list[str] = (
        context.find_root().obj or []
    )  # click does not parse arguments before an option without its value
    return _starting(incomplete, (name for word in words for name in _names_in(word)))


def complete_files_and_case(files: int) -> Complete:
    """Complete some files, then a case of them."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        given = context.params.get("arguments") or ()
        return (complete_file if len(given) < files else complete_case)(context, parameter, incomplete)

    return complete


def complete_runs_and_case(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a run file, a second one or a case, and a case."""
    given = context.params.get("arguments") or ()
    found = complete_case(context, parameter, incomplete) if given else []
    return found if found or len(given) > 1 else complete_file(context, parameter, incomplete)


def _starting(incomplete: str, words: Iterable[str]) -> list[CompletionItem]:
    found = dict.fromkeys(word for word in words if word.startswith(incomplete))
    return [CompletionItem(word) for word in found if _NEEDS_NO_QUOTES.match(word)]


def _names_in(given: str) -> Iterable[str]:
    """Return the names of the benchmarks in a suite or a file; none if it cannot be read."""
    if given in BUILT_IN:
        return [listing.name for listing in list_built_in(given)]
    try:
        return [case.benchmark for case in _read_plan(given).plan]
    except (
        TorchstoneError,
        OSError,
        ValueError,
    ):  # a mistake on the command line, which the command will report
        return []


def _read_plan(path: str) -> Run:
    """Read the plan of a run file, which is its first line, or a file of another format."""
    with open(path, encoding="utf-8") as file:
        first = file.readline()
    if '"kind":"run"' in first.replace(" ", ""):
        return decode_run(path, first).run
    if os.path.getsize(path) > LARGEST_TABLE:
        raise ValueError("too large")
    return read_file(path).run


class FishCompletion(FishComplete):
    """Completion for fish, with values and help texts that contain commas."""

    source_template = """\
function %(complete_func)s
    for line in (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) %(prog_name)s)
        set -l parts (string split --max 1 "," $line)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case '*'
                echo $parts[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishCompletion}


def answer_shell(group: click.Group, request: str) -> str:
    """Return what a shell asks for: the script to load, or the candidates for a command line."""
    shell, _, instruction = request.partition("_")
    kind = SHELLS.get(shell)
    if kind is None or instruction not in {"source", "complete"}:
        expected = ", ".join(f"{each}_source" for each in SHELLS)
        raise UsageError(f"{COMPLETION_VARIABLE}={request}: expected {expected}")
    if instruction == "source":
        return kind(group, {}, "torchstone", COMPLETION_VARIABLE).source()
    words, _ = kind(group, {}, "torchstone", COMPLETION_VARIABLE).get_completion_args()
    return kind(group, {"obj": words}, "torchstone", COMPLETION_VARIABLE).complete()


ARGUMENTS: dict[str, Complete] = {
    "[TARGETS]...": complete_target,
    "RUNFILE CASE": complete_files_and_case(1),
    "RUNFILE [CASE]": complete_files_and_case(1),
    "RUN [NEW] [CASE]": complete_runs_and_case,
}
"""Kinds of positional arguments by their names in a command; those that are not listed are files."""

VALUES: dict[str, Complete] = {
    "FILE": complete_file,
    "RUNFILE": complete_file,
    "DIR": complete_folder,
}
"""What the value of an option is, by its metavar."""
