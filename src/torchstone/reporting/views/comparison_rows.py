"""Describe the rows of a comparison: text, numbers and commands, the same for every format."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from torchstone.analyze.ratio_interval import Mean
from torchstone.core.records import Case, FilePlace
from torchstone.core.text.intervals import is_too_wide
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import join_words, simple_command
from torchstone.core.text.units import count_of, format_number
from torchstone.core.vocabulary import Verdict
from torchstone.gate.defaults import DEFAULTS
from torchstone.gate.judgement import Judgement, Overview, Row, State
from torchstone.reporting.views.accepting import advise_on_unjudged
from torchstone.reporting.views.names import Names
from torchstone.reporting.views.report_view import (
    RowText,
    change_text,
    describe_method,
    describe_more,
    exit_text,
    expired_text,
    metric_name,
    percent,
    undecided_text,
    value_text,
)

SORTS = ("verdict", "change", "name", "metric")
_NOUNS = {
    Verdict.REGRESSION: "regression",
    Verdict.IMPROVEMENT: "improvement",
}
ORDER = (
    Verdict.REGRESSION,
    *(verdict for verdict in Verdict if verdict is not Verdict.REGRESSION),
)
"""The verdicts in display order: regressions first."""


class CompareReport(Struct, frozen=True, dict=True):
    """A comparison with the context needed to describe it.

    ``base`` and ``new`` are the files as the user named them; ``options`` are repeated in suggested commands.
    """

    judgement: Judgement
    base: tuple[str, ...]
    new: tuple[str, ...]
    options: tuple[str, ...] = ()
    sort_by: str = SORTS[0]
    command: str = "compare"

    @property
    def overview(self) -> Overview:
        """Return what the comparison found besides its rows."""
        return self.judgement.overview or Overview(DEFAULTS.alpha)

    @property
    def headline(self) -> str:
        """Return the result in one line. If nothing could be decided, it does not read as a success."""
        judgement, policy = self.judgement, f"policy {self.judgement.policy.name}"
        if judgement.rounds is not None and not judgement.rows:
            return (
                f"{count_of(len(judgement.rounds.rows), 'round')} compared; the {policy} judges none of them"
            )
        common = count_of(self.overview.matched, "common case")
        of_all = f"of {count_of(len(judgement.rows), 'row')} in {common}"
        if judgement.state is State.FAIL:
            red = Counter(row.verdict for row in judgement.rows if row.blocks)
            named = ", ".join(_counted(verdict, red[verdict]) for verdict in ORDER if red[verdict])
            parts = filter(None, (f"{named} {of_all}" if named else "", expired_text(judgement)))
            return f"FAIL: {', '.join(parts)}; {exit_text(judgement)}"
        if judgement.state is State.UNDECIDED:
            return f"UNDECIDED: {undecided_text(judgement, len(judgement.rows))}; {exit_text(judgement)}"
        return f"PASS: none {of_all} blocks ({policy})"

    @property
    def is_pass(self) -> bool:
        """Return whether nothing blocks, and everything was decided."""
        judgement = self.judgement
        are_unjudged = judgement.rounds is not None and not judgement.rows
        return judgement.state is State.PASS and not are_unjudged

    @property
    def summary(self) -> dict[str, int]:
        """Return the number of rows with each verdict."""
        counts = self.judgement.by_verdict
        return {verdict.value: counts[verdict] for verdict in ORDER if verdict in counts}

    @property
    def confidence(self) -> str:
        """Return the confidence level of the intervals: ``99%``."""
        return percent(1 - self.overview.alpha)

    @property
    def environment(self) -> str:
        """Return in one sentence how the environments differ and what follows; empty if they are the same."""
        if not self.overview.environment:
            return ""
        differ = "; ".join(self.overview.environment)
        if self.overview.is_held_back:
            return f"{differ}: times and memory are not compared; --cross-environment compares them anyway"
        return f"{differ}: compared anyway" if "--cross-environment" in self.options else differ

    @cached_property
    def ordered(self) -> list[Row]:
        """Return all rows in the requested order, by default worst first. Sorted once, because reports use them often."""
        rows = self.judgement.rows
        ids = {case: case.id for case in dict.fromkeys(row.case for row in rows)}
        by_name = sorted(rows, key=lambda row: (row.case.benchmark, ids[row.case], row.metric))
        match self.sort_by:
            case "name":
                return by_name
            case "metric":
                return sorted(by_name, key=lambda row: row.metric)
            case "change":
                return sorted(by_name, key=_size)
            case _:
                places = {verdict: place for place, verdict in enumerate(ORDER)}
                return sorted(sorted(by_name, key=_size), key=lambda row: places[row.verdict])

    @cached_property
    def red(self) -> list[Row]:
        """Return the rows that block, in the requested order."""
        return [row for row in self.ordered if row.blocks]

    def of_verdict(self, verdict: Verdict) -> list[Row]:
        """Return the rows with this verdict that do not block."""
        return self._others.get(verdict, [])

    @cached_property
    def _others(self) -> dict[Verdict, list[Row]]:
        """Return the rows that do not block, by verdict."""
        found: dict[Verdict, list[Row]] = {}
        for row in self.ordered:
            if not row.blocks:
                found.setdefault(row.verdict, []).append(row)
        return found

    def sort(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows unchanged: all rows are in the requested order already."""
        return rows

    def name_of(self, case: Case) -> str:
        """Return the shortest unambiguous name of a case."""
        return self.names.of(case)

    def finding_of(self, row: Row) -> str:
        """Return the finding in one line."""
        return describe_finding(row, self.confidence)

    def row_text(self, row: Row) -> RowText:
        """Return the full text of a row."""
        places = row.remarks.new_place or "no result", row.remarks.base_place
        facts = (
            ("method", describe_method(row.comparison) if row.comparison and row.comparison.method else ""),
            ("certainty", describe_certainty(row, self.overview.alpha)),
            ("at", ", base ".join(str(place) for place in places if place)),
        )
        instead = advise_on_unjudged(row, "BASE") if row.blocks else ""
        shown = tuple(fact for fact in facts if fact[1])
        return RowText(self.finding_of(row), shown, repro_command(row, self), instead=instead)

    def place_of(self, row: Row) -> FilePlace:
        """Return the line of the new result, or of the base if there is no new one."""
        return row.remarks.new_place or row.remarks.base_place

    @cached_property
    def names(self) -> Names:
        """Return the shortest unambiguous names of the cases."""
        return Names(row.case for row in self.judgement.rows)


def _counted(verdict: Verdict, number: int) -> str:
    return count_of(number, _NOUNS[verdict]) if verdict in _NOUNS else f"{number:,} {verdict}"


def _size(row: Row) -> tuple[bool, float, float]:
    """Return a sort key: statuses first, then the largest changes; of changes from or to 0, the largest differences."""
    was, now = row.base_value, row.new_value
    if not isinstance(was, int | float) or not isinstance(now, int | float):
        return False, 0.0, 0.0
    ratio = row.ratio or 0.0
    return True, -abs(math.log(ratio)) if ratio > 0 else -math.inf, -abs(now - was)


def describe_finding(row: Row, confidence: str) -> str:
    """Return the finding: ``abs_latency: 12.3 ms, was 10.1 ms (+21.8%; 99% interval +15.1% to +28.9%)``."""
    was, now = row.base_value, row.new_value
    text = f"{metric_name(row)}: {'no result' if now is None else value_text(now, row)}"
    if was is not None:
        text += f", was {value_text(was, row)}"
    if row.comparison and (change := change_text(row.comparison, confidence)):
        text += f" ({change})"
    notes = [note for note in (row.detail, describe_more(row.more)) if note]
    return "; ".join([text, *notes])


def describe_certainty(row: Row, alpha: float) -> str:
    """Return whether a change is significant, and how its interval lies relative to the margin."""
    ruling = row.ruling
    if not ruling.relevance or row.criteria is None:
        return ""
    margin = f"margin of {percent(row.criteria.share)}"
    place = {
        "within": f"within the {margin}",
        "beyond": f"beyond the {margin}",
        "unclear": f"not clearly within or beyond the {margin}",
    }
    if row.comparison is None or row.comparison.p_value is None or row.adjusted is None:
        return place[ruling.relevance]
    significant = "significant" if ruling.is_significant else "not significant"
    p_values = f"p-value {_p_text(row.comparison.p_value)}, adjusted {_p_text(row.adjusted)}"
    return f"{significant} at {percent(alpha)} ({p_values}); {place[ruling.relevance]}"


def _p_text(value: float) -> str:
    return "under 1e-12" if value < 1e-12 else format_number(float(f"{value:.2g}"))


def describe_mean(mean: Mean) -> tuple[str, str]:
    """Return a geometric mean and its confidence interval as text; a mean that is too uncertain is not quoted."""
    between = "" if mean.cases < 2 else f"{_four(mean.low)} to {_four(mean.high)}"
    if mean.cases > 1 and is_too_wide(mean.ratio, (mean.low, mean.high)):
        return "unknown", between
    return _four(mean.ratio), between


def left_out_text(overview: Overview) -> str:
    """Return how many rows are in no mean; empty if all are."""
    if not overview.left_out:
        return ""
    return f"left out of the means: {count_of(overview.left_out, 'row')} with an interval wider than 50%"


def _four(ratio: float) -> str:
    return f"{ratio:.4f}" if ratio < 1000 else "1000+"


def repro_command(row: Row, report: CompareReport) -> str:
    """Return the command that measures the case again, or if unknown, the one that compares it again."""
    if report.command == "ab":  # this process wrote it, so it is safe
        return row.remarks.repro
    outcome = row.new or row.base
    if outcome is not None and (command := simple_command(outcome.repro)):
        return command
    more = [
        word
        for flag, paths in (("--base", report.base[1:]), ("--new", report.new[1:]))
        for path in paths
        for word in (flag, path)
    ]
    words = ("torchstone", "compare", report.base[0], report.new[0], *more, *report.options)
    return join_words(map(redact, (*words, "--only", row.case.id)))
