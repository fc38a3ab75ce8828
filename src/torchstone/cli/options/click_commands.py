"""Make click commands from options as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from torchstone.cli.options.completion import (
    ARGUMENTS,
    VALUES,
    Complete,
    complete_case,
    complete_file,
    complete_preset,
    complete_words,
)
from torchstone.cli.options.output_checks import check_outputs
from torchstone.cli.options.plain import GENERAL, Option
from torchstone.cli.options.quantities import unknown_word

_BY_NAME = {"only": complete_case, "preset": complete_preset}
"""Options whose values are completed in a way of their own."""

_WIDEST_FLAG = 28  # columns; click puts the help of a longer option on the next line


def make_command(
    name: str,
    function: Callable[..., int],
    options: Sequence[Option],
    arguments: str,
    *,
    required: bool,
    bare: bool = False,
) -> click.Command:
    """Make a click command. ``function`` is called with the positional arguments, and the options by name.

    Without arguments a command shows its help, unless it is ``bare``. A bare command with an empty ``arguments`` takes no positional arguments.
    """

    def call(arguments: tuple[str, ...] = (), **values: object) -> int:
        check_outputs(options, values)
        return function(arguments, **values)

    parameters: list[click.Parameter] = []
    if arguments or not bare:
        complete = ARGUMENTS.get(arguments, complete_file)
        parameters.append(
            click.Argument(
                ["arguments"], nargs=-1, metavar=arguments, required=required, shell_complete=complete
            )
        )
    parameters += [_parameter(option) for option in options]
    return _SectionedCommand(
        name,
        callback=call,
        params=parameters,
        help=function.__doc__,
        no_args_is_help=not bare,
        sections={option.name: option.section for option in options},
    )


class _SectionedCommand(click.Command):
    """A command whose help text lists the options under headings."""

    def __init__(self, *arguments: Any, sections: dict[str, str], **options: Any) -> None:  # noqa: ANN401  (passed on to click)
        super().__init__(*arguments, **options)
        self._sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section, all in the same columns."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)):
                title = self._sections.get(parameter.name or "", GENERAL)
                sections.setdefault(title, []).append(record)
        sections[GENERAL] = sections.pop(GENERAL)  # last, with --help at its end
        flags = [flag for records in sections.values() for flag, _ in records]
        width = max(len(flag) for flag in flags if len(flag) <= _WIDEST_FLAG)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl([(flag.ljust(width), text) for flag, text in records])


class _Choice(click.Choice[str]):
    """One of an option's words; any other raises the same error as options that take several."""

    def __init__(self, option: Option) -> None:
        super().__init__(option.choices)
        self._flag = option.flag

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401  (click's signature)
        """Return the word, or raise an error if it is unknown."""
        if value not in self.choices:
            raise unknown_word(self._flag, str(value), list(self.choices))
        return super().convert(value, param, ctx)


def _parameter(option: Option) -> click.Option:
    names = [*option.flags, option.name]
    if not option.metavar:
        return click.Option(names, is_flag=True, help=option.help)
    return click.Option(
        names,
        multiple=option.multiple,
        metavar=option.metavar,
        help=option.help,
        type=_Choice(option) if option.choices else None,
        shell_complete=_completion(option),
    )


def _completion(option: Option) -> Complete | None:
    """Return how the value of an option is completed; None if click knows the choices, or nothing is known."""
    if option.name in _BY_NAME:
        return _BY_NAME[option.name]
    return complete_words(option.words) if option.words else VALUES.get(option.metavar)
