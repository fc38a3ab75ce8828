"""Find runs in a store, and read one as it was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct, structs

from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.errors import InputError, UsageError
from torchstone.core.records import (
    BY_CALLS,
    BY_TIMERS,
    Case,
    Failure,
    Measurement,
    Number,
    Outcome,
    Reading,
    Revision,
    Run,
)
from torchstone.core.run_settings import Environment, environment_from, settings_from
from torchstone.core.text.units import count_of
from torchstone.core.vocabulary import METRICS
from torchstone.store.database.connection import Database, Row, Value
from torchstone.store.identity import method_of, renamed
from torchstone.store.raw_data import RunDetails, decode_details, decode_samples
from torchstone.store.stored import StoredRun

_IN_ORDER = " ORDER BY v.position, v.id, r.id"
STORED_RUNS = (
    "SELECT r.id, r.digest, r.name, v.name, v.commit_hash, r.branch, v.position, r.attempt, r.finished, r.measured_at,"
    " r.recorded_at, r.source, r.format, r.outcome_count, r.point_count, r.pinned, e.torch FROM runs r"
    " JOIN revisions v ON v.id = r.revision_id JOIN environments e ON e.id = r.environment_id"
)
"""Selects runs ``r`` with their revisions ``v``; ``stored_run`` makes a record of a row."""


def list_runs(connection: Database) -> list[StoredRun]:
    """Return all runs, in the order of revisions."""
    return [stored_run(row) for row in connection.query(STORED_RUNS + _IN_ORDER)]


def find_runs(connection: Database, name: str) -> list[StoredRun]:
    """Return the runs of this name, number or revision, in the order of revisions; a commit may be shortened to seven digits."""
    if name.isascii() and name.isdecimal() and len(name) < 10:
        by_number = connection.query(f"{STORED_RUNS} WHERE r.id = ?", (int(name),))
        if by_number:
            return [stored_run(by_number[0])]
    found = connection.query(f"{STORED_RUNS} WHERE r.name = ? OR v.name = ?{_IN_ORDER}", (name, name))
    if not found and len(name) >= 7:
        last = name + "\U0010ffff"
        found = connection.query(f"{STORED_RUNS} WHERE v.name >= ? AND v.name < ?{_IN_ORDER}", (name, last))
    return [stored_run(row) for row in found]


def find_run(connection: Database, name: str) -> StoredRun:
    """Return the only run of this name, number or revision; raise an error if there is none, or several."""
    found = find_runs(connection, name)
    if not found:
        raise UsageError(
            f"{name}: no such run in {connection.place}",
            advice="name a run by its id, number or revision; 'torchstone store info --runs' lists them",
        )
    if len(found) > 1:
        listed = ", ".join(str(each.id) for each in found[:10])
        raise UsageError(f"{name}: {count_of(len(found), 'run')}", advice=f"name one by its number: {listed}")
    return found[0]


def stored_run(row: Row) -> StoredRun:
    """Return a row of STORED_RUNS as a record."""
    values = list(row)
    values[8] = bool(values[8])
    return StoredRun(*values)


class _StoredPoint(Struct, frozen=True):
    """A measurement of a run, as the store has it."""

    metric: str
    unit: str
    better: str
    method: tuple[str, str, str, str]
    value: float | None
    trials: int
    spread: float | None
    data: bytes | None


def read_run(connection: Database, run: StoredRun) -> Reading:
    """Return a run as it was recorded; after its raw data was pruned, with one number and its spread for each measurement."""
    ((settings, label, dirty),) = connection.query(
        "SELECT r.settings, v.label, v.dirty FROM runs r JOIN revisions v ON v.id = r.revision_id WHERE r.id = ?",
        (run.id,),
    )
    points = _read_points_of(connection, run)
    statuses = _read_statuses(connection, run)
    details = _read_details(connection, run)
    if details:
        renames = read_renames(connection)
        given = tuple(_as_named(each, renames) for each in details.outcomes)
        outcomes = tuple(_with_samples(each, points.get(each.case.id, [])) for each in given)
    else:
        outcomes = tuple(_summarised(connection, run, statuses, points))
    reading = Run(
        run.name,
        tuple(statuses),
        outcomes,
        Revision(run.commit, run.branch, None if dirty is None else bool(dirty), str(label)),
        read_environment(connection, run),
        settings_from(msgspec.json.decode(str(settings))),
        run.finished,
        details.controls if details else (),
    )
    return Reading(f"{connection.place}#{run.name}", "run", reading, range(1, len(outcomes) + 1))


def _read_details(connection: Database, run: StoredRun) -> RunDetails | None:
    rows = connection.query("SELECT data FROM run_details WHERE run_id = ?", (run.id,))
    if not rows:
        return None
    try:
        return decode_details(_bytes(rows[0][0]))
    except ValueError as error:
        raise _damaged(connection, run, error) from None


def _read_points_of(connection: Database, run: StoredRun) -> dict[str, list[_StoredPoint]]:
    """Return the measurements of a run, by the id of the case."""
    rows = connection.query(
        "SELECT c.name, m.name, m.unit, m.better, s.counter, s.start_method, s.cache, s.definition, p.value, p.trials,"
        " p.spread, d.data FROM points p JOIN series s ON s.id = p.series_id JOIN cases c ON c.id = s.case_id"
        " JOIN metrics m ON m.id = s.metric_id LEFT JOIN samples d ON d.series_id = p.series_id AND d.run_id = p.run_id"
        " WHERE p.run_id = ? ORDER BY p.series_id",
        (run.id,),
    )
    found: dict[str, list[_StoredPoint]] = {}
    for case, metric, unit, better, counter, start, cache, definition, value, trials, spread, data in rows:
        method = str(counter), str(start), str(cache), str(definition)
        point = _StoredPoint(
            str(metric),
            str(unit),
            str(better),
            method,
            _float(value),
            int(trials or 0),
            _float(spread),
            _optional(data),
        )
        found.setdefault(str(case), []).append(point)
    return found


def _read_statuses(connection: Database, run: StoredRun) -> dict[Case, str | None]:
    """Return the status of each planned case; None if it has no outcome."""
    rows = connection.query(
        "SELECT c.record, t.name FROM outcomes o JOIN cases c ON c.id = o.case_id"
        " LEFT JOIN statuses t ON t.id = o.status_id WHERE o.run_id = ? ORDER BY c.id",
        (run.id,),
    )
    decoder = msgspec.json.Decoder(Case)
    return {decoder.decode(str(record)): None if status is None else str(status) for record, status in rows}


def read_renames(connection: Database) -> dict[tuple[str, str], str]:
    """Return the new names of renamed benchmarks, by suite and old name."""
    rows = connection.query("SELECT suite, old, new FROM renames")
    return {(str(suite), str(old)): str(new) for suite, old, new in rows}


def _as_named(outcome: Outcome, renames: Mapping[tuple[str, str], str]) -> Outcome:
    new = renames.get((outcome.case.suite, outcome.case.benchmark))
    return structs.replace(outcome, case=renamed(outcome.case, new)) if new else outcome


def _with_samples(outcome: Outcome, points: list[_StoredPoint]) -> Outcome:
    """Return an outcome with the samples that are stored beside its details."""
    by_key = {(point.metric, point.method): point for point in points}
    measurements = []
    for each in outcome.measurements:
        point = by_key.get((each.metric, method_of(each)))
        if point is not None and point.data is not None:
            measurements.append(structs.replace(each, samples=decode_samples(point.data)))
        elif point is not None and not each.samples and point.value is not None:  # its samples were pruned
            measurements.append(_measurement(point))
        else:
            measurements.append(each)
    return structs.replace(outcome, measurements=tuple(measurements))


def _summarised(
    connection: Database,
    run: StoredRun,
    statuses: Mapping[Case, str | None],
    points: Mapping[str, list[_StoredPoint]],
) -> Iterator[Outcome]:
    """Yield the outcomes of a run without raw data."""
    rows = connection.query(
        "SELECT c.name, f.phase, f.message FROM failures f JOIN cases c ON c.id = f.case_id WHERE f.run_id = ?",
        (run.id,),
    )
    failures = {str(case): Failure(str(phase), str(message)) for case, phase, message in rows}
    for case, status in statuses.items():
        if status is not None:
            measured = tuple(_measurement(each) for each in points.get(case.id, []) if each.value is not None)
            yield Outcome(case, status, measured, failures.get(case.id))


def _measurement(point: _StoredPoint) -> Measurement:
    """Return a measurement of one number, which stands for its trials; of its samples, if they are kept."""
    if point.data is not None:
        given = details_of(point.metric, point.unit, point.better, point.method)
        return Measurement(point.metric, decode_samples(point.data), None if given == NO_DETAILS else given)
    details = structs.replace(
        details_of(point.metric, point.unit, point.better, point.method),
        spread=point.spread,
        spread_trials=point.trials if point.trials > 1 else None,
    )
    value = exact_number(point.value or 0.0, point.metric, point.better)
    return Measurement(point.metric, (value,), None if details == NO_DETAILS else details)


def details_of(metric: str, unit: str, better: str, method: tuple[str, str, str, str]) -> MeasurementDetails:
    """Return what a series says about its measurements: how they were taken, and how a metric of a benchmark's own is defined."""
    counter, start, cache, definition = method
    is_definition = definition in {BY_TIMERS, BY_CALLS}
    is_own = metric not in METRICS
    return MeasurementDetails(
        start,
        cache,
        counter,
        definition if is_definition else "",
        "" if is_definition else definition,
        better=better if is_own and better in {"higher", "lower", "equal"} else "",  # type: ignore[arg-type]  # one of these words
        unit=unit if is_own else "",
    )


def is_counted(metric: str, better: str) -> bool:
    """Return whether values of a metric do not vary by chance."""
    known = METRICS.get(metric)
    return known.is_counted if known else better == "equal"


def exact_number(value: float, metric: str, better: str) -> Number:
    """Return a value as it was measured: a whole number for a count."""
    return int(value) if is_counted(metric, better) and float(value).is_integer() else value


def read_environment(connection: Database, run: StoredRun) -> Environment:
    """Return the environment of a run."""
    ((facts,),) = connection.query(
        "SELECT e.facts FROM runs r JOIN environments e ON e.id = r.environment_id WHERE r.id = ?", (run.id,)
    )
    return environment_from(msgspec.json.decode(facts))


def _damaged(connection: Database, run: StoredRun, error: ValueError) -> InputError:
    advice = "remove the run, and record its file again"
    return InputError(f"run {run.name} is damaged: {error}", path=connection.place, advice=advice)


def _float(value: Value) -> float | None:
    return value if isinstance(value, float) else None if value is None else float(value)


def _optional(value: Value) -> bytes | None:
    return None if value is None else _bytes(value)


def _bytes(value: Value) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else b""
