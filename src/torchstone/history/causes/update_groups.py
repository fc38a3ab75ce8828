"""Write groups of changes into a store: extend those there are, open new ones, remove those that nothing is left of.

Only changes whose ranges meet those of new ones are grouped again: a cause elsewhere cannot explain them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from torchstone.core.records import Case
from torchstone.history.causes.environment_causes import (
    RunEnvironment,
    find_environment_changes,
    find_routine,
)
from torchstone.history.causes.group_changes import Grouped, group_changes, make_range
from torchstone.history.causes.group_names import find_varying, name_group
from torchstone.history.causes.machine_points import find_shifted_machine
from torchstone.history.causes.touched_changes import ChangePlace, find_touched
from torchstone.history.change_records import Cause, SeriesChange
from torchstone.history.stored_changes import ChangeQuery, read_changes
from torchstone.store.database.connection import Database
from torchstone.store.reading_runs import is_counted

_NEWEST = "newest_group"
_DECIDED = (
    "SELECT group_id FROM triage_events WHERE is_automatic = 0 UNION SELECT group_id FROM notifications"
    " UNION SELECT duplicate_of FROM triage_events WHERE duplicate_of IS NOT NULL"
)
_EMPTY = (
    "SELECT id FROM change_groups WHERE id NOT IN (SELECT group_id FROM changes WHERE group_id IS NOT NULL)"
)


class GroupsUpdate(Struct, frozen=True):
    """The numbers of the groups that were opened, that got other members, and that are gone."""

    opened: tuple[int, ...] = ()
    extended: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


def update_groups(database: Database, moved: Collection[int] = ()) -> GroupsUpdate:
    """Group all changes that have no group yet, and those that ``moved``, in one transaction."""
    if not moved and not _is_needed(database):
        return GroupsUpdate()
    with database.writing():
        return _Grouping(database).update(moved)


def _is_needed(database: Database) -> bool:
    new = "SELECT 1 FROM changes WHERE group_id IS NULL AND vanished_at IS NULL LIMIT 1"
    return bool(database.query(new)) or bool(database.query(f"{_EMPTY} LIMIT 1"))


class _Grouping:
    """One update."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._decided = {int(group) for (group,) in database.query(_DECIDED)}
        self._known = {
            number: (name, cause)
            for number, name, cause in database.query("SELECT id, name, cause FROM change_groups")
        }
        decode = msgspec.json.Decoder(Case).decode
        self._varying = find_varying(
            [decode(record) for (record,) in database.query("SELECT record FROM cases")]
        )
        noted = database.query("SELECT value FROM store_info WHERE name = ?", (_NEWEST,))
        self._is_noted = bool(noted)
        self._newest = max(int(noted[0][0]) if noted else 0, *self._known, 0)
        self._now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def update(self, moved: Collection[int]) -> GroupsUpdate:
        """Group the changes of all branches that something happened on."""
        before = self._newest
        extended: set[int] = set()
        places = self._read_places()
        sizes = Counter(each.group for found in places.values() for each in found)
        for branch, found in places.items():
            touched = find_touched(found, set(moved))
            if not touched.ids:
                continue
            changes = read_changes(self._database, ChangeQuery(ids=touched.ids))
            routine = self._find_routine(branch)
            for group in group_changes(changes, self._decided | touched.kept):
                if self._write(group, branch, routine, sizes[group.number]):
                    extended.add(group.number or 0)
        removed = self._remove_empty()
        opened = tuple(number for number in range(before + 1, self._newest + 1) if number not in removed)
        self._note_newest(before)
        return GroupsUpdate(opened, tuple(sorted(extended - {0, *opened, *removed})), removed)

    def _read_places(self) -> dict[str, list[ChangePlace]]:
        rows = self._database.query(
            "SELECT d.branch, x.id, x.group_id, x.earliest, v.position, w.position, x.latest, m.name, m.better"
            " FROM changes x JOIN detections d ON d.id = x.detection_id LEFT JOIN series s ON s.id = d.series_id"
            " LEFT JOIN metrics m ON m.id = s.metric_id JOIN runs o ON o.id = x.last_old_run_id"
            " JOIN revisions v ON v.id = o.revision_id JOIN runs n ON n.id = x.first_new_run_id"
            " JOIN revisions w ON w.id = n.revision_id WHERE x.vanished_at IS NULL ORDER BY x.id"
        )
        found: dict[str, list[ChangePlace]] = {}
        for branch, number, group, earliest, after, at, latest, metric, better in rows:
            is_exact = metric is None or is_counted(metric, better)
            where = make_range(earliest, after, at, latest, is_exact=is_exact)
            found.setdefault(branch, []).append(ChangePlace(number, group, where))
        return found

    def _find_routine(self, branch: str) -> frozenset[str]:
        rows = self._database.query(
            "SELECT e.torch, e.driver, e.image FROM runs r JOIN environments e ON e.id = r.environment_id WHERE r.branch = ?",
            (branch,),
        )
        return find_routine(RunEnvironment(*row) for row in rows)

    def _write(self, group: Grouped, branch: str, routine: frozenset[str], size: int) -> bool:
        """Write a group; return whether its members differ from the ``size`` ones it had."""
        number = group.number
        if number is None:
            self._newest += 1
            number = self._newest
        joined = [each.id for each in group.changes if each.group != number]
        is_other = bool(joined) or size != len(group.changes)
        if number not in self._decided and is_other:
            self._write_name(number, group, branch, routine)
        self._database.execute_many(
            "UPDATE changes SET group_id = ? WHERE id = ?", [(number, change) for change in joined]
        )
        return is_other

    def _write_name(self, number: int, group: Grouped, branch: str, routine: frozenset[str]) -> None:
        name, cause = self._explain(group.changes, routine)
        if number not in self._known:
            columns = ("id", "name", "branch", "cause", "opened_at")
            self._database.insert("change_groups", columns, [(number, name, branch, cause.value, self._now)])
        elif self._known[number] != (name, cause.value):
            values = (name, cause.value, number)
            self._database.execute("UPDATE change_groups SET name = ?, cause = ? WHERE id = ?", values)

    def _explain(self, changes: Sequence[SeriesChange], routine: frozenset[str]) -> tuple[str, Cause]:
        """Return the name of a group and its cause."""
        name = name_group(changes, self._varying)
        found = find_environment_changes(changes, routine)
        if found:
            return f"{', '.join(map(str, found))}; {name}", Cause.ENVIRONMENT
        machine = find_shifted_machine(self._database, changes)
        if machine is None:
            return name, Cause.CODE
        return f"{f'all of {machine}' if machine else 'a whole machine'}; {name}", Cause.MACHINE

    def _remove_empty(self) -> tuple[int, ...]:
        """Remove groups without members that nobody decided about."""
        empty = tuple(
            sorted(number for (number,) in self._database.query(_EMPTY) if number not in self._decided)
        )
        for table, column in (("triage_events", "group_id"), ("change_groups", "id")):
            self._database.execute_many(
                f"DELETE FROM {table} WHERE {column} = ?", [(number,) for number in empty]
            )
        return empty

    def _note_newest(self, before: int) -> None:
        """Note the highest number, so that no group ever has the number of one that is gone."""
        if self._newest == before:
            return
        if self._is_noted:
            self._database.execute(
                "UPDATE store_info SET value = ? WHERE name = ?", (str(self._newest), _NEWEST)
            )
        else:
            self._database.insert("store_info", ("name", "value"), [(_NEWEST, str(self._newest))])
