"""Choose the cases of a page for which it shows where their time went."""

from __future__ import annotations

from collections.abc import Iterable

from torchstone.reporting.views.case_row import CaseRow
from torchstone.reporting.views.explaining.time_view import TimeExplanation, explain_sides

MOST_CASES = 20


def explain_times(rows: Iterable[CaseRow]) -> tuple[TimeExplanation, ...]:
    """Return eager against compiled of the cases with a time profile, the largest change first."""
    found = []
    for row in rows:
        profile = row.outcome.details.time_profile if row.outcome and row.outcome.details else None
        sides = [side for side in (profile.eager, profile.compiled) if side] if profile else []
        if row.outcome and profile and any(side.kernels for side in sides):
            found.append(explain_sides(row.outcome, profile, row.label, row.place.path))
    return tuple(sorted(found, key=lambda each: -abs(each.comparison.busy.change))[:MOST_CASES])
