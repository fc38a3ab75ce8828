"""Display of ``torchstone ab``: live intervals on a terminal, plain lines elsewhere, and the final table."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchstone.api.measuring.ab_result import AbResult, CaseOfBoth, cells_of, effect_text
from torchstone.cli.terminal.ab_interval import draw_interval
from torchstone.cli.terminal.output import make_console
from torchstone.cli.terminal.run_display import Display
from torchstone.cli.terminal.tables import print_table
from torchstone.core.errors import printable
from torchstone.core.records import Case
from torchstone.core.text.safe_text import escape_line
from torchstone.core.text.units import clock_text, count_of, format_share
from torchstone.core.vocabulary import Verdict
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.reporting.dialects.case_label import Labels

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_NOTICED = 0.01
_STYLES = {
    Verdict.REGRESSION: "bold red",
    Verdict.IMPROVEMENT: "green",
    Verdict.SAME: "green",
    Verdict.INCONCLUSIVE: "yellow",
}


class AbDisplay(Display):
    """Print one line for each decided case."""

    def __init__(self, *, is_result_printed: bool = True) -> None:
        super().__init__()
        # Standard output is reserved for the report if that is not text.
        self.stream = sys.stdout if is_result_printed else sys.stderr
        self._contests: Sequence[Contest] = ()
        self._settings = AbSettings()

    @contextmanager
    def comparing(self, contests: Sequence[Contest], settings: AbSettings) -> Iterator[None]:
        """Show progress while pairs are measured."""
        self._contests, self._settings, self._total = contests, settings, len(contests)
        self._started = time.monotonic()
        self._labels = Labels([contest.case for contest in contests])
        self._width = max(len(self.name(contest.case)) for contest in contests)
        yield

    def name(self, case: Case) -> str:
        """Return a short name of a case."""
        return self._labels.name_of(case)

    def measured(self, contest: Contest) -> None:
        """Show that a pair has been measured; print a line if the case is decided."""
        if contest.verdict:
            self._done += 1
            self._say_verdict(contest)

    def _say_verdict(self, contest: Contest) -> None:
        count = f"[{self._done:>{len(str(self._total))}}/{self._total}] "
        print(f"{count}{self.line(contest)}", flush=True, file=self.stream)

    def line(self, contest: Contest) -> str:
        """Return a case and its state as a line: ``mlp inference  regression  +5.1% [+3.2%, +7.4%]  9 pairs``."""
        parts = [self.name(contest.case).ljust(self._width), (contest.verdict or "open").ljust(12)]
        parts.append(f"{effect_text(contest.effect)}  {count_of(contest.pairs, 'pair')}")
        return "  ".join([*parts, *([contest.reason] if contest.reason else [])])


class LiveAbDisplay(AbDisplay):
    """Show a bar for each undecided case, below the verdicts so far."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None
        self._drawn = 0.0
        self._at_work: Case | None = None
        self._phase = ""

    @contextmanager
    def comparing(self, contests: Sequence[Contest], settings: AbSettings) -> Iterator[None]:
        """Show progress while pairs are measured."""
        from rich.live import Live  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

        with (
            super().comparing(contests, settings),
            Live(
                self._view(),
                console=make_console(),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
            ) as live,
        ):
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def started(self, case: Case) -> None:
        """Show that a pair of this case has started."""
        self._at_work, self._phase = case, "start"
        self._draw()

    def entered(self, case: Case, phase: str) -> None:
        """Show that the current pair has entered a phase."""
        self._at_work, self._phase = case, phase
        self._draw()

    def tick(self) -> None:
        """Redraw, at most once a second."""
        if time.monotonic() - self._drawn > 1.0:
            self._draw()

    def _say_verdict(self, contest: Contest) -> None:
        from rich.text import Text  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

        if self._live:
            line = Text(escape_line(self.line(contest)))
            if contest.verdict:
                line.highlight_words([contest.verdict], _STYLES.get(contest.verdict, ""))
            self._live.console.print(line, no_wrap=True, overflow="ellipsis")
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._live:
            self._live.update(self._view(), refresh=True)

    def _view(self) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)
        from rich.text import Text  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

        spent, budget = time.monotonic() - self._started, self._settings.budget
        head = f"{self._done}/{self._total} decided, {clock_text(spent)} of {clock_text(budget)}"
        lines = [Text(head)]
        for contest in self._contests:
            if not contest.verdict:
                at_work = f"  {escape_line(self._phase)}" if contest.case == self._at_work else ""
                bar = draw_interval(contest.effect, self._settings.margin)
                told = f"{count_of(contest.pairs, 'pair'):>8}{at_work}"
                lines.append(
                    Text(f"  {self.name(contest.case).ljust(self._width)} {bar} {told}", style="cyan")
                )
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)


def make_ab_display(*, is_result_printed: bool = True) -> AbDisplay:
    """Return a live display for a terminal, else a plain one."""
    if sys.stdout.isatty() and is_result_printed:
        return LiveAbDisplay()
    return AbDisplay(is_result_printed=is_result_printed)


def _looks_otherwise(case: CaseOfBoth) -> bool:
    """Return whether the costs shown suggest another change than the one that was found."""
    before, after = case.costs
    if not before or not after or case.effect is None:
        return False
    return abs(after / before / case.effect.ratio - 1) > _NOTICED


def print_result(result: AbResult) -> None:
    """Print the final table, regressions first."""
    settings = result.settings
    rows = [[each.verdict.value, each.name, *cells_of(each, settings)] for each in result.cases]
    judged = f"margin {format_share(settings.margin)}, alpha {format_share(settings.alpha)}"
    print()
    title = f"{result.headline} ({judged}) in {clock_text(result.seconds)}"
    print_table(["", "case", "B against A", "pairs", "A", "B"], rows, title=title)
    if any(map(_looks_otherwise, result.cases)):
        print(
            "A and B are medians over all pairs; the change is measured within pairs, so it can differ from B/A"
        )
    for case in result.cases:
        if case.reason:
            print(f"{case.verdict}: {case.name}: {printable(case.reason, 400)}")
