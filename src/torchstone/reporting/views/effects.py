"""Build tables of effects: the rows of a comparison that do not block, by verdict, the same for every format."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from torchstone.analyze.evidence import MOST_MORE, Comparison
from torchstone.core.vocabulary import Verdict
from torchstone.gate.judgement import Row
from torchstone.reporting.views.comparison_rows import ORDER
from torchstone.reporting.views.report_view import (
    ReportView,
    change_of,
    describe_more,
    interval_of,
    percent,
    quarantine_reason,
    value_text,
)


class EffectTable(Struct, frozen=True):
    """The rows of one verdict, with the columns to show."""

    verdict: Verdict
    head: tuple[str, ...]
    rows: list[Row]
    report: ReportView

    def cells(self, row: Row) -> tuple[str, ...]:
        """Return the cells of a row: case, metric, base, new, change, interval and note."""
        found = row.comparison
        notes = row.detail, quarantine_reason(row), describe_more(row.more)
        return (
            self.report.name_of(row.case),
            row.metric,
            value_text(row.base_value, row),
            value_text(row.new_value, row),
            change_of(row.ratio) if row.ratio is not None else "",
            interval_of(found.low, found.high) if found else "",
            "; ".join(note for note in notes if note),
        )


def make_effect_tables(report: ReportView) -> Iterator[EffectTable]:
    """Yield a table for each verdict that has rows."""
    overview = report.judgement.overview
    confidence = percent(1 - overview.alpha) if overview else ""
    head = ("case", "metric", "base", "new", "change", f"{confidence} interval", "note")
    for verdict in ORDER:
        if rows := report.of_verdict(verdict):
            yield EffectTable(verdict, head, rows, report)


def has_effect(found: Comparison) -> bool:
    """Return whether there is an effect to show, which includes a change from 0."""
    return not math.isnan(found.ratio)


def is_unchanged(row: Row) -> bool:
    """Return whether a count is exactly as before."""
    return row.comparison is not None and row.comparison.low == row.comparison.high == 1


def short_effect(row: Row, found: Comparison) -> tuple[str, str, str]:
    """Return change, interval, and the margin, or for inconclusive rows the further trials needed."""
    between = "exact" if found.low == found.high else interval_of(found.low, found.high) or "unknown"
    last = percent(row.criteria.share) if row.criteria else ""
    if row.verdict is Verdict.INCONCLUSIVE:
        more = row.more
        last = "" if more is None else f">{MOST_MORE}" if more > MOST_MORE else f"+{more}"
    return change_of(found.ratio), between, last
