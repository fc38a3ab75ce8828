"""The ``torchstone`` command: runs one subcommand, and turns errors into one message and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from io import TextIOWrapper

from torchstone.cli.options.output_trial import try_outputs
from torchstone.cli.options.plain import parse_plainly
from torchstone.cli.terminal.output import safe_streams
from torchstone.cli.terminal.streams import prepare_streams, settle
from torchstone.core.disk import reason
from torchstone.core.errors import TorchstoneError, UsageError, printable

_PLAIN = {
    "check": "torchstone.cli.commands.judging.check",
    "compare": "torchstone.cli.commands.judging.compare",
}
"""Commands that run without click unless their options need its help texts or error messages."""


def run(arguments: list[str]) -> int:
    """Run one command, and give its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Escape characters that the terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
    with safe_streams():
        return _answer(arguments)


def _answer(arguments: list[str]) -> int:
    """Run one command; what goes wrong becomes a message and an exit code."""
    try:
        _refuse_undecodable(arguments)
        code = _run(arguments)
        sys.stdout.flush()
    except TorchstoneError as error:
        sys.stdout.flush()
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; nothing was written\n")
        return 130
    except OSError as error:
        sys.stderr.write(f"error: the output cannot be written: {reason(error)}\n")
        return 2
    except MemoryError:
        sys.stderr.write("error: out of memory\n")
        return 2
    return code


def _refuse_undecodable(arguments: list[str]) -> None:
    """Refuse names that are not UTF-8: they could not be written into any report."""
    for argument in arguments:
        if not argument.isprintable() and any("\udc80" <= character <= "\udcff" for character in argument):
            raise UsageError(f"{printable(argument)}: a name that is not UTF-8", advice="rename it")


def _run(arguments: list[str]) -> int:
    """Run a command; try without click first where possible."""
    if arguments and arguments[0] in _PLAIN:
        command = import_module(_PLAIN[arguments[0]])
        plain = parse_plainly(arguments[1:], command.OPTIONS)
        if plain is not None:
            positional, values = plain
            try_outputs(command.OPTIONS, values)
            code: int = getattr(command, arguments[0])(positional, **values)
            return code
    from torchstone.cli.group import run_group  # noqa: PLC0415  (start-up: importing click takes longer than a check)

    return run_group(arguments)


def main() -> None:
    """The console command."""
    gc.disable()  # a short process with many records and no cycles: collecting only costs time
    prepare_streams()
    code = settle(run(sys.argv[1:]))
    os._exit(code)  # everything is written: taking millions of records apart again would only cost time
