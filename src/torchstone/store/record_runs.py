"""Record runs: each whole or not at all, and none twice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from operator import itemgetter

import msgspec
from msgspec import Struct

from torchstone.analyze.student_t import spread_of
from torchstone.core.errors import UsageError
from torchstone.core.records import Outcome, Reading, Revision, Run
from torchstone.core.run_settings import Environment
from torchstone.core.text.redaction import redact
from torchstone.store.database.connection import Database, Row, Value
from torchstone.store.database.schema import TABLES
from torchstone.store.identity import (
    digest_environment,
    digest_plan,
    digest_run,
    find_time,
    machine_stated,
    name_revision,
)
from torchstone.store.naming import StoredNames
from torchstone.store.ordering import NO_HISTORY, History, Places, read_order
from torchstone.store.raw_data import encode_details, encode_samples, is_in_details
from torchstone.store.stored import machine_of
from torchstone.store.upkeep.removing import remove_run

_MOST_WAITING = 400_000
"""Points that wait to be inserted in the order of their series; more take too much memory."""
_COLUMNS = {table.name: table.names for table in TABLES}
_COLLECTED = ("outcomes", "failures", "points", "samples")
_BY_KEY = itemgetter(0, 1)
_LONGEST_MESSAGE = 2000
_Order = tuple[int, int, int]
"""The place of a run in the order of runs: position and id of its revision, and its own id."""


class RecordEffect(StrEnum):
    """What recording a run did."""

    RECORDED = "recorded"
    COMPLETED = "completed"
    KNOWN = "already recorded"


class Recorded(Struct, frozen=True):
    """A recorded run: its file, what was done, its revision, its number among the runs of its plan, revision and environment."""

    path: str
    effect: RecordEffect
    run_id: int
    revision: str
    attempt: int
    cases: int
    points: int
    measured_at: str | None


class ToRecord(Struct, frozen=True):
    """A run to record: a file, and its revision."""

    reading: Reading
    revision: Revision

    @property
    def name(self) -> str:
        """The name of the revision."""
        return name_revision(self.revision, self.reading.run)


def record_runs(
    connection: Database, runs: Iterable[ToRecord], history: History = NO_HISTORY, *, keeps_raw: bool = True
) -> list[Recorded]:
    """Record runs in one transaction; without ``keeps_raw``, neither their samples nor their details."""
    with connection.writing():
        recorder = _Recorder(connection, history, keeps_raw=keeps_raw)
        recorded = [recorder.record(each) for each in runs]
        recorder.write()
    return recorded


class _Recorder:
    """The runs of one transaction."""

    def __init__(self, connection: Database, history: History, *, keeps_raw: bool) -> None:
        self._connection = connection
        self._history = history
        self._keeps_raw = keeps_raw
        self._now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._waiting: dict[str, list[tuple[Value, ...]]] = {name: [] for name in _COLLECTED}
        self._next_run = _next_id(connection, "runs")
        self._read_names()

    def _read_names(self) -> None:
        """Read what is in the store."""
        self._names = StoredNames(self._connection)
        self._places = Places(read_order(self._connection), self._history)
        rows = self._connection.query("SELECT id, name, position FROM revisions")
        self._revisions = {
            str(name): (int(number or 0), int(position or 0)) for number, name, position in rows
        }
        self._next_revision = max((number for number, _ in self._revisions.values()), default=0) + 1
        self._environments: dict[str, int] = {}
        self._latest: dict[int, tuple[_Order, bool]] | None = None

    def record(self, new: ToRecord) -> Recorded:
        """Record one run, complete one that had not finished, or do nothing for one that is there."""
        run, name = new.reading.run, new.name
        digest = digest_run(new.reading, name)
        known = self._connection.query(
            "SELECT id, attempt, finished, measured_at FROM runs WHERE digest = ?", (digest,)
        )
        if known:
            return self._known(new, known[0])
        before = self._unfinished(new) if new.reading.kind == "run" else None
        if before is not None and before[1] > len(run.outcomes):
            row = self._connection.query(
                "SELECT id, attempt, finished, measured_at FROM runs WHERE id = ?", (before[0],)
            )
            return self._known(new, row[0])
        if before is None:
            run_id, attempt, effect, pinned = self._next_run, 0, RecordEffect.RECORDED, None
            self._next_run += 1
        else:
            run_id, attempt, effect = before[0], before[2], RecordEffect.COMPLETED
            self.write()
            ((pinned,),) = self._connection.query("SELECT pinned FROM runs WHERE id = ?", (run_id,))
            remove_run(self._connection, run_id)
            self._read_names()
        return self._add(new, digest, run_id, attempt, effect, pinned)

    def _known(self, new: ToRecord, row: Row) -> Recorded:
        run_id, attempt, finished, measured_at = row
        if new.reading.run.finished and not finished:
            self._connection.execute("UPDATE runs SET finished = 1 WHERE id = ?", (run_id,))
        at = None if measured_at is None else str(measured_at)
        return Recorded(
            new.reading.path,
            RecordEffect.KNOWN,
            int(run_id or 0),
            new.name,
            int(attempt or 1),
            len(new.reading.run.plan),
            0,
            at,
        )

    def _unfinished(self, new: ToRecord) -> tuple[int, int, int] | None:
        """Return id, number of outcomes and attempt of the same run as it was recorded before it had finished."""
        rows = self._connection.query(
            "SELECT r.id, r.attempt, (SELECT count(*) FROM outcomes o WHERE o.run_id = r.id AND o.status_id IS NOT NULL)"
            " FROM runs r JOIN revisions v ON v.id = r.revision_id JOIN environments e ON e.id = r.environment_id"
            " WHERE r.name = ? AND v.name = ? AND e.digest = ? AND r.finished = 0 AND r.format = 'run'",
            (new.reading.run.id, new.name, digest_environment(new.reading.run.environment)),
        )
        if not rows:
            return None
        run_id, attempt, outcomes = rows[0]
        return int(run_id or 0), int(outcomes or 0), int(attempt or 1)

    def _add(
        self, new: ToRecord, digest: str, run_id: int, attempt: int, effect: RecordEffect, pinned: Value
    ) -> Recorded:
        run, reading = new.reading.run, new.reading
        revision_id, position = self._revision(new)
        ids = revision_id, self._environment(run.environment)
        plan = digest_plan(run)
        attempt = attempt or 1 + self._count_runs(*ids, plan)
        at = find_time(reading)
        settings = msgspec.json.encode(run.settings.to_mapping()).decode()
        row = (run_id, digest, run.id, *ids, new.revision.branch, attempt, int(run.finished), at, self._now)
        self._connection.insert(
            "runs",
            _COLUMNS["runs"],
            [(*row, redact(reading.path), reading.kind, settings, plan, 0, 0, pinned)],
        )
        self._connection.insert("stale_runs", ("run_id",), [(run_id,)])
        outcomes, points = self._fill(run, run_id, (position, revision_id, run_id))
        self._connection.execute(
            "UPDATE runs SET outcome_count = ?, point_count = ? WHERE id = ?", (outcomes, points, run_id)
        )
        if self._keeps_raw:
            self._connection.insert("run_details", ("run_id", "data"), [(run_id, encode_details(run))])
        if len(self._waiting["points"]) > _MOST_WAITING:
            self._flush()
        return Recorded(reading.path, effect, run_id, new.name, attempt, len(run.plan), points, at)

    def _count_runs(self, revision_id: int, environment_id: int, plan: str) -> int:
        """Return the number of runs of a plan, of one revision in one environment."""
        ((count,),) = self._connection.query(
            "SELECT max(attempt) FROM runs WHERE revision_id = ? AND environment_id = ? AND plan_digest = ?",
            (revision_id, environment_id, plan),
        )
        return int(count or 0)

    def _revision(self, new: ToRecord) -> tuple[int, int]:
        """Return id and position of a revision; add it if it is new."""
        name, revision = new.name, new.revision
        if name not in self._revisions:
            placed = self._places.add(name, revision.commit)
            number = self._next_revision
            self._next_revision += 1
            self._revisions[name] = number, placed.position
            dirty = None if revision.dirty is None else int(revision.dirty)
            row = (
                number,
                name,
                revision.commit,
                redact(revision.label),
                dirty,
                placed.height,
                placed.position,
                self._now,
            )
            self._connection.insert("revisions", _COLUMNS["revisions"], [row])
        return self._revisions[name]

    def _environment(self, environment: Environment) -> int:
        digest = digest_environment(environment)
        if digest not in self._environments:
            rows = self._connection.query("SELECT id FROM environments WHERE digest = ?", (digest,))
            number = int(rows[0][0] or 0) if rows else _next_id(self._connection, "environments")
            if not rows:
                self._connection.insert(
                    "environments", _COLUMNS["environments"], [(number, digest, *_annotations(environment))]
                )
            self._environments[digest] = number
        return self._environments[digest]

    def _fill(self, run: Run, run_id: int, order: _Order) -> tuple[int, int]:
        """Collect the rows of a run; return the numbers of its outcomes and points."""
        names, waiting = self._names, self._waiting
        preset = str(run.settings.to_mapping().get("preset") or "")
        machines: dict[tuple[str, str], int] = {}
        points, seen = 0, set[int]()
        for outcome in run.outcomes:
            case_id = names.case(outcome.case)
            if case_id in seen:
                raise UsageError(
                    f"{outcome.case.id} has two outcomes in one run, since its benchmark was renamed",
                    advice="see the renames: torchstone store info",
                )
            seen.add(case_id)
            kind = outcome.case.variant.device, machine_stated(outcome)
            machine_id = machines.get(kind)
            if machine_id is None:
                machine_id = machines[kind] = names.machine(
                    machine_of(run.environment, outcome.case, kind[1])
                )
            waiting["outcomes"].append((case_id, run_id, machine_id, names.status(outcome.status)))
            if outcome.failure:
                waiting["failures"].append((case_id, run_id, *_failure(outcome)))
            points += self._measure(outcome, (case_id, machine_id, run_id), preset, order)
        measured = {outcome.case for outcome in run.outcomes} if len(run.plan) > len(run.outcomes) else set()
        left = [case for case in run.plan if case not in measured] if measured or not run.outcomes else []
        for case in left:
            machine_id = names.machine(machine_of(run.environment, case))
            waiting["outcomes"].append((names.case(case), run_id, machine_id, None))
        return len(run.outcomes) + len(left), points

    def _measure(self, outcome: Outcome, ids: tuple[int, int, int], preset: str, order: _Order) -> int:
        """Collect the points of an outcome; return their number."""
        case_id, machine_id, run_id = ids
        for each in outcome.measurements:
            samples = each.samples
            if len(samples) == 1:
                value, trials, spread = _finite(samples[0]), 1, None
            elif samples:
                trial_values = each.trial_values
                value, trials = _finite(each.value), len(trial_values)
                spread = spread_of(trial_values) if trials > 1 else None
            else:
                value, trials, spread = None, 0, None
            if (
                each.details and each.details.spread_trials and trials == 1
            ):  # an estimate, with what it stands for
                trials, spread = each.details.spread_trials, each.details.spread
            series_id = self._names.series_of(case_id, each, machine_id, preset, run_id)
            self._waiting["points"].append((series_id, run_id, value, len(samples), trials, spread))
            self._note_latest(series_id, order)
            if self._keeps_raw and samples and not is_in_details(samples):
                self._waiting["samples"].append((series_id, run_id, encode_samples(samples)))
        return len(outcome.measurements)

    def _note_latest(self, series_id: int, order: _Order) -> None:
        """Remember the newest run of a series."""
        if self._latest is None:
            rows = self._connection.query(
                "SELECT s.id, v.position, v.id, r.id FROM series s JOIN runs r ON r.id = s.latest_run_id"
                " JOIN revisions v ON v.id = r.revision_id"
            )
            self._latest = {
                int(s or 0): ((int(p or 0), int(v or 0), int(r or 0)), False) for s, p, v, r in rows
            }
        found = self._latest.get(series_id)
        if found is None or order > found[0]:
            self._latest[series_id] = order, True

    def _flush(self) -> None:
        """Insert the collected rows, sorted by their keys: each page is then written once."""
        self._names.write()
        self._names.series.write()
        for table, rows in self._waiting.items():
            if rows:
                rows.sort(key=_BY_KEY)
                self._connection.insert(table, _COLUMNS[table], rows)
                self._waiting[table] = []

    def write(self) -> None:
        """Insert what is left, and note the newest run of each series."""
        self._flush()
        changed = [
            (order[2], series_id) for series_id, (order, is_new) in (self._latest or {}).items() if is_new
        ]
        if changed:
            self._connection.execute_many("UPDATE series SET latest_run_id = ? WHERE id = ?", changed)


def _next_id(connection: Database, table: str) -> int:
    ((number,),) = connection.query(f"SELECT max(id) FROM {table}")
    return int(number or 0) + 1


def _finite(value: float) -> float | None:
    """Return a number as a database holds it; None if it is not finite."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _failure(outcome: Outcome) -> tuple[str, str]:
    failure = outcome.failure
    return (_plain(failure.phase), _plain(failure.message)[:_LONGEST_MESSAGE]) if failure else ("", "")


def _plain(text: str) -> str:
    """Return text that every database can hold."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _annotations(environment: Environment) -> tuple[str, ...]:
    """Return what a point is annotated with, and all facts as JSON."""
    python = environment.software.get("python")
    first: dict[str, object] = (environment.accelerators or ({},))[0] if environment.accelerators else {}
    facts = msgspec.json.encode(environment.to_mapping()).decode()
    stated = (
        environment.fingerprint,
        python.get("version") if isinstance(python, dict) else None,
        environment.versions.get("torch"),
        first.get("driver"),
        environment.machine.get("image") or environment.rest.get("image"),
    )
    return *(_plain(str(each or "")) for each in stated), facts


def count_effects(recorded: Sequence[Recorded]) -> dict[RecordEffect, int]:
    """Return how often each effect occurred."""
    return {effect: sum(each.effect is effect for each in recorded) for effect in RecordEffect}
