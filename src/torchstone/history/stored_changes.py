"""Read changes from a store, as records."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from torchstone.core.records import Case, matches_metric, matches_name
from torchstone.core.vocabulary import ACCURACY, METRICS, reported_metric
from torchstone.history.change_records import ChangeEnd, Direction, SeriesChange
from torchstone.store.database.connection import Database, Row
from torchstone.store.stored import SeriesKey

_END = "{run}.id, {run}.name, {revision}.name, {revision}.commit_hash, {revision}.position, {run}.measured_at, {environment}.torch, {environment}.driver, {environment}.image"
_OLD = _END.format(run="o", revision="v", environment="e")
_NEW = _END.format(run="n", revision="w", environment="f")
_SELECT = (
    "SELECT x.id, x.group_id, x.earliest, x.latest, x.direction, x.before, x.after, x.old_status, x.new_status, x.certainty,"
    " x.is_provisional, x.vanished_at, d.branch, c.record, a.name, m.name, m.unit, m.better, s.counter, s.start_method, s.cache,"
    f" s.preset, s.definition, {_OLD}, {_NEW} FROM changes x JOIN detections d ON d.id = x.detection_id"
    " JOIN cases c ON c.id = d.case_id JOIN machines a ON a.id = d.machine_id"
    " JOIN runs o ON o.id = x.last_old_run_id JOIN revisions v ON v.id = o.revision_id JOIN environments e ON e.id = o.environment_id"
    " JOIN runs n ON n.id = x.first_new_run_id JOIN revisions w ON w.id = n.revision_id JOIN environments f ON f.id = n.environment_id"
    " LEFT JOIN series s ON s.id = d.series_id LEFT JOIN metrics m ON m.id = s.metric_id"
)
_OF_END = 9  # columns of an end
_AFTER = 23  # columns before the ends


class ChangeQuery(Struct, frozen=True):
    """Which changes: of cases and metrics by name, id or pattern, of a branch, of groups, or certain ones; none given means all.

    ``since`` is a date, or the first moment at which the first run of the new level was measured (or recorded). ``is_vanished``
    asks for those, too, that are gone.
    """

    cases: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    branch: str = ""
    since: str = ""
    groups: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    certainty: float = 0.0
    with_vanished: bool = False


ALL_CHANGES = ChangeQuery()


def read_changes(database: Database, query: ChangeQuery = ALL_CHANGES) -> list[SeriesChange]:
    """Return the changes that match, in the order of the revisions at which they were seen first."""
    limits: list[str] = [] if query.with_vanished else ["x.vanished_at IS NULL"]
    given: list[int | float | str] = []
    if query.branch:
        limits.append("d.branch = ?")
        given.append(query.branch)
    if query.since:
        limits.append("coalesce(n.measured_at, n.recorded_at) >= ?")
        given.append(query.since)
    if query.certainty:
        limits.append("x.certainty >= ?")
        given.append(query.certainty)
    for column, numbers in (("x.group_id", query.groups), ("x.id", query.ids)):
        if numbers:
            limits.append(f"{column} IN ({', '.join(map(str, numbers))})")
    where = f" WHERE {' AND '.join(limits)}" if limits else ""
    rows = database.query(f"{_SELECT}{where} ORDER BY w.position, w.id, n.id, x.id", given)
    cases: dict[str, Case] = {}
    found = [_change(row, cases) for row in rows]
    return [each for each in found if _matches(each, query)]


def _matches(change: SeriesChange, query: ChangeQuery) -> bool:
    case = change.series.case
    return _is_any(
        query.cases, lambda pattern: matches_name(pattern, case.benchmark) or matches_name(pattern, case.id)
    ) and _is_any(query.metrics, lambda pattern: matches_metric(pattern, change.metric.name))


def _is_any(patterns: Sequence[str], matches: object) -> bool:
    return not patterns or any(matches(each) for each in patterns)  # type: ignore[operator]


def _change(row: Row, cases: dict[str, Case]) -> SeriesChange:
    number, group, earliest, latest, way, before, after, old, new, certainty, provisional, vanished = row[:12]
    branch, record, machine, name, unit, better, *method = row[12:_AFTER]
    case = cases.get(record)
    if case is None:
        case = cases[record] = msgspec.json.decode(record, type=Case)
    is_status = name is None
    metric = (
        METRICS[ACCURACY]
        if is_status
        else METRICS.get(name) or reported_metric(name, unit, better or "lower")
    )
    return SeriesChange(
        id=number,
        series=SeriesKey(case, metric.name, machine)
        if is_status
        else SeriesKey(case, name, machine, *method),
        metric=metric,
        branch=branch,
        last_old=ChangeEnd(*row[_AFTER : _AFTER + _OF_END]),
        first_new=ChangeEnd(*row[_AFTER + _OF_END :]),
        earliest=earliest,
        latest=latest,
        direction=Direction(way),
        before=old if is_status else before,
        after=new if is_status else after,
        certainty=certainty,
        is_provisional=bool(provisional),
        group=group,
        is_vanished=vanished is not None,
    )
