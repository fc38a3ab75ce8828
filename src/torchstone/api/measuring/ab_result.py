"""The result of ``ab``: verdicts, effects and intervals of each case, and its report formats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from torchstone.analyze.sequential import Effect
from torchstone.api.judging.compare import record_of
from torchstone.api.measuring.run import FILE_LOST
from torchstone.api.showing import show_html
from torchstone.core.cautions import Caution
from torchstone.core.text.units import count_of, format_change, format_share, format_value
from torchstone.core.vocabulary import Verdict
from torchstone.gate.verdicts import Judgement, Row
from torchstone.measure.ab.contest import METRICS, AbSettings
from torchstone.measure.rescue import Loss
from torchstone.reporting.dialects.styles import STYLES, WIDTH, render_report
from torchstone.reporting.html.ab_page import AbPage, AbRow, render_ab
from torchstone.reporting.views.comparison_rows import CompareReport
from torchstone.reporting.views.report_view import quarantine_reason
from torchstone.reporting.views.result_table import ResultTable, show_most

HTML = "html"
AB_STYLES = (*STYLES, HTML)
NOTHING_MEASURED = 3
ORDER = (*(Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.INCONCLUSIVE, Verdict.QUARANTINED, Verdict.SAME),)
_CHANGES = (Verdict.REGRESSION, Verdict.IMPROVEMENT)


class CaseOfBoth(Struct, frozen=True):
    """One case of both sides: its verdict and the effect of its pairs. ``costs`` are those of A and B; ``repro`` is the command that measures it again."""

    name: str
    row: Row
    pairs: int
    effect: Effect | None
    costs: tuple[float | None, float | None]
    repro: str
    could_measure: bool

    @property
    def verdict(self) -> Verdict:
        """The verdict, after policy and quarantine."""
        return self.row.verdict

    @property
    def reason(self) -> str:
        """The reason for the verdict, and for the quarantine if there is one."""
        return "; ".join(part for part in (self.row.detail, quarantine_reason(self.row)) if part)


class AbResult(Struct, frozen=True):
    """Whether B is slower than A. ``cases`` are those of both sides, regressions first; ``rows`` includes cases of one side.

    ``sides`` describes A and B. ``losses`` lists run files that were lost while they were written. ``environment`` lists differences.
    """

    report: CompareReport
    cases: tuple[CaseOfBoth, ...]
    settings: AbSettings
    sides: tuple[str, str]
    seconds: float
    environment: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()

    @property
    def judgement(self) -> Judgement:
        """All verdicts, after policy and quarantine."""
        return self.report.judgement

    @property
    def rows(self) -> list[Row]:
        """A row for each case, worst first."""
        return self.report.ordered

    @property
    def red(self) -> list[Row]:
        """The rows that block."""
        return self.report.red

    @property
    def paths(self) -> tuple[str, str]:
        """The run files of A and B."""
        return self.report.base[0], self.report.new[0]

    @property
    def passed(self) -> bool:
        """Whether nothing blocks, and something was measured."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0, 1 if something blocks, 3 if nothing could be measured or a run file was lost."""
        if self.losses:
            return FILE_LOST
        if not any(case.could_measure for case in self.cases):
            return NOTHING_MEASURED
        return self.judgement.exit_code

    @property
    def headline(self) -> str:
        """The result in one line: ``2 regressions, 3 same``."""
        return headline_of(self.cases)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """Warnings about the measurement."""
        return tuple(self.judgement.cautions)

    def render(self, style: str = "text", *, color: bool = False, width: int = WIDTH) -> str:
        """Render the report as text, Markdown, JUnit, JSON, GitHub annotations or an HTML page; color and width apply to text."""
        if style == HTML:
            return render_ab(_make_page(self))
        return render_report(self.report, style, color=color, width=width)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return a dictionary for each row: case, metric, verdict, both values, the ratio B/A and its interval."""
        return [record_of(row) for row in self.rows]

    def __str__(self) -> str:
        return self.render().rstrip("\n")

    def _repr_html_(self) -> str:
        rows = [(each.verdict.value, each.name, *cells_of(each, self.settings)) for each in self.cases]
        shown, notes = show_most(rows)
        header = ("verdict", "case", "B against A", "pairs", "A", "B")
        return show_html(ResultTable(self.headline, header, shown, (*notes, *map(str, self.cautions))))


def cells_of(case: CaseOfBoth, settings: AbSettings) -> tuple[str, str, str, str]:
    """Format effect, number of pairs, and the costs of A and B for a table."""
    return effect_text(case.effect), str(case.pairs or ""), *costs_text(case, settings)


def costs_text(case: CaseOfBoth, settings: AbSettings) -> tuple[str, str]:
    """Format the costs of A and B with their unit."""
    unit = "s" if settings.metric == "compile" else "ms"
    return format_value(case.costs[0], unit), format_value(case.costs[1], unit)


def effect_text(effect: Effect | None) -> str:
    """Format the ratio of B's cost to A's as a change: ``+5.1% [+3.2%, +7.4%]``; ``-`` before the first pair."""
    if effect is None:
        return "-"
    low = format_change(effect.low, 1.0) if effect.low > 0 else "?"
    high = format_change(effect.high, 1.0) if effect.high < math.inf else "?"
    return f"{format_change(effect.ratio, 1.0)} [{low}, {high}]"


class HasVerdict(Protocol):
    """A case, or a contest."""

    @property
    def verdict(self) -> Verdict | None:
        """Its verdict."""


def headline_of(decided: Iterable[HasVerdict]) -> str:
    """Count verdicts: ``2 regressions, 3 same``."""
    counts = Counter(each.verdict for each in decided)
    return ", ".join(_count(counts[verdict], verdict) for verdict in ORDER if counts[verdict])


def _count(number: int, verdict: Verdict) -> str:
    return count_of(number, verdict) if verdict in _CHANGES else f"{number:,} {verdict}"


def _make_page(result: AbResult) -> AbPage:
    settings = result.settings
    facts = [*zip("AB", result.sides, strict=True), ("metric", METRICS[settings.metric])]
    facts += [("margin", format_share(settings.margin))]
    facts += [("alpha", format_share(settings.alpha)), ("seed", str(settings.seed))]
    rows = [
        AbRow(
            each.name,
            each.verdict.value,
            effect_text(each.effect),
            costs_text(each, settings),
            each.pairs,
            each.effect.ratio if each.effect else None,
            (each.effect.low, each.effect.high) if each.effect else None,
            each.reason,
            each.repro,
        )
        for each in result.cases
    ]
    notes = (*result.environment, *(f"caution: {caution}" for caution in result.cautions))
    return AbPage(f"B against A: {result.headline}", tuple(facts), tuple(rows), settings.margin, notes)
