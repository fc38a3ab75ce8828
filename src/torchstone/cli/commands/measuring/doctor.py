"""``torchstone doctor``: find causes of noise and missing metrics on this machine, with advice."""

from __future__ import annotations

import shutil
import sys

import msgspec

from torchstone.api.inspecting.doctor import DoctorResult
from torchstone.api.inspecting.doctor import doctor as examine
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.plain import Option
from torchstone.cli.options.shared import show_progress
from torchstone.cli.terminal.output import write_colored, write_data
from torchstone.core.config import wants_color
from torchstone.core.text.safe_text import escape_json
from torchstone.reporting.dialects.styles import WIDTH

OPTIONS = (
    Option("--device", "device", "DEVICE", "Check this device too: cuda, cuda:1, xpu, ..."),
    Option("--json", "as_json", "", "Print findings and facts as JSON."),
)


def doctor(_arguments: tuple[str, ...], *, device: str | None, as_json: bool) -> int:
    """Find what disturbs measurements here, and how to fix it.

    Inspects torch, the compiler, accelerators, processors, memory, disk and
    counters, and times a fixed amount of work for a second. Changes nothing.
    The exit code is 0, or 3 if torch is missing, or cannot use the device, and
    nothing can be measured.

    \b
    Examples:
      torchstone doctor
      torchstone doctor --device cuda
      torchstone doctor --json
    """
    with show_progress("inspecting this machine"):
        result = examine(device or "")
    if as_json:
        _print_json(result)
    else:
        terminal = sys.stdout.isatty()
        width = min(WIDTH, shutil.get_terminal_size().columns) if terminal else WIDTH
        write_colored(result.render(width, color=wants_color(terminal)))
    return result.exit_code


def _print_json(result: DoctorResult) -> None:
    document = {
        "exit_code": result.exit_code,
        "findings": result.findings,
        "facts": result.facts.to_mapping(),
        **({"device": result.device} if result.device else {}),
    }
    encoded = msgspec.json.encode(msgspec.to_builtins(document))
    write_data(escape_json(msgspec.json.format(encoded, indent=2).decode()) + "\n")


doctor_command = make_command("doctor", doctor, OPTIONS, "", required=False, bare=True)
