"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

from torchstone.cli.options.plain import Option
from torchstone.cli.terminal.output import write_status
from torchstone.core.errors import UsageError, printable
from torchstone.formats import FORMATS
from torchstone.formats.merge import parse_axes

KINDS = tuple(FORMATS)

ONLY = Option(
    "--only",
    "only",
    "PATTERN",
    "Only cases that match: a name, an id, or a shell pattern. Repeatable.",
    multiple=True,
)
SET = Option(
    "--set",
    "axes",
    "AXIS=VALUE",
    "State an axis that the results do not: device, backend, mode, dtype, dynamic, batch_size, suite, tag or wrapper. Repeatable.",
    multiple=True,
    parse=lambda _, texts: tuple(parse_axes(texts).items()),
)
UPSTREAM_VERSION = Option(
    "--upstream-version",
    "upstream_version",
    "VERSION",
    "The version of PyTorch whose flaky models the policy upstream lets pass, such as 2.13. Default: recorded.",
)
KIND = Option(
    "--kind", "kind", "KIND", "The kind of the result files, if it is not to be recognised.", choices=KINDS
)
CONFIG = Option(
    "--config",
    "config",
    "FILE",
    "Settings; by default torchstone.toml in the current folder, if there is one.",
)
RULE = Option(
    "--rule",
    "rules",
    "RULE",
    "How to judge a metric, as METRIC[@CASE]=KIND[:VALUE[:VALUE]], such as speedup=floor:1.2. Repeatable.",
    multiple=True,
)

COMPARE_ANYWAY = Option(
    "--compare-anyway",
    "compare_anyway",
    "",
    "Compare cases although they differ, for example in batch size.",
)
CROSS_ENVIRONMENT = Option(
    "--cross-environment",
    "cross_environment",
    "",
    "Compare times and memory although machine or software differ.",
)


def parse_day(option: str, text: str | None) -> date | None:
    """A date as given on the command line, or None where none was."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise UsageError(f"{option} {text}: expected a date such as 2026-12-31") from None


@contextmanager
def patience(what: str) -> Iterator[None]:
    """Say on a terminal what is going on, once it takes longer than people like to wait in the dark."""
    if not sys.stderr.isatty():
        yield
        return
    import threading  # noqa: PLC0415  (start-up: used on a terminal only)
    import time  # noqa: PLC0415  (start-up: used on a terminal only)

    done = threading.Event()

    def tell() -> None:
        start, told = time.monotonic(), False
        while not done.wait(1.0):
            told = True
            write_status(f"\r{printable(what)} ... {time.monotonic() - start:.0f} s")
        if told:
            write_status("\r\x1b[K")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
