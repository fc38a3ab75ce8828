"""Display of ``torchstone ab``: live intervals on a terminal, plain lines elsewhere, and the final table."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchstone.api.measuring.ab_result import (
    AbResult,
    CaseOfBoth,
    cells_of,
    effect_text,
    has_interval,
    pairs_text,
)
from torchstone.cli.terminal.ab_interval import draw_interval
from torchstone.cli.terminal.background import in_background
from torchstone.cli.terminal.output import make_live
from torchstone.cli.terminal.run_display import Display
from torchstone.cli.terminal.tables import print_table, print_wrapped
from torchstone.core.errors import printable
from torchstone.core.records import Case
from torchstone.core.text.safe_text import escape_line
from torchstone.core.text.units import clock_text, count_of, duration_text, format_share
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import State
from torchstone.measure.ab.budget import Budget
from torchstone.measure.ab.contest import AbSettings, Contest
from torchstone.reporting.dialects.case_label import Labels
from torchstone.reporting.views.report_view import exit_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_NOTICED = 0.01
_NOTICED_STEP = 2.0  # seconds after which the duration of a step is printed
_QUIET = 30.0  # seconds without a line, after which the state of a case is printed
_REPEATS = (10.0, 30.0, 60.0)  # seconds after which a step that goes on is printed again, without a terminal
_STYLES = {
    Verdict.REGRESSION: "bold red",
    Verdict.IMPROVEMENT: "green",
    Verdict.SAME: "green",
    Verdict.INCONCLUSIVE: "yellow",
}


@contextmanager
def _repeating(what: str) -> Iterator[None]:
    """Without a terminal, print now and then that a step goes on; a terminal has a counter."""
    if sys.stderr.isatty():
        yield
        return

    def run(done: threading.Event) -> None:
        began, later = time.monotonic(), itertools.count(2 * _REPEATS[-1], _REPEATS[-1])
        for after in itertools.chain(_REPEATS, later):
            if done.wait(began + after - time.monotonic()):
                return
            sys.stderr.write(f"{printable(what)} ... {after:.0f} s\n")

    with in_background(run):
        yield


class AbDisplay(Display):
    """Print one line for each decided case."""

    def __init__(self, *, is_result_printed: bool = True) -> None:
        super().__init__()
        # Standard output is for the report: its first line is the headline, or it is no text at all.
        self.stream = sys.stdout if is_result_printed else sys.stderr
        self._contests: Sequence[Contest] = ()
        self._settings = AbSettings()
        self._budget = Budget()
        self._told_at = time.monotonic()

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show a step of the preparation, and how long it took if that was noticeable."""
        began = time.monotonic()
        with super().busy(what), _repeating(what):
            yield
        if (seconds := time.monotonic() - began) >= _NOTICED_STEP:
            self.say(f"{what}: {duration_text(seconds)}")

    @contextmanager
    def comparing(self, contests: Sequence[Contest], settings: AbSettings, budget: Budget) -> Iterator[None]:
        """Show progress while pairs are measured."""
        self._contests, self._settings, self._total = contests, settings, len(contests)
        self._budget, self._told_at = budget, time.monotonic()
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
        elif time.monotonic() - self._told_at >= _QUIET:
            self._say_progress(contest)

    def _say_progress(self, contest: Contest) -> None:
        """Say where an undecided case stands: without a terminal, nothing else shows that."""
        self._told_at = time.monotonic()
        done = pairs_text(contest.pairs, self._settings.least_pairs)
        self.say(f"{self.name(contest.case)}: {done}; {self._progress()}")

    def _progress(self) -> str:
        spent, budget = clock_text(self._budget.spent), clock_text(self._budget.seconds)
        return f"{self._done}/{self._total} decided, {spent} of {budget}"

    def _say_verdict(self, contest: Contest) -> None:
        self._told_at = time.monotonic()
        count = f"[{self._done:>{len(str(self._total))}}/{self._total}] "
        print(f"{count}{self.line(contest)}", flush=True, file=sys.stderr)

    def line(self, contest: Contest) -> str:
        """Return a case and its state as a line: ``mlp inference  regression  +5.1% [+3.2%, +7.4%]  9 pairs``."""
        parts = [self.name(contest.case).ljust(self._width), (contest.verdict or "open").ljust(12)]
        effect = effect_text(contest.effect, contest.pairs, self._settings.least_pairs)
        is_told = contest.effect is not None and not has_interval(contest.effect)
        parts.append(effect if is_told else f"{effect}  {count_of(contest.pairs, 'pair')}")
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
    def comparing(self, contests: Sequence[Contest], settings: AbSettings, budget: Budget) -> Iterator[None]:
        """Show progress while pairs are measured."""
        with super().comparing(contests, settings, budget), make_live(self._view()) as live:
            self._live = live
            try:
                yield
            finally:
                self._live = None

    def say(self, text: str) -> None:
        """Print a message, above the bars if there are any."""
        from rich.text import Text  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

        if self._live:
            self._live.console.print(Text(escape_line(text)))
        else:
            super().say(text)

    def _say_progress(self, contest: Contest) -> None:
        """Say nothing: the bars show it."""

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
            self._live.console.print(line)
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._live:
            self._live.update(self._view(), refresh=True)

    def _view(self) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)
        from rich.text import Text  # noqa: PLC0415  (start-up: slow to import, and used on a terminal only)

        lines = [Text(self._progress())]
        for contest in self._contests:
            if not contest.verdict:
                at_work = f"  {escape_line(self._phase)}" if contest.case == self._at_work else ""
                name = self.name(contest.case).ljust(self._width)
                lines.append(Text(f"  {name} {self._state(contest)}{at_work}", style="cyan"))
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)

    def _state(self, contest: Contest) -> str:
        """Return the interval as a bar, and the number of pairs; without an interval, what it waits for."""
        settings, effect = self._settings, contest.effect
        if effect is None:
            return f"no pair yet, at least {settings.least_pairs} are needed"
        if not has_interval(effect):
            return effect_text(effect, contest.pairs, settings.least_pairs)
        return f"{draw_interval(effect, settings.margin)} {count_of(contest.pairs, 'pair')}"


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


def exit_words(result: AbResult) -> str:
    """Return the exit code and the reason for it; a pass has only its policy."""
    judgement = result.judgement
    if result.losses:
        return f"a run file was lost while it was written: exit code {result.exit_code}"
    if result.exit_code != judgement.exit_code:
        return f"nothing could be measured: exit code {result.exit_code}"
    blocking = [row for row in judgement.rows if row.blocks]
    if blocking and all(row.verdict in {Verdict.MISSING, Verdict.NEW} for row in blocking):
        blocked = f"blocks {count_of(len(blocking), 'case')} that only one side has"
        return f"{judgement.policy.title} {blocked}: exit code {judgement.exit_code}"
    return exit_text(judgement)


def print_result(result: AbResult) -> None:
    """Print the headline, with the exit code and the reason for it; then the final table, regressions first."""
    settings = result.settings
    rows = [[each.verdict.value, each.name, *cells_of(each, settings)] for each in result.cases]
    judged = f"margin {format_share(settings.margin)}, alpha {format_share(settings.alpha)}"
    if sys.stdout.isatty():
        print()
    summary = f"{result.headline} ({judged}) in {clock_text(result.seconds)}"
    print_wrapped(f"{result.state}: {summary}; {exit_words(result)}")
    print_table(["", "case", "B against A", "pairs", "A", "B"], rows, title="")
    if any(map(_looks_otherwise, result.cases)):
        print_wrapped(
            "A and B are medians over all pairs; the change is measured within pairs, so it can differ from B/A"
        )
    for case in result.cases:
        if case.reason:
            print_wrapped(f"{case.verdict}: {case.name}: {printable(case.reason, 400)}")
    if result.advice:
        print_wrapped(result.advice)
    elif result.state is State.UNDECIDED and result.exit_code == result.judgement.exit_code:
        print_wrapped("a larger --budget or --margin may decide what is undecided")
