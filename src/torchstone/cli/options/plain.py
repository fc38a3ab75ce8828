"""Options of a command as data, and a parser for command lines in which they are written out plainly.

click makes the help texts and the error messages, but takes longer to import than a gate takes to judge. So a command line is first
tried here; whatever is not plainly right (a mistake, a request for help) is left to click.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

FILE, FILE_OR_STDOUT, FOLDER, RUN_FILE = "file", "file or standard output", "folder", "run file"


class Option(Struct, frozen=True):
    """One option: a flag if it has no ``metavar``.

    ``writes`` says that something is written where its value says: ``FILE``, ``FILE_OR_STDOUT`` (where ``-`` is standard output) or ``FOLDER``, or ``RUN_FILE``, whose folder is made. That this is possible is
    found out before the command starts (``cli/options/output_trial.py``).
    """

    flag: str
    name: str
    metavar: str
    help: str
    multiple: bool = False
    choices: tuple[str, ...] = ()
    short: str = ""
    writes: str = ""

    @property
    def flags(self) -> list[str]:
        """All ways to write it."""
        return [flag for flag in (self.short, self.flag) if flag]


Parameters = dict[str, "str | bool | tuple[str, ...] | None"]


def parse_plainly(
    arguments: Sequence[str], options: Sequence[Option]
) -> tuple[tuple[str, ...], Parameters] | None:
    """The positional arguments and the options' values, or None where click had better look."""
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
