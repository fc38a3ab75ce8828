"""The result of ``ab``: verdicts, effects and intervals of each case, and its report formats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from torchstone.analyze.sequential import Effect
from torchstone.api.judging.compare import record_of
from torchstone.api.judging.judged_result import JudgedResult
from torchstone.api.measuring.run import FILE_LOST
from torchstone.api.requests import take
from torchstone.api.showing import show_rows
from torchstone.core.text.units import count_of, duration_text, format_change, format_value
from torchstone.core.vocabulary import ACCURACY, Verdict
from torchstone.gate.judgement import Row, State
from torchstone.measure.ab.budget import budget_option
from torchstone.measure.ab.contest import METRICS, AbSettings
from torchstone.measure.rescue import Loss
from torchstone.reporting.dialects.styles import COMPARISON_STYLES, HTML, WIDTH, render_report
from torchstone.reporting.html.comparison_page import render_comparison
from torchstone.reporting.views.comparison.comparison_view import ComparisonPage, make_comparison_page
from torchstone.reporting.views.comparison_rows import CompareReport
from torchstone.reporting.views.report_view import quarantine_reason

UNKNOWN = "not yet known"
AB_STYLES = COMPARISON_STYLES
NOTHING_MEASURED = 3
ORDER = (*(Verdict.REGRESSION, Verdict.IMPROVEMENT, Verdict.INCONCLUSIVE, Verdict.QUARANTINED, Verdict.SAME),)
_CHANGES = (Verdict.REGRESSION, Verdict.IMPROVEMENT)


class BudgetUse(Struct, frozen=True):
    """The time budget, in seconds: how long it was, how much of it preparation took, and how much more would decide the undecided cases.

    ``missing`` is None if nothing is undecided, or if that cannot be estimated.
    """

    seconds: float = 0.0
    preparation: float = 0.0
    missing: float | None = None


class CaseOfBoth(Struct, frozen=True):
    """One case of both sides: its verdict and the effect of its pairs. ``costs`` are those of A and B; ``repro`` is the command that measures it again.

    No verdict is possible before ``least_pairs``.
    """

    name: str
    row: Row
    pairs: int
    effect: Effect | None
    costs: tuple[float | None, float | None]
    repro: str
    could_measure: bool
    least_pairs: int = 0

    @property
    def verdict(self) -> Verdict:
        """The verdict, after policy and quarantine."""
        return self.row.verdict

    @property
    def reason(self) -> str:
        """The reason for the verdict, and for the quarantine if there is one."""
        return "; ".join(part for part in (self.row.detail, quarantine_reason(self.row)) if part)


class AbResult(JudgedResult, frozen=True):
    """The result of a comparison of B with A. ``cases`` are those of both sides, regressions first; ``rows`` includes cases of one side.

    ``sides`` describes A and B. ``seconds`` is the time from the call to the result. ``losses`` lists run files that were lost while they
    were written. ``environment`` lists differences. ``borrowed`` says which benchmark files are not a side's own.
    """

    report: CompareReport
    cases: tuple[CaseOfBoth, ...]
    settings: AbSettings
    sides: tuple[str, str]
    seconds: float
    environment: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    budget: BudgetUse = BudgetUse()
    borrowed: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, str]:
        """The run files of A and B."""
        return self.report.base[0], self.report.new[0]

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0, 1 if something blocks, 3 if nothing could be measured or a run file was lost."""
        if self.losses:
            return FILE_LOST
        if not any(case.could_measure for case in self.cases):
            return NOTHING_MEASURED
        return self.judgement.exit_code

    @property
    def state(self) -> State:
        """Whether the comparison is a pass, undecided, or a failure; undecided if nothing could be measured."""
        nothing = not any(case.could_measure for case in self.cases)
        return State.UNDECIDED if nothing else self.judgement.state

    @property
    def headline(self) -> str:
        """The result in one line: ``2 regressions, 3 same``."""
        return headline_of(self.cases)

    @property
    def advice(self) -> str:
        """Advice on the budget that undecided cases need; empty if there are none."""
        used, least = self.budget, self.settings.least_pairs
        is_open = any(case.verdict is Verdict.INCONCLUSIVE and case.could_measure for case in self.cases)
        if used.missing is not None:
            option = budget_option(self.seconds + used.missing)
            return f"about {duration_text(used.missing)} more would probably settle it: --budget {option}"
        if is_open and not any(case.pairs for case in self.cases):
            prepared = duration_text(used.preparation)
            return f"--budget has to allow for the preparation ({prepared} here) and at least {least} pairs of each case"
        return ""

    def render(self, style: str = "text", *, color: bool = False, width: int = WIDTH) -> str:
        """Render the report as text, Markdown, JUnit, JSON, GitHub annotations or an HTML page; color and width apply to text."""
        if take("style", style, str) == HTML:
            return render_comparison(_make_page(self))
        return render_report(self.report, style, color=color, width=width)

    def to_dicts(self) -> list[dict[str, object]]:
        """Return a dictionary for each row: case, metric, verdict, both values, the ratio B/A and its interval."""
        return [record_of(row) for row in self.rows]

    def _repr_html_(self) -> str:
        rows = [(each.verdict.value, each.name, *cells_of(each, self.settings)) for each in self.cases]
        header = ("verdict", "case", "B against A", "pairs", "A", "B")
        return show_rows(self.headline, header, rows, self.cautions)


def cells_of(case: CaseOfBoth, settings: AbSettings) -> tuple[str, str, str, str]:
    """Format effect, number of pairs, and the costs of A and B for a table."""
    costs = costs_text(case, settings)
    if case.effect is not None and not has_interval(case.effect):
        few = f"{case.pairs} of {case.least_pairs}" if case.pairs < case.least_pairs else str(case.pairs)
        return UNKNOWN, few, *costs
    return effect_text(case.effect), str(case.pairs or ""), *costs


def costs_text(case: CaseOfBoth, settings: AbSettings) -> tuple[str, str]:
    """Format the costs of A and B with their unit."""
    unit = "s" if settings.metric == "compile" else "ms"
    return format_value(case.costs[0], unit), format_value(case.costs[1], unit)


def effect_text(effect: Effect | None, pairs: int = 0, least: int = 0) -> str:
    """Format the ratio of B's cost to A's as a change, with its interval; ``-`` before the first pair.

    >>> effect_text(Effect(1.051, 1.032, 1.074)), effect_text(Effect(1.051, 0.0, math.inf), 7, 10)
    ('+5.1% [+3.2%, +7.4%]', 'not yet known (7 of at least 10 pairs)')
    """
    if effect is None:
        return "-"
    if not has_interval(effect):
        return f"{UNKNOWN} ({pairs_text(pairs, least)})"
    has_low, has_high = effect.low > 0, effect.high < math.inf
    low, high = format_change(effect.low, 1.0), format_change(effect.high, 1.0)
    interval = (
        f"[{low}, {high}]" if has_low and has_high else f"(above {low})" if has_low else f"(below {high})"
    )
    return f"{format_change(effect.ratio, 1.0)} {interval}"


def has_interval(effect: Effect) -> bool:
    """Return whether the pairs bound the effect, at least on one side."""
    return effect.low > 0 or effect.high < math.inf


def pairs_text(pairs: int, least: int) -> str:
    """Format the number of pairs: ``7 of at least 10 pairs``, as long as there are too few for a verdict."""
    return f"{pairs} of at least {count_of(least, 'pair')}" if pairs < least else count_of(pairs, "pair")


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


def _make_page(result: AbResult) -> ComparisonPage:
    settings = result.settings
    metrics = dict.fromkeys(case.row.metric for case in result.cases if case.row.metric != ACCURACY)
    compared = ", ".join(metrics) or METRICS[settings.metric]
    facts = [*zip("AB", result.sides, strict=True), ("metric", compared)]
    facts += [("seed", str(settings.seed))]
    notes = (*([result.advice] if result.advice else []), *result.borrowed, *result.environment)
    return make_comparison_page(result.report, sides=("A", "B"), facts=facts, notes=notes)
