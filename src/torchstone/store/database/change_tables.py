"""The tables of changes and of what people decide about them, as data: a part of the schema."""

from __future__ import annotations

from torchstone.store.database.table_columns import ID, Table, integer, nullable_text, number, text

CHANGE_TABLES = (
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
