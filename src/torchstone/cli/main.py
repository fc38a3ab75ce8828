"""The ``torchstone`` command: run one subcommand, and turn errors into a message and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from io import TextIOWrapper

from torchstone.cli import lean_start  # must be first: it imports msgspec in less time
from torchstone.cli.options.output_checks import check_outputs
from torchstone.cli.options.plain import parse_plainly
from torchstone.cli.terminal.output import safe_streams
from torchstone.cli.terminal.streams import flush_streams, prepare_streams
from torchstone.core.disk import reason
from torchstone.core.errors import TorchstoneError, UsageError, printable

lean_start.collect_again()

_PLAIN = {
    "check": "torchstone.cli.commands.judging.check",
    "compare": "torchstone.cli.commands.judging.compare",
}
"""Commands that run without click unless their options need its help texts or error messages."""


def run(arguments: list[str]) -> int:
    """Run one command, and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Escape characters that the terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
    with safe_streams():
        return _answer(arguments)


def _answer(arguments: list[str]) -> int:
    """Run one command; turn errors into a message and an exit code."""
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
    """Refuse arguments that are not UTF-8: no report could contain them."""
    for argument in arguments:
        if not argument.isprintable() and any("\udc80" <= character <= "\udcff" for character in argument):
            raise UsageError(f"{printable(argument)}: not valid UTF-8", advice="rename the file")


def _run(arguments: list[str]) -> int:
    """Run a command; try without click first where possible."""
    if arguments and arguments[0] in _PLAIN:
        command = import_module(_PLAIN[arguments[0]])
        plain = parse_plainly(arguments[1:], command.OPTIONS)
        if plain is not None:
            positional, values = plain
            check_outputs(command.OPTIONS, values)
            code: int = getattr(command, arguments[0])(positional, **values)
            return code
    from torchstone.cli.group import run_group  # noqa: PLC0415  (start-up: importing click takes longer than a check)

    return run_group(arguments)


def main() -> None:
    """Run the console command."""
    gc.disable()  # a short process without reference cycles: collecting garbage would only cost time
    prepare_streams()
    code = flush_streams(run(sys.argv[1:]))
    os._exit(code)  # all output is written: freeing millions of records would only cost time
