"""Give cautions about drift: changes within the margin that add up to more than it over several runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from torchstone.analyze.drift import find_drift
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.records import Case, Measurement, Number, Outcome, Reading, Run, find_metric
from torchstone.core.text.safe_text import join_words
from torchstone.core.text.units import format_change
from torchstone.core.vocabulary import Verdict
from torchstone.formats.merge import Results
from torchstone.gate.baseline import measurement_of
from torchstone.gate.checking.near_edges import first_few, name_row
from torchstone.gate.comparable import depends_on_environment, have_same_method
from torchstone.gate.judgement import Row
from torchstone.gate.rules import SHARES, allowance
from torchstone.gate.sanity import is_consistent

_TIME_IN_ID = re.compile(r"(\d{4})(\d\d)(\d\d)T\d{6}-")


def day_of(run: Run) -> str:
    """Return the day on which a run started, from its id; empty if the id has none."""
    found = _TIME_IN_ID.match(run.id)
    return "-".join(found.groups()) if found else ""


def drift_cautions(
    rows: Sequence[Row],
    results: Results,
    history: Sequence[Reading],
    other_environments: Collection[str] = (),
) -> list[Caution]:
    """Return a caution for each row that drifted, worst first.

    ``history`` is oldest first; ``other_environments`` are the paths in it that were measured in another environment.
    """
    past: dict[Case, list[tuple[Reading, Outcome]]] = {}
    for reading in history:
        for outcome in reading.run.outcomes:
            past.setdefault(outcome.case, []).append((reading, outcome))
    paths = {outcome.case: reading.path for reading, _, outcome in results}
    found: list[tuple[float, Caution]] = []
    for row in rows:
        if row.verdict in {Verdict.PASS, Verdict.IMPROVEMENT} and row.rule and row.rule.kind in SHARES:
            found += _find_drift(row, past.get(row.case, ()), other_environments, paths.get(row.case, ""))
    worst = sorted(found, key=lambda each: (each[0], each[1].text), reverse=True)
    return first_few([caution for _, caution in worst], CautionKind.MORE_DRIFTED)


def _find_drift(
    row: Row, past: Sequence[tuple[Reading, Outcome]], other_environments: Collection[str], path: str
) -> Iterator[tuple[float, Caution]]:
    """Yield how many margins a row has drifted by, with its caution; nothing if it has not."""
    measured = measurement_of(row.new, row.metric)
    if row.rule is None or measured is None:
        return
    margin = allowance(row.rule, row.margin)
    series = list(_series(row.metric, measured, past, other_environments))
    values = [value for _, value in series]
    drift = find_drift([*values, measured.value], margin)
    if drift is None or drift.since >= len(series):
        return
    oldest = series[drift.since][0]
    known = find_metric(row.metric, measured)
    better = known.better if known else "lower"
    day = day_of(oldest.run)
    caution = make_caution(
        CautionKind.DRIFT,
        row=name_row(row.case, row.metric),
        change=format_change(1 + drift.change, 1),
        since=f"{oldest.path} ({day})" if day else oldest.path,
        way="better" if (drift.change < 0) == (better == "lower") else "worse",
        runs=len(values) - drift.since,
        margin=100 * margin,
        command=join_words(("torchstone", "compare", oldest.path, path)),
    )
    yield abs(drift.change) / margin, caution


def _series(
    metric: str,
    newest: Measurement,
    past: Sequence[tuple[Reading, Outcome]],
    other_environments: Collection[str],
) -> Iterator[tuple[Reading, Number]]:
    """Yield the past values of a metric that are comparable with the newest one, each with its file."""
    needs_same_environment = depends_on_environment(metric, newest)
    for reading, outcome in past:
        if needs_same_environment and reading.path in other_environments:
            continue
        found = measurement_of(outcome, metric)
        if found and is_consistent(outcome) and have_same_method(found, newest):
            yield reading, found.value
