"""Outputs, tried before a command starts: what cannot be written is found out at once, not after minutes of measuring."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from torchstone.cli.options.plain import FILE, FILE_OR_STDOUT, FOLDER, Option
from torchstone.core.disk import try_file, try_folder
from torchstone.core.errors import UsageError

STANDARD_OUTPUT = "-"


def try_outputs(options: Sequence[Option], values: Mapping[str, object]) -> None:
    """Try every output that is named on the command line; the first that cannot be written is an error. Nothing is made or changed."""
    for option in options:
        if not option.writes:
            continue
        for path in _paths(option, values.get(option.name)):
            if path == STANDARD_OUTPUT:
                _refuse_standard_output(option)
            elif option.writes == FOLDER:
                try_folder(path)
            elif option.writes in {FILE, FILE_OR_STDOUT}:
                try_file(path)
            elif not os.path.lexists(path) and not path.endswith(os.sep):
                # A run file that is there already is refused by the command, which knows how to go on with it.
                try_file(path, makes_folder=True)


def _paths(option: Option, value: object) -> Iterator[str]:
    """The files or folders that an option names; of ``STYLE=FILE`` only the file."""
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str):
            path = text.partition("=")[2] if "=" in option.metavar else text
            if path:
                yield path


def _refuse_standard_output(option: Option) -> None:
    """Refuse ``-`` where it would only be the strange name of a file."""
    if option.writes != FILE_OR_STDOUT:
        raise UsageError(
            f"{option.flag} cannot write to standard output",
            advice=f"name a {'folder' if option.writes == FOLDER else 'file'}; ./- if it is really called that",
        )
