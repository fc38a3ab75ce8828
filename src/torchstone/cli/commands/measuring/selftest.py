"""``torchstone selftest``: measure how often verdicts of ``torchstone ab`` are wrong, and which slow-downs they detect."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torchstone.api.measuring.ab_request import SelftestRequest
from torchstone.api.measuring.selftest import SelftestResult, open_selftest
from torchstone.cli.commands.measuring.run import INTERRUPTED
from torchstone.cli.options.ab_options import SELFTEST_OPTIONS as OPTIONS
from torchstone.cli.options.click_commands import make_command
from torchstone.cli.options.requests import make_request
from torchstone.cli.terminal.run_display import Display, LiveDisplay
from torchstone.cli.terminal.tables import print_table
from torchstone.core.errors import printable
from torchstone.core.records import Run
from torchstone.core.text.safe_text import escape_line
from torchstone.measure.ab.self_comparison import SelfComparison


class _Lines(Display):
    """Print one line for each comparison."""

    @contextmanager
    def trying(self, run: Run, total: int) -> Iterator[None]:
        """Show progress while comparisons are made."""
        with self.showing(run):
            self._total = total
            yield

    def tried(self, each: SelfComparison) -> None:
        """Show a comparison that has ended."""
        self._done += 1
        print(f"[{self._done:>{len(str(self._total))}}/{self._total}] {each}", flush=True)


class _Live(LiveDisplay):
    """Show a progress bar with the remaining time, below the finished comparisons."""

    @contextmanager
    def trying(self, run: Run, total: int) -> Iterator[None]:
        """Show progress while comparisons are made."""
        with self.showing(run):
            self._total = total
            yield

    def tried(self, each: SelfComparison) -> None:
        """Show a comparison that has ended."""
        self._done += 1
        from rich.text import Text  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

        self._at_work.clear()
        if self._live:
            self._live.console.print(Text(escape_line(str(each))), no_wrap=True, overflow="ellipsis")
        self._draw()


def test_verdicts(targets: tuple[str, ...], **values: Any) -> int:  # noqa: ANN401  (the options, by name)
    """Measure how often 'torchstone ab' is wrong on this machine.

    Compares every case with itself: once unchanged, so that any change found
    is a false alarm, and once for each --slow-down, with that much real work
    added to every call of one side. TARGETS are the same as for 'torchstone
    run'.

    \b
    Examples:
      torchstone selftest smoke
      torchstone selftest bench_mine.py --slow-down 1% --repeat 10

    \b
    Exit codes:
      0  no more false alarms than --alpha allows
      1  more false alarms than --alpha allows
      2  bad input or usage
      3  nothing could be measured
    """
    request = make_request(SelftestRequest, OPTIONS, values, targets=targets)
    display: _Lines | _Live = _Live() if sys.stdout.isatty() else _Lines()
    result: SelftestResult | None = None
    try:
        with open_selftest(request, display) as execution:
            try:
                execution.measure_all()
            finally:
                result = execution.result()
    except KeyboardInterrupt:
        if result:
            _show(result, values["output"])
        sys.stderr.write("\nstopped: the results so far are above\n")
        return INTERRUPTED
    return _show(result, values["output"])


def _show(result: SelftestResult, output: str | None) -> int:
    """Print the table and its meaning, and write the JSON file."""
    if not result.scores:
        sys.stderr.write(f"{result.sentences[0]}\n")
        return result.exit_code
    print()
    table = result.table
    print_table(table.header, table.rows, title=table.title)
    for sentence in result.sentences:
        print(sentence)
    if output:
        result.write(output)
        print(f"wrote {printable(output)}")
    return result.exit_code


selftest_command = make_command("selftest", test_verdicts, OPTIONS, "[TARGETS]...", required=False)
