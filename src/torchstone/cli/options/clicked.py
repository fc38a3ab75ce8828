"""Options as data -> click's options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from torchstone.cli.options.output_trial import try_outputs
from torchstone.cli.options.plain import Option
from torchstone.cli.options.quantities import unknown_word


def make_command(
    name: str,
    function: Callable[..., int],
    options: Sequence[Option],
    arguments: str,
    *,
    required: bool,
    bare: bool = False,
) -> click.Command:
    """A click command from options as data. ``function`` takes the positional arguments, then the options by name.

    A command that is ``bare`` runs when it is called with nothing; any other then shows its help. Without a word for its ``arguments``, a bare
    command takes none.
    """

    def call(arguments: tuple[str, ...] = (), **values: object) -> int:
        try_outputs(options, values)
        return function(arguments, **values)

    parameters: list[click.Parameter] = []
    if arguments or not bare:
        parameters.append(click.Argument(["arguments"], nargs=-1, metavar=arguments, required=required))
    parameters += [_parameter(option) for option in options]
    return click.Command(
        name,
        callback=call,
        params=parameters,
        help=function.__doc__,
        no_args_is_help=not bare,
    )


class _Choice(click.Choice[str]):
    """One of an option's words; for another, the error is the same as for options that take several."""

    def __init__(self, option: Option) -> None:
        super().__init__(option.choices)
        self._flag = option.flag

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ANN401  (as click has it)
        """The word itself, if it is one of them."""
        if value not in self.choices:
            raise unknown_word(self._flag, str(value), list(self.choices))
        return super().convert(value, param, ctx)


def _parameter(option: Option) -> click.Option:
    names = [*option.flags, option.name]
    if not option.metavar:
        return click.Option(names, is_flag=True, help=option.help)
    kind = _Choice(option) if option.choices else None
    return click.Option(names, multiple=option.multiple, metavar=option.metavar, help=option.help, type=kind)
