"""Decide what a chart of a series shows, with gaps, levels and changes, and few enough points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

from msgspec import Struct

from torchstone.core.records import Number
from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.store.browsing.case_history import StoredChange
from torchstone.store.stored import SeriesPoint

MOST_POINTS = 2_000
"""The most points of a series that are sent to a browser."""
_MOST_SAMPLES = 4_000
_GAP = 3.0
"""A pause of so many usual intervals between points is a gap."""
_LONGEST = 120
_STEADY = 0.25
"""An annotation that changes at a larger share of the points is what is being measured, such as a nightly torch."""
GAP = "gap"


class ChartPoint(Struct, frozen=True):
    """One run of a series; ``value`` is None where the case has none, or where data is missing for a while (status ``gap``)."""

    run_id: int
    run: str
    revision: str
    when: str
    status: str
    is_good: bool
    value: float | None = None
    spread: float | None = None
    samples: int = 0
    torch: str = ""


class LevelLine(Struct, frozen=True):
    """A stretch of a series without a change: from and to these points, by their places, at this value."""

    first: int
    last: int
    value: float


class ChangeFlag(Struct, frozen=True):
    """A change: the place of the first new point, what it is, and its group."""

    at: int
    direction: str
    text: str
    is_provisional: bool
    group: int | None = None


class EnvironmentMark(Struct, frozen=True):
    """Where the environment changes: the place of the first point in the new one, and what changed."""

    at: int
    text: str


class ChartView(Struct, frozen=True):
    """A chart of one metric. ``samples`` are places and values of raw samples; ``left_out`` is the number of points that are not shown."""

    metric: str
    unit: str
    better: str
    points: tuple[ChartPoint, ...]
    samples: tuple[tuple[int, float], ...] = ()
    levels: tuple[LevelLine, ...] = ()
    changes: tuple[ChangeFlag, ...] = ()
    environments: tuple[EnvironmentMark, ...] = ()
    left_out: int = 0


def make_chart(
    naming: tuple[str, str, str],
    outcomes: Sequence[SeriesPoint],
    points: Sequence[SeriesPoint],
    raw: Mapping[int, Sequence[Number]],
    changes: Sequence[StoredChange],
) -> ChartView:
    """Return the chart of a series. ``naming`` is metric, unit and direction; ``outcomes`` are all runs in which the case was planned."""
    by_run = {point.run_id: point for point in points}
    base = outcomes or points
    marks = _find_environments(base)
    kept = _choose(
        base, by_run, {each.first_new_run_id for each in changes} | {base[at].run_id for at, _ in marks}
    )
    shown = list(_with_gaps([(base[at], by_run.get(base[at].run_id)) for at in kept]))
    places = {each.run_id: at for at, each in enumerate(shown) if each.status != GAP}
    room = max(1, _MOST_SAMPLES // max(1, len(raw)))
    samples = tuple(
        (places[run_id], float(value))
        for run_id, values in raw.items()
        if run_id in places and len(values) > 1
        for value in _spread_out(values, room)
    )
    return ChartView(
        *naming,
        tuple(shown),
        samples,
        tuple(_levels(changes, places, len(shown))),
        tuple(_flags(changes, places)),
        tuple(EnvironmentMark(places[base[at].run_id], text) for at, text in marks),
        len(base) - len(kept),
    )


def _choose(
    base: Sequence[SeriesPoint], by_run: Mapping[int, SeriesPoint], needed: Iterable[int]
) -> list[int]:
    """Return the places of the points to show: of too many, the lowest and highest of each stretch, and all failures and changes."""
    if len(base) <= MOST_POINTS:
        return list(range(len(base)))
    must = set(needed)
    chosen = {0, len(base) - 1}
    chosen |= {at for at, each in enumerate(base) if each.run_id in must}
    failures = [at for at, each in enumerate(base) if each.run_id not in by_run]
    chosen |= set(failures[-MOST_POINTS // 4 :])
    stretch = -(-len(base) // max(1, (MOST_POINTS - len(chosen)) // 2))
    for start in range(0, len(base), stretch):
        values = [
            (value, at)
            for at in range(start, min(start + stretch, len(base)))
            if isinstance(
                value := by_run[base[at].run_id].value if base[at].run_id in by_run else None, float
            )
        ]
        if values:
            chosen |= {min(values)[1], max(values)[1]}
    return sorted(chosen)


def _with_gaps(chosen: Sequence[tuple[SeriesPoint, SeriesPoint | None]]) -> Iterator[ChartPoint]:
    times = [_seconds(outcome.measured_at or outcome.recorded_at) for outcome, _ in chosen]
    pauses = [after - before for before, after in pairwise(times) if after > before]
    longest = _GAP * median(pauses) if len(pauses) >= 4 else float("inf")
    for at, (outcome, point) in enumerate(chosen):
        if at and times[at] - times[at - 1] > longest:
            yield ChartPoint(0, "", "", _middle(chosen[at - 1][0], outcome), GAP, is_good=False)
        yield _point(outcome, point)


def _point(outcome: SeriesPoint, point: SeriesPoint | None) -> ChartPoint:
    status = outcome.value if isinstance(outcome.value, str) else "" if point is None else PASSED
    value = point.value if point and isinstance(point.value, int | float) else None
    return ChartPoint(
        outcome.run_id,
        outcome.run[:_LONGEST],
        outcome.revision[:_LONGEST],
        outcome.measured_at or outcome.recorded_at,
        status[:_LONGEST],
        status in {PASSED, SKIPPED},
        None if value is None else float(value),
        point.spread if point else None,
        point.samples if point else 0,
        outcome.torch[:_LONGEST],
    )


def _seconds(when: str) -> float:
    try:
        return datetime.fromisoformat(when).timestamp()
    except ValueError:
        return 0.0


def _middle(before: SeriesPoint, after: SeriesPoint) -> str:
    ends = [_seconds(each.measured_at or each.recorded_at) for each in (before, after)]
    return datetime.fromtimestamp(sum(ends) / 2).astimezone().isoformat(timespec="seconds")


def _spread_out(values: Sequence[Number], most: int) -> Sequence[Number]:
    """Return some of the values, with the lowest and the highest."""
    if len(values) <= most:
        return values
    ordered = sorted(values)
    return [ordered[at * (len(ordered) - 1) // max(1, most - 1)] for at in range(most)]


def _levels(changes: Sequence[StoredChange], places: Mapping[int, int], size: int) -> Iterator[LevelLine]:
    numbers = [each for each in changes if each.after is not None and each.first_new_run_id in places]
    for at, change in enumerate(numbers):
        start = places[change.first_new_run_id]
        if at == 0 and change.before is not None and start:
            yield LevelLine(0, start - 1, change.before)
        end = places[numbers[at + 1].first_new_run_id] - 1 if at + 1 < len(numbers) else size - 1
        yield LevelLine(start, end, change.after or 0.0)


def _flags(changes: Sequence[StoredChange], places: Mapping[int, int]) -> Iterator[ChangeFlag]:
    for change in changes:
        if change.first_new_run_id in places:
            text = change.direction
            if change.before and change.after:
                text += f" {100 * (change.after / change.before - 1):+.1f}%"
            elif change.new_status:
                text += f" {change.old_status} to {change.new_status}"
            at = places[change.first_new_run_id]
            yield ChangeFlag(at, change.direction, text, change.is_provisional, change.group)


def _find_environments(base: Sequence[SeriesPoint]) -> list[tuple[int, str]]:
    """Return where an annotation changes, unless it changes all the time."""
    found: dict[int, list[str]] = {}
    for name in ("driver", "image", "torch"):
        values = [str(getattr(each, name)) for each in base]
        changed = [
            at
            for at in range(1, len(values))
            if values[at] != values[at - 1] and values[at] and values[at - 1]
        ]
        if len(changed) <= max(1, _STEADY * len(values)):
            for at in changed:
                found.setdefault(at, []).append(f"{name} {values[at - 1][:60]} to {values[at][:60]}")
    return [(at, "; ".join(texts)) for at, texts in sorted(found.items())]
