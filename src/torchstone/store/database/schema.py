"""Define the tables of a store as data: what both databases create, and what is copied with a store.

docs/store-schema.md explains them.
"""

from __future__ import annotations

from torchstone.store.database.change_tables import CHANGE_TABLES
from torchstone.store.database.table_columns import ID, Column, Table, integer, nullable_text, number, text

APPLICATION_ID = 0x70737473  # marks an SQLite file as a store: "psts"


TABLES = (
    Table("store_info", text("name", "value"), ("name",)),
    Table("machines", (ID, *text("name")), unique=("name",)),
    Table("statuses", (ID, *text("name")), unique=("name",)),
    Table("metrics", (ID, *text("name", "unit", "better")), unique=("name", "unit", "better")),
    Table(
        "cases",
        (
            ID,
            *text("name", "suite", "benchmark", "probe", "device", "backend", "mode", "dtype"),
            integer("dynamic", nullable=True),
            integer("batch_size", nullable=True),
            *text("record"),
        ),
        unique=("name",),
    ),
    Table("renames", text("suite", "old", "new"), ("suite", "old")),
    Table(
        "revisions",
        (
            ID,
            *text("name", "commit_hash", "label"),
            integer("dirty", nullable=True),
            integer("height", nullable=True),
            integer("position"),
            *text("recorded_at"),
        ),
        unique=("name",),
    ),
    Table(
        "environments",
        (ID, *text("digest", "fingerprint", "python", "torch", "driver", "image", "facts")),
        unique=("digest",),
    ),
    Table(
        "runs",
        (
            ID,
            *text("digest", "name"),
            integer("revision_id", references="revisions"),
            integer("environment_id", references="environments"),
            *text("branch"),
            integer("attempt"),
            integer("finished"),
            nullable_text("measured_at"),
            *text("recorded_at", "source", "format", "settings", "plan_digest"),
            integer("outcome_count"),
            integer("point_count"),
            nullable_text("pinned"),
        ),
        unique=("digest",),
        indexes=("revision_id", "name"),
    ),
    Table("run_details", (integer("run_id", references="runs"), Column("data", "blob")), ("run_id",)),
    Table(
        "outcomes",
        (
            integer("case_id", references="cases"),
            integer("run_id", references="runs"),
            integer("machine_id", references="machines"),
            integer("status_id", nullable=True, references="statuses"),
        ),
        ("case_id", "run_id"),
        indexes=("run_id",),
        is_clustered=True,
    ),
    Table(
        "failures",
        (
            integer("case_id", references="cases"),
            integer("run_id", references="runs"),
            *text("phase", "message"),
        ),
        ("case_id", "run_id"),
        indexes=("run_id",),
        is_clustered=True,
    ),
    Table(
        "series",
        (
            ID,
            integer("case_id", references="cases"),
            integer("metric_id", references="metrics"),
            integer("machine_id", references="machines"),
            *text("counter", "start_method", "cache", "preset", "definition"),
            integer("latest_run_id", references="runs"),
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
            integer("series_id", references="series"),
            integer("run_id", references="runs"),
            number("value"),
            integer("samples"),
            integer("trials"),
            number("spread"),
        ),
        ("series_id", "run_id"),
        indexes=("run_id",),
        is_clustered=True,
    ),
    Table(
        "samples",
        (
            integer("series_id", references="series"),
            integer("run_id", references="runs"),
            Column("data", "blob"),
        ),
        ("series_id", "run_id"),
        indexes=("run_id",),
        is_clustered=True,
    ),
    *CHANGE_TABLES,
)
"""All tables, each after those that it refers to."""

OF_RUNS = ("samples", "points", "failures", "outcomes", "run_details", "stale_runs")
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
