"""Test outputs before a command starts, so that an unwritable file is reported at once and not after minutes of measuring."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from torchstone.cli.options.plain import FILE, FILE_OR_STDOUT, FOLDER, Option
from torchstone.core.disk import try_file, try_folder
from torchstone.core.errors import UsageError

STANDARD_OUTPUT = "-"


def check_outputs(options: Sequence[Option], values: Mapping[str, object]) -> None:
    """Raise an error for the first output on the command line that cannot be written. Creates and changes nothing."""
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
                # An existing run file is refused by the command itself, which can tell how to resume it.
                try_file(path, makes_folder=True)


def _paths(option: Option, value: object) -> Iterator[str]:
    """Yield the files or folders that an option names; for ``STYLE=FILE``, the file."""
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str):
            path = text.partition("=")[2] if "=" in option.metavar else text
            if path:
                yield path


def _refuse_standard_output(option: Option) -> None:
    """Refuse ``-`` for an option that cannot write to standard output."""
    if option.writes != FILE_OR_STDOUT:
        raise UsageError(
            f"{option.flag} cannot write to standard output",
            advice=f"name a {'folder' if option.writes == FOLDER else 'file'}; use ./- for a file of that name",
        )
