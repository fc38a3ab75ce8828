"""``torchstone ab``: decide whether B is slower than A on this machine."""

from __future__ import annotations

import os
import sys
from typing import Any

from torchstone.api.measuring.ab import AbExecution, open_ab
from torchstone.api.measuring.ab_request import AbRequest
from torchstone.api.measuring.ab_result import AB_STYLES
from torchstone.cli.commands.measuring.run import INTERRUPTED, say_losses
from torchstone.cli.options.ab_options import OPTIONS
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.requests import make_request
from torchstone.cli.terminal.ab_display import AbDisplay, make_ab_display
from torchstone.cli.terminal.ab_result import show_result
from torchstone.cli.terminal.show import Shown, parse_reports, refuse_misnamed
from torchstone.core.errors import UsageError
from torchstone.core.text.units import count_of, some_of
from torchstone.measure.executors.protocol import CannotMeasureError
from torchstone.reporting.dialects.styles import HTML


def compare_sides(targets: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Decide whether B is slower than A on this machine.

    TARGETS are the same as for 'torchstone run'. A worker of A and a worker of
    B take turns, pair after pair, until each case is decided (regression,
    improvement, or same within the margin) or the budget is spent.

    \b
    Examples:
      torchstone ab smoke --a rev=HEAD~1 --b rev=HEAD
      torchstone ab bench_mine.py --b python=../other-torch/.venv
      torchstone ab bench_mine.py --b env:TORCHINDUCTOR_CPP_WRAPPER=1
      torchstone ab smoke -k mlp --a mode=default --b mode=max-autotune

    \b
    Exit codes:
      0  nothing blocks
      1  a regression, or a case is undecided or on one side only
      2  bad input or usage
      3  nothing could be measured, or a run file was removed, replaced or
         changed while it was written
    """
    shown = Shown(values["style"] or "", values["output"], tuple(parse_reports(values["reports"], AB_STYLES)))
    request = make_request(AbRequest, OPTIONS, values, targets=targets)
    _check_outputs(request, shown)
    display = make_ab_display(is_result_printed=shown.style in {"", "text"} or bool(shown.output))
    try:
        with open_ab(request, display) as execution:
            return _measure(execution, shown, display)
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped before the first pair; nothing was written\n")
        return INTERRUPTED


def _check_outputs(request: AbRequest, shown: Shown) -> None:
    """Raise an error if two outputs are the same file, or a report is named as if it were a page."""
    output = ((shown.style or HTML, shown.output),) if shown.output else ()
    refuse_misnamed((*shown.reports, *output), AB_STYLES)
    named: dict[str, str] = {}
    paths = [
        ("--output-a", request.output_a),
        ("--output-b", request.output_b),
        ("--output", shown.output),
        *((f"--report {style}", path) for style, path in shown.reports),
    ]
    for flag, path in paths:
        if path:
            other = named.setdefault(os.path.realpath(path), flag)
            if other != flag:
                raise UsageError(f"{other} and {flag} both name {path}", advice="use different files")


def _measure(execution: AbExecution, shown: Shown, display: AbDisplay) -> int:
    try:
        result = execution.measure_all()
        show_result(result, display, shown)
    except (KeyboardInterrupt, CannotMeasureError) as stopped:
        code = _say_stopped(execution)
        if isinstance(stopped, CannotMeasureError):
            raise
        return code
    say_losses(execution.journals)
    return result.exit_code


def _say_stopped(execution: AbExecution) -> int:
    """Report how many cases are undecided, and where the measurements are."""
    left, total = execution.undecided, len(execution.contests)
    undecided = f"{count_of(len(left), 'case')} of {total} undecided ({some_of(left)})"
    paths = " and ".join(journal.path for journal in execution.journals)
    sys.stderr.write(
        f"\nstopped: {undecided if left else 'everything was decided'}; measurements are in {paths}\n"
    )
    say_losses(execution.journals)
    return INTERRUPTED


ab_command = make_command("ab", compare_sides, OPTIONS, "[TARGETS]...", required=False)
