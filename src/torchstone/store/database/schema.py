"""The tables of a store as data: what both databases create, and what copying a store copies. docs/store-schema.md explains them."""

from __future__ import annotations

from typing import NamedTuple

APPLICATION_ID = 0x70737473  # marks an SQLite file as a store: "psts"


class Column(NamedTuple):
    """A column: its type, whether it may be NULL, and the table whose ``id`` it holds."""

    name: str
    kind: str
    nullable: bool = False
    references: str = ""


class Table(NamedTuple):
    """A table. ``key`` is its primary key; ``unique`` are columns that are unique together; ``indexes`` are single columns.

    ``is_clustered`` stores the rows in the order of the key where the database can. ``since`` is the migration that creates it.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ("id",)
    unique: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()
    is_clustered: bool = False
    since: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def _integer(name: str, *, nullable: bool = False, references: str = "") -> Column:
    return Column(name, "integer", nullable, references)


def _number(name: str) -> Column:
    return Column(name, "real", nullable=True)


def _text(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, "text") for name in names)


def _nullable_text(name: str) -> Column:
    return Column(name, "text", nullable=True)


_ID = _integer("id")

TABLES = (
    Table("store_info", _text("name", "value"), ("name",)),
    Table("machines", (_ID, *_text("name")), unique=("name",)),
    Table("statuses", (_ID, *_text("name")), unique=("name",)),
    Table("metrics", (_ID, *_text("name", "unit", "better")), unique=("name", "unit", "better")),
    Table(
        "cases",
        (
            _ID,
            *_text("name", "suite", "benchmark", "probe", "device", "backend", "mode", "dtype"),
            _integer("dynamic", nullable=True),
            _integer("batch_size", nullable=True),
            *_text("record"),
        ),
        unique=("name",),
    ),
    Table("renames", _text("suite", "old", "new"), ("suite", "old")),
    Table(
        "revisions",
        (
            _ID,
            *_text("name", "commit_hash", "label"),
            _integer("dirty", nullable=True),
            _integer("height", nullable=True),
            _integer("position"),
            *_text("recorded_at"),
        ),
        unique=("name",),
    ),
    Table(
        "environments",
        (_ID, *_text("digest", "fingerprint", "python", "torch", "driver", "image", "facts")),
        unique=("digest",),
    ),
    Table(
        "runs",
        (
            _ID,
            *_text("digest", "name"),
            _integer("revision_id", references="revisions"),
            _integer("environment_id", references="environments"),
            *_text("branch"),
            _integer("attempt"),
            _integer("finished"),
            _nullable_text("measured_at"),
            *_text("recorded_at", "source", "format", "settings", "plan_digest"),
            _integer("outcome_count"),
            _integer("point_count"),
            _nullable_text("pinned"),
        ),
        unique=("digest",),
        indexes=("revision_id", "name"),
    ),
    Table("run_details", (_integer("run_id", references="runs"), Column("data", "blob")), ("run_id",)),
    Table(
        "outcomes",
        (
            _integer("case_id", references="cases"),
            _integer("run_id", references="runs"),
            _integer("machine_id", references="machines"),
            _integer("status_id", nullable=True, references="statuses"),
        ),
        ("case_id", "run_id"),
        indexes=("run_id",),
        is_clustered=True,
    ),
    Table(
        "failures",
        (
            _integer("case_id", references="cases"),
            _integer("run_id", references="runs"),
            *_text("phase", "message"),
        ),
        ("case_id", "run_id"),
        indexes=("run_id",),
        is_clustered=True,
    ),
    Table(
        "series",
        (
            _ID,
            _integer("case_id", references="cases"),
            _integer("metric_id", references="metrics"),
            _integer("machine_id", references="machines"),
            *_text("counter", "start_method", "cache", "preset", "definition"),
            _integer("latest_run_id", references="runs"),
        ),
        unique=(
            "case_id",
            "metric_id",
            "machine_id",
            "counter",
            "start_method",
            "cache",
            "preset",
            "definition",
        ),
    ),
    Table(
        "points",
        (
            _integer("series_id", references="series"),
            _integer("run_id", references="runs"),
            _number("value"),
            _integer("samples"),
            _integer("trials"),
            _number("spread"),
        ),
        ("series_id", "run_id"),
        indexes=("run_id",),
        is_clustered=True,
    ),
    Table(
        "samples",
        (
            _integer("series_id", references="series"),
            _integer("run_id", references="runs"),
            Column("data", "blob"),
        ),
        ("series_id", "run_id"),
        indexes=("run_id",),
        is_clustered=True,
    ),
)
"""All tables, each after those that it refers to."""

OF_RUNS = ("samples", "points", "failures", "outcomes", "run_details")
"""The tables whose rows belong to a run, in the order in which they can be emptied."""

_PER_POINT = """
    SELECT s.id AS series_id, r.id AS run_id, c.name AS case_name, c.suite, c.benchmark, c.probe, c.device, c.backend,
        c.mode, c.dtype, c.batch_size, m.name AS metric, m.unit, m.better, p.value, p.samples, p.trials, p.spread,
        a.name AS machine, s.counter, s.start_method, s.cache, s.preset, s.definition,
        v.name AS revision, v.commit_hash, v.position, r.branch, r.name AS run, r.attempt, r.measured_at, r.recorded_at,
        e.torch, e.python, e.driver, e.image, e.fingerprint
    FROM series s
    JOIN points p ON p.series_id = s.id {newest}
    JOIN runs r ON r.id = p.run_id
    JOIN revisions v ON v.id = r.revision_id
    JOIN environments e ON e.id = r.environment_id
    JOIN cases c ON c.id = s.case_id
    JOIN metrics m ON m.id = s.metric_id
    JOIN machines a ON a.id = s.machine_id"""

VIEWS = {
    "v_series": _PER_POINT.format(newest=""),
    "v_latest": _PER_POINT.format(newest="AND p.run_id = s.latest_run_id"),
    "v_runs": """
    SELECT r.id AS run_id, r.name AS run, v.name AS revision, v.commit_hash, v.position, v.label, v.dirty, r.branch,
        r.attempt, r.finished, r.measured_at, r.recorded_at, r.source, r.format, r.outcome_count, r.point_count, r.pinned,
        e.torch, e.python, e.driver, e.image, e.fingerprint
    FROM runs r
    JOIN revisions v ON v.id = r.revision_id
    JOIN environments e ON e.id = r.environment_id""",
    "v_outcomes": """
    SELECT c.id AS case_id, r.id AS run_id, c.name AS case_name, c.suite, c.benchmark, c.probe, a.name AS machine,
        t.name AS status, f.phase, f.message, v.name AS revision, v.position, r.branch, r.name AS run, r.measured_at,
        r.recorded_at, e.torch
    FROM outcomes o
    JOIN cases c ON c.id = o.case_id
    JOIN runs r ON r.id = o.run_id
    JOIN revisions v ON v.id = r.revision_id
    JOIN environments e ON e.id = r.environment_id
    JOIN machines a ON a.id = o.machine_id
    LEFT JOIN statuses t ON t.id = o.status_id
    LEFT JOIN failures f ON f.case_id = o.case_id AND f.run_id = o.run_id""",
}
"""The views, which are documented, and may be queried with any tool."""
