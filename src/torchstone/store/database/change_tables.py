"""The tables of changes and of what people decide about them, as data: a part of the schema."""

from __future__ import annotations

from torchstone.store.database.table_columns import ID, Table, integer, nullable_text, number, text

CHANGE_TABLES = (
    Table("stale_runs", (integer("run_id", references="runs"),), ("run_id",), since=3),
    Table(
        "detections",
        (
            ID,
            *text("name"),
            integer("series_id", nullable=True, references="series"),
            integer("case_id", references="cases"),
            integer("machine_id", references="machines"),
            *text("branch"),
            integer("point_count"),
            integer("newest_run_id", nullable=True, references="runs"),
            *text("decided"),
        ),
        unique=("name",),
        indexes=("series_id", "case_id", "newest_run_id"),
        since=3,
    ),
    Table(
        "change_groups",
        (ID, *text("name", "branch", "cause", "opened_at")),
        indexes=("branch",),
        since=3,
    ),
    Table(
        "changes",
        (
            ID,
            integer("detection_id", references="detections"),
            integer("group_id", nullable=True, references="change_groups"),
            integer("last_old_run_id", references="runs"),
            integer("first_new_run_id", references="runs"),
            integer("earliest"),
            integer("latest"),
            *text("direction"),
            nullable_text("old_status"),
            nullable_text("new_status"),
            number("before"),
            number("after"),
            number("certainty"),
            integer("is_provisional"),
            *text("detected_at"),
            nullable_text("vanished_at"),
        ),
        indexes=("detection_id", "group_id", "last_old_run_id", "first_new_run_id"),
        since=3,
    ),
    Table(
        "triage_events",
        (
            ID,
            integer("group_id", references="change_groups"),
            *text("state", "reason", "link", "owner", "author", "at"),
            integer("is_automatic"),
            integer("duplicate_of", nullable=True, references="change_groups"),
        ),
        indexes=("group_id",),
        since=3,
    ),
    Table(
        "notifications",
        (
            ID,
            integer("group_id", references="change_groups"),
            *text("channel", "state", "at"),
        ),
        indexes=("group_id",),
        since=3,
    ),
)
"""Tables of changes and triage, each after those that it refers to."""

CHANGE_VIEWS = {
    "v_changes": """
    SELECT x.id AS change_id, x.group_id, g.name AS group_name, g.cause, d.series_id, c.id AS case_id, c.name AS case_name,
        c.suite, c.benchmark, c.probe, coalesce(m.name, 'accuracy') AS metric, coalesce(m.unit, 'status') AS unit,
        a.name AS machine, d.branch, v.name AS last_old_revision, v.position AS last_old_position, o.name AS last_old_run,
        w.name AS first_new_revision, w.position AS first_new_position, n.name AS first_new_run, x.earliest, x.latest,
        x.direction, x.before, x.after, x.old_status, x.new_status, x.certainty, x.is_provisional, x.detected_at,
        x.vanished_at, (SELECT t.state FROM triage_events t WHERE t.group_id = x.group_id ORDER BY t.id DESC LIMIT 1) AS state
    FROM changes x
    JOIN detections d ON d.id = x.detection_id
    JOIN cases c ON c.id = d.case_id
    JOIN machines a ON a.id = d.machine_id
    JOIN runs o ON o.id = x.last_old_run_id
    JOIN revisions v ON v.id = o.revision_id
    JOIN runs n ON n.id = x.first_new_run_id
    JOIN revisions w ON w.id = n.revision_id
    LEFT JOIN series s ON s.id = d.series_id
    LEFT JOIN metrics m ON m.id = s.metric_id
    LEFT JOIN change_groups g ON g.id = x.group_id""",
}
"""The view of changes, which is documented, and may be queried with any tool."""
