"""Command line options as data, and a parser that does without click.

click writes the help texts and error messages, but importing it takes longer than a check. So a command line is parsed here first;
anything unusual (a mistake, a request for help) is left to click.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, structs

GENERAL = "Options"
FILE, FILE_OR_STDOUT, FOLDER, RUN_FILE = "file", "file or standard output", "folder", "run file"


class Option(Struct, frozen=True):
    """One option; without a ``metavar`` it is a flag.

    ``writes`` marks an option that names an output: ``FILE``, ``FILE_OR_STDOUT`` (``-`` is standard output), ``FOLDER``, or ``RUN_FILE``, whose folder is created.
    Outputs are tested before the command starts (``cli/options/output_checks.py``). ``parse`` converts the text, or texts, to the value of the request's field.
    ``section`` is the heading in the help text. ``words`` are values that a shell completes; others are allowed, too.
    """

    flag: str
    name: str
    metavar: str
    help: str
    multiple: bool = False
    choices: tuple[str, ...] = ()
    short: str = ""
    writes: str = ""
    parse: Callable[[str, Any], Any] | None = None
    section: str = GENERAL
    words: tuple[str, ...] = ()

    @property
    def flags(self) -> list[str]:
        """The short and the long flag."""
        return [flag for flag in (self.short, self.flag) if flag]


def in_section(title: str, *options: Option) -> tuple[Option, ...]:
    """Put options under a heading of the help text."""
    return tuple(structs.replace(option, section=title) for option in options)


Parameters = dict[str, "str | bool | tuple[str, ...] | None"]


def parse_plainly(
    arguments: Sequence[str], options: Sequence[Option]
) -> tuple[tuple[str, ...], Parameters] | None:
    """Return the positional arguments and the options' values, or None if click has to parse the command line."""
    by_flag = {flag: option for option in options for flag in option.flags}
    values: Parameters = {
        option.name: () if option.multiple else None if option.metavar else False for option in options
    }
    positional: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-"):
            positional.append(argument)
            continue
        flag, assigned, value = argument.partition("=")
        option = by_flag.get(flag)
        if option is None or (assigned and not option.metavar):
            return None
        if not option.metavar:
            values[option.name] = True
            continue
        text = value if assigned else next(rest, None)
        if text is None or (option.choices and text not in option.choices):
            return None
        before = values[option.name]
        values[option.name] = (*before, text) if isinstance(before, tuple) else text
    return tuple(positional), values
