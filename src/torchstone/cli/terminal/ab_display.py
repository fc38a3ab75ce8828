"""What a person sees of ``torchstone ab``: on a terminal the intervals closing in on the margin, plain lines elsewhere, and the table at the end."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from torchstone.analyze.sequential import Effect
from torchstone.cli.terminal.case_label import Labels
from torchstone.cli.terminal.output import make_console
from torchstone.cli.terminal.run_display import Display, clock_text
from torchstone.cli.terminal.tables import print_table
from torchstone.core.cautions import merge_cautions
from torchstone.core.errors import printable
from torchstone.core.records import Case
from torchstone.core.text.safe_text import escape_line
from torchstone.core.text.units import count_of, format_change, format_share, format_value
from torchstone.measure.ab.experiment import Contest, Match, Terms

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

VERDICTS = ("regression", "improvement", "inconclusive", "same")
_CHANGES = ("regression", "improvement")
BAR = 33
_NOTICED = 0.01
_NAMES_SHOWN = 5
SPAN = 4  # margins to either side of no change that a bar shows
_STYLES = {"regression": "bold red", "improvement": "green", "same": "green", "inconclusive": "yellow"}


class AbDisplay(Display):
    """Plain lines: one for each case that is decided."""

    def __init__(self) -> None:
        super().__init__()
        self._contests: Sequence[Contest] = ()
        self._terms = Terms()

    @contextmanager
    def comparing(self, contests: Sequence[Contest], terms: Terms) -> Iterator[None]:
        """While pairs are measured."""
        self._contests, self._terms, self._total = contests, terms, len(contests)
        self._started = time.monotonic()
        self._labels = Labels([contest.case for contest in contests])
        self._width = max(len(self.name(contest.case)) for contest in contests)
        yield

    def name(self, case: Case) -> str:
        """A case in few words."""
        label = self._labels.of(case).strip()
        return printable(f"{case.benchmark} {case.variant.mode} {label}".strip())

    def measured(self, contest: Contest) -> None:
        """A pair has been measured: a line, if it was the last one."""
        if contest.verdict:
            self._done += 1
            self._say_verdict(contest)

    def _say_verdict(self, contest: Contest) -> None:
        count = f"[{self._done:>{len(str(self._total))}}/{self._total}] "
        print(f"{count}{self.line(contest)}", flush=True)

    def line(self, contest: Contest) -> str:
        """A case and what is known of it: ``mlp inference  regression  +5.1% [+3.2%, +7.4%]  9 pairs``."""
        parts = [self.name(contest.case).ljust(self._width), (contest.verdict or "open").ljust(12)]
        parts.append(f"{effect_text(contest.effect)}  {count_of(contest.pairs, 'pair')}")
        return "  ".join([*parts, *([contest.reason] if contest.reason else [])])


class LiveAbDisplay(AbDisplay):
    """A bar for each case that is not decided yet; verdicts scroll by above."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None
        self._drawn = 0.0
        self._at_work: Case | None = None
        self._phase = ""

    @contextmanager
    def comparing(self, contests: Sequence[Contest], terms: Terms) -> Iterator[None]:
        """While pairs are measured."""
        from rich.live import Live  # noqa: PLC0415  (of no use in a pipe)

        with (
            super().comparing(contests, terms),
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
        """A pair of this case has begun."""
        self._at_work, self._phase = case, "start"
        self._draw()

    def entered(self, case: Case, phase: str) -> None:
        """The pair at work is in another phase."""
        self._at_work, self._phase = case, phase
        self._draw()

    def tick(self) -> None:
        """Some time has passed: once a second is often enough."""
        if time.monotonic() - self._drawn > 1.0:
            self._draw()

    def _say_verdict(self, contest: Contest) -> None:
        from rich.text import Text  # noqa: PLC0415

        if self._live:
            line = Text(escape_line(self.line(contest)))
            line.highlight_words([contest.verdict], _STYLES.get(contest.verdict, ""))
            self._live.console.print(line, no_wrap=True, overflow="ellipsis")
        self._draw()

    def _draw(self) -> None:
        self._drawn = time.monotonic()
        if self._live:
            self._live.update(self._view(), refresh=True)

    def _view(self) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        spent, budget = time.monotonic() - self._started, self._terms.budget
        head = f"{self._done}/{self._total} decided, {clock_text(spent)} of {clock_text(budget)}"
        lines = [Text(head)]
        for contest in self._contests:
            if not contest.verdict:
                at_work = f"  {escape_line(self._phase)}" if contest.case == self._at_work else ""
                bar = draw_interval(contest.effect, self._terms.margin)
                told = f"{count_of(contest.pairs, 'pair'):>8}{at_work}"
                lines.append(
                    Text(f"  {self.name(contest.case).ljust(self._width)} {bar} {told}", style="cyan")
                )
        for line in lines:
            line.no_wrap, line.overflow = True, "ellipsis"
        return Group(*lines)


def make_ab_display() -> AbDisplay:
    """The display that fits where the output goes."""
    return LiveAbDisplay() if sys.stdout.isatty() else AbDisplay()


def draw_interval(effect: Effect | None, margin: float, width: int = BAR) -> str:
    """An interval as a picture: ``|`` are no change plus and minus the margin, ``-`` is the interval, ``o`` the estimate.

    >>> draw_interval(Effect(1.0, 0.98, 1.02), 0.02, 17)
    '[      |-o-|      ]'
    """
    reach = SPAN * math.log1p(margin)

    def place(ratio: float) -> int:
        log = max(
            -reach, min(reach, math.log(ratio) if 0 < ratio < math.inf else math.copysign(reach, ratio - 1))
        )
        return round((log / reach + 1) / 2 * (width - 1))

    cells = [" "] * width
    if effect is not None:
        for cell in range(place(effect.low), place(effect.high) + 1):
            cells[cell] = "-"
    for edge in (1 / (1 + margin), 1 + margin):
        cells[place(edge)] = "|"
    if effect is not None:
        cells[place(effect.ratio)] = "o"
    return f"[{''.join(cells)}]"


def effect_text(effect: Effect | None) -> str:
    """``+5.1% [+3.2%, +7.4%]``: how much more B costs than A; nothing is said where nothing is known."""
    if effect is None:
        return "-"
    low = format_change(effect.low, 1.0) if effect.low > 0 else "?"
    high = format_change(effect.high, 1.0) if effect.high < math.inf else "?"
    return f"{format_change(effect.ratio, 1.0)} [{low}, {high}]"


def costs_of(contest: Contest, terms: Terms) -> tuple[str, str]:
    """What a case costs A and B, with the unit."""
    unit = "s" if terms.metric == "compile" else "ms"
    return format_value(contest.cost(0), unit), format_value(contest.cost(1), unit)


def sort_by_verdict(contests: Sequence[Contest]) -> list[Contest]:
    """Regressions first, what is the same last."""
    return sorted(contests, key=lambda each: VERDICTS.index(each.verdict or "inconclusive"))


def headline_of(contests: Sequence[Contest]) -> str:
    """``2 regressions, 3 same``."""
    counts = Counter(contest.verdict for contest in contests)
    return ", ".join(_count(counts[verdict], verdict) for verdict in VERDICTS if counts[verdict])


def _count(number: int, verdict: str) -> str:
    return count_of(number, verdict) if verdict in _CHANGES else f"{number:,} {verdict}"


def _looks_otherwise(contest: Contest) -> bool:
    """Whether the costs that are shown would have one think of another change than the one that was found."""
    before, after, effect = contest.cost(0), contest.cost(1), contest.effect
    if not before or not after or effect is None:
        return False
    return abs(after / before / effect.ratio - 1) > _NOTICED


def print_result(contests: Sequence[Contest], display: AbDisplay, terms: Terms, seconds: float) -> None:
    """The table at the end: regressions first."""
    ordered = sort_by_verdict(contests)
    rows = [
        [
            contest.verdict,
            display.name(contest.case),
            effect_text(contest.effect),
            str(contest.pairs or ""),
            *costs_of(contest, terms),
        ]
        for contest in ordered
    ]
    judged = f"margin {format_share(terms.margin)}, alpha {format_share(terms.alpha)}"
    print()
    title = f"{headline_of(contests)} ({judged}) in {clock_text(seconds)}"
    print_table(["", "case", "B against A", "pairs", "A", "B"], rows, title=title)
    if any(_looks_otherwise(contest) for contest in ordered):
        print("A and B are middles of all pairs; the change is that within pairs, and need not be B over A")
    for contest in ordered:
        if contest.reason:
            print(f"{contest.verdict}: {display.name(contest.case)}: {printable(contest.reason, 400)}")


def cautions_of(contests: Sequence[Contest], match: Match, display: AbDisplay) -> list[str]:
    """What a person should know about the verdicts: what workers have said, each once, and of which cases; and whether the code that differs was there at all."""
    told = [(caution, display.name(contest.case)) for contest in contests for caution in contest.cautions]
    notes = [
        f"{caution.text} ({some_of(list(dict.fromkeys(told[place][1] for place in places)))})"
        for caution, places in merge_cautions(caution for caution, _ in told)
    ]
    notes += [match.caution()] if match.caution() else []
    return [f"caution: {printable(note, 400)}" for note in notes]


def some_of(names: Sequence[str]) -> str:
    """The first of some names."""
    return ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
