"""``torchstone doctor``: what on this machine makes numbers noisy or metrics unavailable, and what to do about it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence

import msgspec

from torchstone.cli.options.clicked import make_command
from torchstone.cli.options.plain import Option
from torchstone.cli.options.shared import patience
from torchstone.cli.terminal.output import write_colored, write_data
from torchstone.cli.terminal.show import WIDTH
from torchstone.core.config import wants_color
from torchstone.core.text.safe_text import escape_json
from torchstone.core.text.units import count_of
from torchstone.measure.doctor.diagnosis import Finding, Level, can_measure, diagnose
from torchstone.measure.doctor.inspection import inspect_machine
from torchstone.reporting.dialects.check_text import Page

OPTIONS = (Option("--json", "as_json", "", "Print findings and facts as JSON."),)
_COLORS = {Level.PROBLEM: "red", Level.NOTE: "yellow", Level.OK: "green"}
_INDENT = " " * 9


def doctor(_arguments: tuple[str, ...], *, as_json: bool) -> int:
    """Say what on this machine will disturb measuring, and what to do about it.

    Looks at torch, the compiler, accelerators, processors, memory, disk and
    counters, and times fixed work for a second. Changes nothing. The exit
    code is 0, or 3 if nothing can be measured here because torch is missing.

    \b
    Examples:
      torchstone doctor
      torchstone doctor --json
    """
    with patience("looking"):
        facts = inspect_machine()
    findings = diagnose(facts)
    code = 0 if can_measure(facts) else 3
    if as_json:
        document = {"exit_code": code, "findings": findings, "facts": facts}
        encoded = msgspec.json.encode(msgspec.to_builtins(document))
        write_data(escape_json(msgspec.json.format(encoded, indent=2).decode()) + "\n")
        return code
    terminal = sys.stdout.isatty()
    width = min(WIDTH, shutil.get_terminal_size().columns) if terminal else WIDTH
    write_colored(render(findings, Page(width, color=wants_color(terminal))))
    return code


def render(findings: Sequence[Finding], page: Page) -> str:
    """The findings as text: how many of each, then each, the worst first."""
    lines = [page.paint(_headline(findings), "bold")]
    for level in Level:
        chosen = [finding for finding in findings if finding.level is level]
        if chosen and level is Level.OK:
            lines.append("")
        for finding in chosen:
            lines += _lines(finding, page)
    return page.finish(lines)


def _headline(findings: Sequence[Finding]) -> str:
    found = {level: sum(finding.level is level for finding in findings) for level in Level}
    parts = [count_of(found[level], level.value) for level in (Level.PROBLEM, Level.NOTE) if found[level]]
    return ", ".join([*parts, f"{found[Level.OK]} ok"])


def _lines(finding: Finding, page: Page) -> Iterator[str]:
    level = finding.level
    if level is not Level.OK:
        yield ""
    first, *more = page.wrap(finding.what, _INDENT, _INDENT)
    yield page.paint(f"{level:<8}", _COLORS[level]) + " " + first[len(_INDENT) :]
    yield from more
    yield from page.wrap(finding.why, f"{_INDENT}  why  ", f"{_INDENT}       ") if finding.why else ()
    yield from page.wrap(finding.advice, f"{_INDENT}  do   ", f"{_INDENT}       ") if finding.advice else ()


doctor_command = make_command("doctor", doctor, OPTIONS, "", required=False, bare=True)
