"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING

from torchstone.cli.options.plain import Option
from torchstone.cli.terminal.background import in_background
from torchstone.cli.terminal.output import write_status
from torchstone.core.errors import UsageError, printable
from torchstone.formats import FORMATS
from torchstone.formats.merge import parse_axes

if TYPE_CHECKING:
    from threading import Event

KINDS = tuple(FORMATS)

INPUT, CASES, JUDGING, BLOCKING = "Input", "Which cases", "How to judge", "What blocks"
"""Sections of help texts."""

ONLY = Option(
    "--only",
    "only",
    "PATTERN",
    "Only cases with this name or id, or matching this shell pattern. Repeatable.",
    multiple=True,
    section=CASES,
)
SET = Option(
    "--set",
    "axes",
    "AXIS=VALUE",
    "Set an axis that the results do not state: device, backend, mode, dtype, dynamic, batch_size, suite, tag or wrapper. Repeatable.",
    multiple=True,
    parse=lambda _, texts: tuple(parse_axes(texts).items()),
    section=INPUT,
)
UPSTREAM_VERSION = Option(
    "--upstream-version",
    "upstream_version",
    "VERSION",
    "With --policy upstream: use the list of flaky models of this PyTorch version, such as 2.13 (default: recorded).",
    section=JUDGING,
)
KIND = Option(
    "--kind", "kind", "KIND", "Format of the result files (default: detected).", choices=KINDS, section=INPUT
)
BASELINE_KIND = Option(
    "--baseline-kind",
    "baseline_kind",
    "KIND",
    "Format of the baseline (default: detected).",
    choices=KINDS,
    section=INPUT,
)
CONFIG = Option(
    "--config",
    "config",
    "FILE",
    "Configuration file (default: torchstone.toml in the current folder, if it exists).",
)
RULE = Option(
    "--rule",
    "rules",
    "RULE",
    "Rule for a metric, METRIC[@CASE]=KIND[:VALUE[:VALUE]], such as speedup=floor:1.2. Repeatable.",
    multiple=True,
    section=JUDGING,
)

COMPARE_ANYWAY = Option(
    "--compare-anyway",
    "compare_anyway",
    "",
    "Compare cases even if they differ, for example in batch size.",
    section=JUDGING,
)
CROSS_ENVIRONMENT = Option(
    "--cross-environment",
    "cross_environment",
    "",
    "Compare times and memory even if the machine or software differs.",
    section=JUDGING,
)


def parse_day(option: str, text: str | None) -> date | None:
    """Parse a date; None if there is none."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise UsageError(f"{option} {text}: expected a date such as 2026-12-31") from None


@contextmanager
def show_progress(what: str) -> Iterator[None]:
    """Show on a terminal what is going on, once it has taken a second."""
    if not sys.stderr.isatty():
        yield
        return
    import shutil  # noqa: PLC0415  (start-up: used on a terminal only)
    import time  # noqa: PLC0415  (start-up: used on a terminal only)

    text = printable(what)

    def run(done: Event) -> None:
        start, shown = time.monotonic(), False
        while not done.wait(1.0):
            shown = True
            ending = f" ... {time.monotonic() - start:.0f} s"
            room = (
                shutil.get_terminal_size().columns - len(ending) - 1
            )  # a line that wraps could not be replaced
            write_status(f"\r{text if len(text) <= room else f'{text[: max(room - 1, 0)]}…'}{ending}")
        if shown:
            write_status("\r\x1b[K")

    with in_background(run):
        yield
