"""Progress of a run: a live view on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchstone.cli.options.shared import show_progress
from torchstone.cli.terminal.output import make_console, make_live
from torchstone.cli.terminal.run_summary import print_summary
from torchstone.core.errors import printable
from torchstone.core.records import Case, Outcome, Run
from torchstone.core.text.safe_text import escape_line, escape_lines
from torchstone.core.text.units import clock_text
from torchstone.reporting.run_text.case_lines import CaseLines

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live


class Display:
    """Print one line for each finished case; nothing is cut."""

    def __init__(self) -> None:
        self._total = 0
        self._done = 0
        self._started = time.monotonic()
        self._lines = CaseLines()

    def say(self, text: str) -> None:
        """Print a message on standard error."""
        sys.stderr.write(f"{text}\n")

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show what is going on before the first case; without a terminal, print it once."""
        if not sys.stderr.isatty():
            self.say(what)
        with show_progress(what):
            yield

    @contextmanager
    def showing(self, run: Run) -> Iterator[None]:
        """Show progress while cases are measured."""
        self._total, self._done = len(run.plan), len(run.outcomes)
        self._started, self._before = time.monotonic(), len(run.outcomes)
        self._lines = CaseLines(run.plan, self._room())
        yield

    def started(self, case: Case) -> None:
        """Show that a case has started."""

    def entered(self, case: Case, phase: str) -> None:
        """Show that a case has entered a phase."""

    def tick(self) -> None:
        """Redraw, if the display shows time."""

    def finished(self, outcome: Outcome) -> None:
        """Print the line of a finished case."""
        self._done += 1
        count = f"[{self._done:>{len(str(self._total))}}/{self._total}] "
        print(f"{count}{self._lines.of(outcome)}", flush=True)

    def _room(self) -> int | None:
        """Return the columns that a line may have; None if it may have any number."""
        return None

    def summarise(self, run: Run, path: str) -> None:
        """Print the final table and the name of the run file."""
        print_summary(run, path, time.monotonic() - self._started)

    def seconds_left(self) -> float | None:
        """Estimate the remaining time from the average so far; None before the first case has ended."""
        ended = self._done - self._before
        if ended <= 0:
            return None
        return (time.monotonic() - self._started) / ended * (self._total - self._done)


class LiveDisplay(Display):
    """Show a progress bar with the remaining time, and running cases with their phases, below the results so far."""

    def __init__(self) -> None:
        super().__init__()
        self._at_work: dict[Case, tuple[str, float]] = {}
        self._live: Live | None = None
        self._drawn = 0.0

    @contextmanager
    def showing(self, run: Run) -> Iterator[None]:
        """Show progress while cases are measured."""
        with super().showing(run), make_live(self._view()) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def _room(self) -> int | None:
        return make_console().width

    def started(self, case: Case) -> None:
        """Show that a case has started."""
        self._at_work[case] = ("start", time.monotonic())
        self._draw()

    def entered(self, case: Case, phase: str) -> None:
        """Show that a case has entered a phase."""
        self._at_work[case] = (phase, time.monotonic())
        self._draw()

    def tick(self) -> None:
        """Redraw, at most once a second so that it does not disturb the measured case."""
        if time.monotonic() - self._drawn > 1.0:
            self._draw()

    def finished(self, outcome: Outcome) -> None:
        """Print the line of a finished case, and redraw."""
        from rich.text import Text  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

        self._done += 1
        self._at_work.pop(outcome.case, None)
        line = Text(escape_lines(self._lines.of(outcome)))
        status_end = len(outcome.status)
        line.stylize("green" if outcome.status.startswith("pass") else "bold red", 0, status_end)
        if self._live:
            self._live.console.print(line, no_wrap=True, overflow="ellipsis")
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._live:
            self._live.update(self._view(), refresh=True)

    def _view(self) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)
        from rich.progress_bar import ProgressBar  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)
        from rich.table import Table  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)
        from rich.text import Text  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

        head = Table.grid(padding=(0, 1))
        left = self.seconds_left()
        rest = f"about {clock_text(left)} left" if left is not None else "measuring the first case"
        elapsed = clock_text(time.monotonic() - self._started)
        head.add_row(
            Text(f"{self._done}/{self._total}"),
            ProgressBar(total=max(1, self._total), completed=self._done, width=24),
            Text(f"{elapsed}, {rest}"),
        )
        lines = [
            Text(
                f"  {escape_line(phase):<8} {time.monotonic() - since:>4.0f} s  {self._name(case)}",
                style="cyan",
            )
            for case, (phase, since) in self._at_work.items()
        ]
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(head, *lines)

    def _name(self, case: Case) -> str:
        """Return a short name of a case: benchmark, probe, mode, and a label that distinguishes it."""
        label = self._lines.label_of(case) or case.variant.dtype
        return printable(f"{case.benchmark} {case.probe} {case.variant.mode} {label}")


def make_display() -> Display:
    """Return a live display for a terminal, else a plain one."""
    return LiveDisplay() if sys.stdout.isatty() else Display()
