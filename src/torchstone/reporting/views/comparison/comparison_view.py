"""Decide what the page of ``compare`` and ``ab`` shows: changed rows first, then undecided ones, then the rest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from torchstone.analyze.evidence import PAIRED, Comparison
from torchstone.analyze.sequential import fewest_pairs
from torchstone.core.text.intervals import is_too_wide
from torchstone.core.text.units import count_of, format_share
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import MetricMean, Row
from torchstone.reporting.dialects.text_report import round_lines
from torchstone.reporting.svg.strip_plot import LARGEST, SMALLEST, TrialStrip
from torchstone.reporting.views.case_row import short_unit
from torchstone.reporting.views.comparison.page_headline import Headline, headline_of
from torchstone.reporting.views.comparison_rows import CompareReport, describe_mean
from torchstone.reporting.views.effects import is_unchanged
from torchstone.reporting.views.report_view import (
    change_of,
    describe_more,
    interval_of,
    metric_name,
    quarantine_reason,
    value_text,
    without_evidence_text,
)

MOST_ROWS = 2_000
"""The most rows on the page; with more it would open slowly."""
_UNCHANGED = frozenset({Verdict.SAME, Verdict.PASS, Verdict.EXPECTED_FAILURE, Verdict.QUARANTINED})
_TONES = {Verdict.REGRESSION: "down", Verdict.IMPROVEMENT: "up"}


class ComparedRow(Struct, frozen=True):
    """One metric of one case. ``effect`` and ``interval`` are the change as text; ``strip`` draws its trials.

    ``is_wide`` marks an effect whose interval is too wide to quote the effect alone.
    """

    name: str
    metric: str
    verdict: Verdict
    blocks: bool
    better: str
    values: tuple[str, str]
    effect: str
    interval: str
    is_wide: bool
    tone: str
    strip: TrialStrip | None = None
    reason: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    repro: str = ""


class RowSection(Struct, frozen=True):
    """Rows under one title; ``counts`` are exact counts that did not change, ``left_out`` is the number of rows that the page omits."""

    title: str
    anchor: str
    rows: tuple[ComparedRow, ...]
    counts: tuple[ComparedRow, ...] = ()
    left_out: int = 0

    @property
    def size(self) -> int:
        """The number of rows, with those left out."""
        return len(self.rows) + len(self.counts) + self.left_out


class ComparisonPage(Struct, frozen=True):
    """The content of the page, from top to bottom. ``sides`` are the names of base and new."""

    command: str
    headline: Headline
    sides: tuple[str, str]
    facts: tuple[tuple[str, str], ...]
    counts: tuple[tuple[Verdict, int, bool], ...]
    alerts: tuple[str, ...]
    cautions: tuple[str, ...]
    means: tuple[tuple[str, ...], ...]
    sections: tuple[RowSection, ...]
    rounds: str = ""
    list_all: str = ""


def make_comparison_page(
    report: CompareReport,
    *,
    sides: tuple[str, str] = ("base", "new"),
    facts: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
) -> ComparisonPage:
    """Decide what the page shows. ``facts`` and ``notes`` are those of the command, shown beside those of the comparison."""
    judgement = report.judgement
    files = " ".join((report.base[0], report.new[0]))
    return ComparisonPage(
        report.command,
        headline_of(report),
        sides,
        (*facts, *_facts(report, sides)),
        tuple(_count_verdicts(judgement.rows)),
        tuple(_alerts(report)),
        (*notes, *(caution.text for caution in judgement.cautions)),
        tuple(_mean_cells(each) for each in report.overview.means),
        tuple(_make_sections(report)),
        "\n".join(round_lines(judgement.rounds)) if judgement.rounds else "",
        f"torchstone compare {files} --format json",
    )


def _facts(report: CompareReport, sides: tuple[str, str]) -> Iterable[tuple[str, str]]:
    for side, files in zip(sides, (report.base, report.new), strict=True):
        yield f"{side} file" + ("s" if len(files) > 1 else ""), ", ".join(files)
    yield "common cases", f"{report.overview.matched:,}"
    rate = report.overview.pass_rate
    if rate.cases:
        yield "passing", f"{rate.new:,} of {rate.cases:,} (were {rate.base:,})"
    yield "policy", report.judgement.policy.name
    yield "confidence", report.confidence
    margins = {row.criteria.share for row in report.judgement.rows if row.criteria}
    if margins:
        yield "margin", " to ".join(format_share(each) for each in sorted({min(margins), max(margins)}))
    if note := without_evidence_text(report.judgement):
        yield "evidence", note


def _count_verdicts(rows: Iterable[Row]) -> list[tuple[Verdict, int, bool]]:
    """Count rows by verdict, with whether any of them blocks."""
    counted = Counter(row.verdict for row in rows)
    blocking = {row.verdict for row in rows if row.blocks}
    return [(verdict, counted[verdict], verdict in blocking) for verdict in Verdict if counted[verdict]]


def _alerts(report: CompareReport) -> Iterable[str]:
    if report.environment:
        yield f"The environments differ: {report.environment}"
    for entry in report.judgement.expired:
        yield f"The quarantine of {entry.case} ended {entry.expires} ({entry.place})"


def _mean_cells(each: MetricMean) -> tuple[str, ...]:
    """Return metric, direction, mean, interval and cases."""
    ratio, between = describe_mean(each.mean)
    cases = f"{each.over} cases" if each.left_out else count_of(each.mean.cases, "case")
    return each.metric, f"{each.better} is better", ratio, between, cases


def _make_sections(report: CompareReport) -> Iterable[RowSection]:
    """Yield the sections that have rows: changed rows, undecided rows, and the rest."""
    changed: list[Row] = []
    undecided: list[Row] = []
    rest: list[Row] = []
    for row in report.ordered:
        if row.verdict is Verdict.INCONCLUSIVE:
            undecided.append(row)
        elif row.verdict in _UNCHANGED and not row.blocks:
            rest.append(row)
        else:
            changed.append(row)
    changed.sort(key=lambda row: not row.blocks)
    left = MOST_ROWS
    for title, anchor, rows in (
        ("Changed", "changed", changed),
        ("Undecided", "undecided", undecided),
        ("Unchanged", "unchanged", rest),
    ):
        if rows:
            shown = rows[:left]
            left -= len(shown)
            made = tuple(_make_row(row, report) for row in shown if row.blocks or not is_unchanged(row))
            counts = tuple(_make_row(row, report) for row in shown if is_unchanged(row) and not row.blocks)
            yield RowSection(title, anchor, made, counts, len(rows) - len(shown))


def _make_row(row: Row, report: CompareReport) -> ComparedRow:
    found = row.comparison
    ratio = row.ratio
    words = report.row_text(row)
    reasons = row.detail, quarantine_reason(row), describe_more(row.more)
    has_interval = found is not None and ratio is not None and found.low != found.high
    return ComparedRow(
        report.name_of(row.case),
        metric_name(row),
        row.verdict,
        row.blocks,
        row.criteria.better if row.criteria else "",
        (value_text(row.base_value, row), value_text(row.new_value, row)),
        _effect_text(row, found),
        interval_of(found.low, found.high) or _not_yet_known(row, found) if found and has_interval else "",
        bool(found and has_interval and is_too_wide(ratio or 0.0, (found.low, found.high))),
        _TONES.get(row.verdict, "even"),
        _make_strip(row, found) if found else None,
        "; ".join(reason for reason in reasons if reason),
        tuple(words.facts),
        words.repro,
    )


def _effect_text(row: Row, found: Comparison | None) -> str:
    """Return the change; nothing as long as pairs do not bound it."""
    if row.ratio is None or (found and found.method == PAIRED and not interval_of(found.low, found.high)):
        return ""
    return "unchanged" if is_unchanged(row) else change_of(row.ratio)


def _not_yet_known(row: Row, found: Comparison) -> str:
    """Say that there is no interval yet, and how many pairs there are of those that a verdict takes."""
    if found.method != PAIRED or row.criteria is None:
        return "not yet known"
    return f"not yet known ({len(found.logs)} of at least {fewest_pairs(row.criteria.alpha)} pairs)"


def _make_strip(row: Row, found: Comparison) -> TrialStrip | None:
    """Return the trials of both sides, unless they cannot be compared, or are all the same count."""
    values = (*found.base.values, *found.new.values)
    if math.isnan(found.ratio) or is_unchanged(row) or not all(map(_can_be_drawn, values)):
        return None
    middle, ratio = found.base.middle, found.ratio
    has_effect = math.isfinite(ratio) and middle > 0
    margin = row.criteria.margin if row.criteria else 0.0
    has_interval = has_effect and found.low != found.high and not math.isinf(found.high)
    return TrialStrip(
        found.base.values,
        found.new.values,
        middle,
        short_unit(row.metric, row.new, row.base),
        (middle / (1 + margin), middle * (1 + margin)) if margin and middle > 0 else None,
        middle * ratio if has_effect else None,
        (middle * found.low, middle * found.high) if has_interval else None,
    )


def _can_be_drawn(value: float) -> bool:
    return value == 0 or SMALLEST <= abs(value) <= LARGEST
