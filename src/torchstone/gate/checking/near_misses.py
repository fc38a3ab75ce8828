"""What is worth a caution though nothing is red: values near the edge of what is allowed, and small moves that have added up."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.errors import printable
from torchstone.core.records import Case, Measurement, Number, Outcome, Reading, Run
from torchstone.core.text.safe_text import join_words
from torchstone.core.text.units import format_change, format_value
from torchstone.core.upstream import upstream_versions
from torchstone.core.vocabulary import ACCURACY, METRICS, SKIPPED, Verdict
from torchstone.formats.merge import Results
from torchstone.gate.comparable import depends_on_environment, is_alike
from torchstone.gate.rules import SHARES, allowance
from torchstone.gate.sanity import is_sound
from torchstone.gate.verdicts import Row

MOST_NAMED = 5
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)T\d{6}-")  # as the id of a run begins

Near = tuple[Case, str, Number, Number, float]
"""A case, a metric, what was measured, what was expected, and the limit it came near to."""


def tell_not_deterministic(rows: Sequence[Row], version: str) -> list[Caution]:
    """A caution for each red status of a model that some version of the original does not compare, because its eager results differ from run to run."""
    unsure = {SKIPPED, "eager_two_runs_differ"}
    told = []
    for row in rows:
        if row.blocks and row.metric == ACCURACY and {row.new_value, row.expected_value} & unsure:
            skipping = [
                each.name
                for each in upstream_versions()
                if row.case.benchmark in each.eager_not_deterministic
            ]
            if skipping:
                mine = "" if version in skipping else f", but {version} does not"
                told.append(
                    make_caution(
                        CautionKind.UPSTREAM_SKIPS,
                        case=printable(row.case.name),
                        versions=", ".join(skipping),
                        but=mine,
                    )
                )
    return _first_few(told, CautionKind.MORE_UPSTREAM_SKIPS)


def tell_near(near: Sequence[Near]) -> list[Caution]:
    """A caution for each value near its limit, the nearest first; of many, the rest are only counted."""
    ordered = sorted(near, key=_nearness, reverse=True)
    return _first_few([_tell_near(each) for each in ordered], CautionKind.MORE_NEAR_EDGE)


def _nearness(near: Near) -> float:
    _, _, value, expected, edge = near
    return (value - expected) / (edge - expected)


def _tell_near(near: Near) -> Caution:
    case, metric, value, expected, edge = near
    unit = METRICS[metric].unit if metric in METRICS else ""
    found, wanted, limit = (format_value(number, unit) for number in (value, expected, edge))
    return make_caution(
        CautionKind.NEAR_EDGE,
        row=_named(case, metric),
        found=found,
        wanted=wanted,
        change=format_change(value, expected),
        used=100 * min(1.0, _nearness(near)),
        limit=limit,
    )


def _first_few(told: list[Caution], rest: CautionKind) -> list[Caution]:
    more = len(told) - MOST_NAMED
    return told[:MOST_NAMED] + ([make_caution(rest, rows=more)] if more > 0 else [])


def _named(case: Case, metric: str) -> str:
    """A row as people name it: with all axes that are stated, for the same benchmark may have other rows."""
    axes = ", ".join(f"{axis} {value}" for axis, value in case.variant.axes().items())
    return printable(f"{metric} of {case.name}{f' ({axes})' if axes else ''}", 240)


def day_of(run: Run) -> str:
    """The day on which a run began, if its id says so."""
    found = _TIME.match(run.id)
    return "-".join(found.groups()) if found else ""


def tell_drifts(
    rows: Sequence[Row], results: Results, history: Sequence[Reading], apart: Collection[str] = ()
) -> list[Caution]:
    """A caution for each row that is not red, but whose small moves since some past run add up to more than its margin.

    ``history`` is oldest first; ``apart`` are the paths among it that are of another environment.
    """
    past: dict[Case, list[tuple[Reading, Outcome]]] = {}
    for reading in history:
        for outcome in reading.run.outcomes:
            past.setdefault(outcome.case, []).append((reading, outcome))
    paths = {outcome.case: reading.path for reading, _, outcome in results}
    told: list[tuple[float, Caution]] = []
    for row in rows:
        if row.verdict in {Verdict.PASS, Verdict.IMPROVEMENT} and row.rule and row.rule.kind in SHARES:
            told += _tell_drift(row, past.get(row.case, ()), apart, paths.get(row.case, ""))
    worst = sorted(told, key=lambda each: (each[0], each[1].text), reverse=True)
    return _first_few([caution for _, caution in worst], CautionKind.MORE_DRIFTED)


def _tell_drift(
    row: Row, past: Sequence[tuple[Reading, Outcome]], apart: Collection[str], path: str
) -> Iterator[tuple[float, Caution]]:
    """How many margins a row has drifted by, and the caution about it; nothing where it has not."""
    from torchstone.analyze.drift import find_drift  # noqa: PLC0415  (only a history needs it)

    if row.rule is None:
        return
    measured = _measurement(row.new, row.metric)
    margin = allowance(row.rule, row.margin)
    series = list(_series(row.metric, measured, past, apart)) if measured else []
    values = [value for _, value in series]
    drift = find_drift([*values, measured.value], margin) if measured else None
    if drift is None or drift.since >= len(series):
        return
    oldest = series[drift.since][0]
    better = METRICS[row.metric].better if row.metric in METRICS else "lower"
    way = "better" if (drift.change < 0) == (better == "lower") else "worse"
    day = day_of(oldest.run)
    since = f"{oldest.path} ({day})" if day else oldest.path
    caution = make_caution(
        CautionKind.DRIFT,
        row=_named(row.case, row.metric),
        change=format_change(1 + drift.change, 1),
        since=since,
        way=way,
        runs=len(values) - drift.since,
        margin=100 * margin,
        command=_compare_command(oldest.path, path),
    )
    yield abs(drift.change) / margin, caution


def _series(
    metric: str, like: Measurement, past: Sequence[tuple[Reading, Outcome]], apart: Collection[str]
) -> Iterator[tuple[Reading, Number]]:
    """The past values of a metric that may be compared with a new one, each with the file it is from."""
    bound = depends_on_environment(metric)
    for reading, outcome in past:
        found = _measurement(outcome, metric)
        if found and not (bound and reading.path in apart) and is_sound(outcome) and is_alike(found, like):
            yield reading, found.value


def _measurement(outcome: Outcome | None, metric: str) -> Measurement | None:
    found = (m for m in outcome.measurements if m.metric == metric) if outcome else iter(())
    return next(found, None)


def _compare_command(old: str, new: str) -> str:
    return join_words(("torchstone", "compare", old, new))
