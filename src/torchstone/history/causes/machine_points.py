"""Read what a shift of a machine is seen by: the times of all machines in the runs around a change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from torchstone.core.records import Measurement, unit_of
from torchstone.history.causes.machine_shifts import FEWEST_SERIES, TimedSeries, has_shifted
from torchstone.history.change_records import SeriesChange
from torchstone.store.database.connection import Database
from torchstone.store.raw_data import decode_controls

TIME_UNITS = frozenset({"s", "ms"})
_RUNS_BEFORE, _RUNS_BEHIND = 15, 8
_OF_EACH_MACHINE = 4  # runs of so many machines may take turns
_MOST_ELSEWHERE = 0.1


class _Around(Struct, frozen=True):
    """The runs before and behind a change, the nearest first, with their positions; the change is at ``position``."""

    position: int
    branch: str
    before: dict[int, int]
    behind: dict[int, int]


class _Level(Struct):
    """The positions at which the level of a series begins and ends: before a change, and behind it."""

    begin: int = 0
    end: int | None = None


def find_shifted_machine(database: Database, changes: Sequence[SeriesChange]) -> str | None:
    """Return the machine whose shift explains the changes of a group, empty if it has no name; None if no shift does."""
    timed = [each for each in changes if each.metric.unit in TIME_UNITS]
    machine, count = Counter(each.series.machine for each in timed).most_common(1)[0] if timed else ("", 0)
    if len(changes) - count > _MOST_ELSEWHERE * len(changes):
        return None
    if len({each.series.case for each in timed}) < FEWEST_SERIES:
        return None
    around = _find_runs(database, timed)
    metrics = {each.metric.name for each in timed}
    series = _read_times(database, around)
    here = series.pop(machine, [])
    others = [[each for each in found if each.metric in metrics] for found in series.values()]
    if any(len(each) >= FEWEST_SERIES for each in others):
        here = [each for each in here if each.metric in metrics]
    controls = _read_controls(
        database, around, {run for each in here for run in (*each.before, *each.behind)}
    )
    return machine if has_shifted(here, others, controls) else None


def _find_runs(database: Database, changes: Sequence[SeriesChange]) -> _Around:
    """Return the runs around the revision at which most of the changes begin."""
    (at, after), _ = Counter(
        (each.first_new.position, each.last_old.position) for each in changes
    ).most_common(1)[0]
    branch = changes[0].branch
    sql = (
        "SELECT r.id, v.position FROM runs r JOIN revisions v ON v.id = r.revision_id WHERE r.branch = ?"
        " AND v.position {} ? ORDER BY v.position {}, r.id {} LIMIT ?"
    )
    before = database.query(
        sql.format("<=", "DESC", "DESC"), (branch, min(after, at - 1), _RUNS_BEFORE * _OF_EACH_MACHINE)
    )
    behind = database.query(sql.format(">=", "ASC", "ASC"), (branch, at, _RUNS_BEHIND * _OF_EACH_MACHINE))
    return _Around(at, branch, dict(before), dict(behind))


def _read_times(database: Database, around: _Around) -> dict[str, list[TimedSeries]]:
    """Return the series of times of each machine, with the nearest runs of each on both sides, up to its next changes."""
    runs = ", ".join(map(str, (*around.before, *around.behind)))
    units = ", ".join(f"'{unit}'" for unit in sorted(TIME_UNITS))
    rows = database.query(
        "SELECT a.name, m.name, p.series_id, p.run_id, p.value FROM points p JOIN series s ON s.id = p.series_id"
        " JOIN metrics m ON m.id = s.metric_id JOIN machines a ON a.id = s.machine_id"
        f" WHERE p.run_id IN ({runs}) AND m.unit IN ({units}) AND p.value > 0"
    )
    values: dict[tuple[str, str, int], dict[int, float]] = {}
    for machine, metric, series, run, value in rows:
        values.setdefault((machine, metric, series), {})[run] = math.log(value)
    levels = _read_levels(database, around)
    found: dict[str, list[TimedSeries]] = {}
    for (machine, metric, series), by_run in sorted(values.items()):
        found.setdefault(machine, []).append(_series(metric, by_run, around, levels.get(series, _Level())))
    return found


def _read_levels(database: Database, around: _Around) -> dict[int, _Level]:
    """Return where the levels of series begin and end that have other changes near: those are no matter of this one."""
    rows = database.query(
        "SELECT d.series_id, x.earliest, x.latest FROM changes x JOIN detections d ON d.id = x.detection_id"
        " WHERE d.branch = ? AND x.vanished_at IS NULL AND x.latest >= ? AND x.earliest <= ? AND d.series_id IS NOT NULL",
        (around.branch, min(around.before.values(), default=0), max(around.behind.values(), default=0)),
    )
    levels: dict[int, _Level] = {}
    for series, earliest, latest in rows:
        level = levels.setdefault(series, _Level())
        if latest < around.position:
            level.begin = max(level.begin, latest)
        elif earliest >= around.position:
            level.end = earliest if level.end is None else min(level.end, earliest)
    return levels


def _series(metric: str, by_run: dict[int, float], around: _Around, level: _Level) -> TimedSeries:
    before = [run for run, position in around.before.items() if run in by_run and position >= level.begin]
    behind = [
        run
        for run, position in around.behind.items()
        if run in by_run and (level.end is None or position <= level.end)
    ]
    return TimedSeries(
        metric,
        {run: by_run[run] for run in before[:_RUNS_BEFORE]},
        {run: by_run[run] for run in behind[:_RUNS_BEHIND]},
    )


def _read_controls(database: Database, around: _Around, of_machine: Collection[int]) -> list[TimedSeries]:
    """Return the times of control cases in the runs of a machine; none if these have no control cases, or their raw data was pruned."""
    values: dict[tuple[str, str], dict[int, float]] = {}
    for run in [each for each in (*around.before, *around.behind) if each in of_machine]:
        for case, measurement in _timed_controls(database, run):
            values.setdefault((case, measurement.metric), {})[run] = math.log(measurement.value)
    return [_series(metric, by_run, around, _Level()) for (_, metric), by_run in sorted(values.items())]


def _timed_controls(database: Database, run: int) -> Iterator[tuple[str, Measurement]]:
    rows = database.query("SELECT data FROM run_details WHERE run_id = ?", (run,))
    try:
        controls = decode_controls(bytes(rows[0][0])) if rows else ()
    except ValueError:
        return  # damaged: ``store verify`` says so
    for outcome in controls:
        for each in outcome.measurements:
            if unit_of(each.metric, each) in TIME_UNITS and each.value > 0:
                yield outcome.case.id, each
