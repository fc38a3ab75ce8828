"""Options as data -> click's options."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from torchstone.cli.options.output_trial import try_outputs
from torchstone.cli.options.plain import Option


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


def _parameter(option: Option) -> click.Option:
    names = [*option.flags, option.name]
    if not option.metavar:
        return click.Option(names, is_flag=True, help=option.help)
    kind = click.Choice(option.choices) if option.choices else None
    return click.Option(names, multiple=option.multiple, metavar=option.metavar, help=option.help, type=kind)
