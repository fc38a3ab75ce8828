"""Write changes: a change that moved keeps its id, one that is gone is removed unless somebody has decided about it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from torchstone.analyze.changepoints import Kind
from torchstone.history.close_look import Look, Place
from torchstone.history.run_order import RunOrder
from torchstone.store.database.connection import Database, Value

COLUMNS = (
    "last_old_run_id",
    "first_new_run_id",
    "earliest",
    "latest",
    "direction",
    "old_status",
    "new_status",
    "before",
    "after",
    "certainty",
    "is_provisional",
    "vanished_at",
)
"""The columns of a change that may move."""
MOST_MOVED = 30
"""A change that is found so many points away is the same change, if it goes the same way."""
_NEWEST_ID = "newest_change"
_Row = tuple[Value, ...]


class ChangesUpdate(Struct, frozen=True):
    """What bringing changes up to date did: series with new points, and the ids of changes by what became of them."""

    looked_at: int = 0
    found: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()
    vanished: tuple[int, ...] = ()


class _Known(Struct, frozen=True):
    """A change as the store has it."""

    id: int
    group: int | None
    row: _Row

    @property
    def is_vanished(self) -> bool:
        return self.row[-1] is not None


class ChangeWriter:
    """Writes the changes of one transaction."""

    def __init__(self, database: Database, order: RunOrder) -> None:
        self._database = database
        self._order = order
        self._now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._names: dict[int, str] = dict(database.query("SELECT id, name FROM statuses"))
        self._decided = {
            group
            for (group,) in database.query(
                "SELECT DISTINCT group_id FROM triage_events WHERE is_automatic = 0"
            )
        }
        noted = database.query("SELECT value FROM store_info WHERE name = ?", (_NEWEST_ID,))
        ((highest,),) = database.query("SELECT max(id) FROM changes")
        self._is_noted = bool(noted)
        self._newest = max(int(noted[0][0]) if noted else 0, highest or 0)
        self._first = self._newest
        self.found: list[int] = []
        self.moved: list[int] = []
        self.vanished: list[int] = []
        self._new: list[tuple[Value, ...]] = []
        self._changed: list[tuple[Value, ...]] = []
        self._gone: list[int] = []
        self._marked: list[int] = []

    def write_changes(self, looks: Sequence[Look]) -> None:
        """Collect what has to be written for these series."""
        known = self._read(look.loaded.detection.id for look in looks if look.loaded.detection.id)
        for look in looks:
            self._compare(look, known.get(look.loaded.detection.id, []))

    def _read(self, detections: object) -> dict[int, list[_Known]]:
        ids = sorted(detections)  # type: ignore[call-overload]
        found: dict[int, list[_Known]] = {}
        if ids:
            marks = ", ".join("?" * len(ids))
            rows = self._database.query(
                f"SELECT detection_id, id, group_id, {', '.join(COLUMNS)} FROM changes WHERE detection_id IN ({marks}) ORDER BY id",
                ids,
            )
            for detection, number, group, *row in rows:
                found.setdefault(detection, []).append(_Known(number, group, tuple(row)))
        return found

    def _compare(self, look: Look, known: Sequence[_Known]) -> None:
        detection = look.loaded.detection
        ranks = look.loaded.ranks
        is_whole = detection.looked.decided.needed_from == 0
        near = [each for each in known if is_whole or self._order.rank_of(_int(each.row[1])) >= ranks[0]]
        at = [bisect_left(ranks, self._order.rank_of(_int(each.row[1]))) for each in near]
        pairs = match(look.places, [(index, str(each.row[4])) for index, each in zip(at, near, strict=True)])
        for number, place in enumerate(look.places):
            row = self._row(place, detection.watched.kind)
            if number not in pairs:
                self._newest += 1
                self.found.append(self._newest)
                self._new.append((self._newest, detection.id, None, *row, self._now))
                continue
            before = near[pairs[number]]
            if before.row != row:
                self._changed.append((*row, before.id))
                if before.row[:2] != row[:2]:
                    self.moved.append(before.id)
        for number, each in enumerate(near):
            if number not in pairs.values() and not each.is_vanished:
                self.vanished.append(each.id)
                (self._marked if each.group in self._decided else self._gone).append(each.id)

    def _row(self, place: Place, kind: Kind) -> _Row:
        change = place.change
        is_status = kind is Kind.STATUS
        return (
            place.last_old,
            place.first_new,
            place.earliest,
            place.latest,
            place.direction.value,
            self._names.get(int(change.before), "") if is_status else None,
            self._names.get(int(change.after), "") if is_status else None,
            None if is_status else change.before,
            None if is_status else change.after,
            change.certainty,
            int(change.provisional),
            None,
        )

    def write(self) -> None:
        """Write what was collected."""
        database = self._database
        if self._new:
            columns = ("id", "detection_id", "group_id", *COLUMNS, "detected_at")
            database.insert("changes", columns, self._new)
        if self._changed:
            sets = ", ".join(f"{column} = ?" for column in COLUMNS)
            database.execute_many(f"UPDATE changes SET {sets} WHERE id = ?", self._changed)
        if self._gone:
            database.execute_many("DELETE FROM changes WHERE id = ?", [(each,) for each in self._gone])
        if self._marked:
            rows = [(self._now, each) for each in self._marked]
            database.execute_many("UPDATE changes SET vanished_at = ? WHERE id = ?", rows)
        if self._newest > self._first:
            if self._is_noted:
                database.execute(
                    "UPDATE store_info SET value = ? WHERE name = ?", (str(self._newest), _NEWEST_ID)
                )
            else:
                database.insert("store_info", ("name", "value"), [(_NEWEST_ID, str(self._newest))])


def match(places: Sequence[Place], known: Sequence[tuple[int, str]]) -> dict[int, int]:
    """Return which place is which known change, given its index and direction: the nearest first, each only once."""
    distances = sorted(
        (abs(place.index - index), number, other)
        for number, place in enumerate(places)
        for other, (index, way) in enumerate(known)
        if index is not None
        and (
            place.index == index or (way == place.direction.value and abs(place.index - index) <= MOST_MOVED)
        )
    )
    found: dict[int, int] = {}
    taken: set[int] = set()
    for _, number, other in distances:
        if number not in found and other not in taken:
            found[number] = other
            taken.add(other)
    return found


def _int(value: Value) -> int:
    return int(value or 0)
