"""Look at a series: first whether its new points are remarkable at all, then closely, with the detector that fits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct, structs

from torchstone.analyze.changepoints import ChangePoint, Decided, Kind, update_many
from torchstone.analyze.changepoints.change_point import FRESH
from torchstone.analyze.changepoints.location import describe_level, find_places
from torchstone.history.change_records import Direction
from torchstone.history.run_order import RunOrder
from torchstone.history.series_values import Loaded, Value
from torchstone.history.watched_series import Detection, Looked

SHORT = 128
"""A series with fewer points to look at is always looked at closely."""
SETTLED = 2 * FRESH + 1
"""So many points of one level make it quiet."""
EVERY = 8
"""A quiet series is looked at closely at least once in so many points."""
YOUNG = 20
"""With fewer points of varying numbers, nobody knows their noise: provisional changes are none yet."""
REMARKABLE = 2.5
"""A deviation of so many times the noise is remarkable, of one point or of the mean of several."""
_OF_LEVEL = 100


class Place(Struct, frozen=True):
    """A change in a series of runs: the runs on both sides, the positions between which its cause lies, and what changed."""

    index: int
    last_old: int
    first_new: int
    earliest: int
    latest: int
    direction: Direction
    change: ChangePoint


class Look(Struct, frozen=True):
    """What a close look found: all changes among the points that were looked at, and what to keep of the series."""

    loaded: Loaded
    places: tuple[Place, ...]
    looked: Looked

    def of(self, detection: Detection) -> Look:
        """Return the same of a series that has its row in the store now."""
        return structs.replace(self, loaded=structs.replace(self.loaded, detection=detection))


def is_unremarkable(detection: Detection, values: Sequence[Value]) -> Looked | None:
    """Return what to keep of a quiet series after new points that no close look is needed for; None if one is."""
    looked = detection.looked
    if not looked.is_quiet or detection.watched.kind is Kind.PASS_RATE:
        return None
    drift, pending = looked.drift, looked.pending
    for number, value in enumerate(values, start=detection.points + 1):
        deviation = _deviation(looked, value)
        drift, pending = drift + deviation, pending + 1
        is_turn = (number + detection.id) % EVERY == 0 and not looked.is_constant
        if is_turn or abs(deviation) > REMARKABLE or abs(drift) > REMARKABLE * math.sqrt(pending):
            return None
    return structs.replace(looked, drift=drift, pending=pending)


def _deviation(looked: Looked, value: Value) -> float:
    """Return how far a value is from the level, in units of the noise."""
    if isinstance(value, tuple) or (looked.is_log and value <= 0):
        return math.inf
    moved = (math.log(value) if looked.is_log else value) - looked.level
    if looked.noise <= 0:
        return 0.0 if abs(moved) <= 1e-12 * max(1.0, abs(looked.level)) else math.inf
    return moved / looked.noise


def look(some: Sequence[Loaded], order: RunOrder, statuses: dict[int, bool]) -> list[Look]:
    """Look closely at series of one kind. ``statuses`` says which status, by its id, is a pass."""
    if not some:
        return []
    kind = some[0].detection.watched.kind
    tasks = [(each.detection.looked.decided, each.values) for each in some]
    found = []
    for each, update in zip(some, update_many(tasks, kind=kind), strict=True):
        offset = each.detection.looked.decided.needed_from
        is_young = kind is Kind.NUMBER and offset + len(each.values) < YOUNG
        changes = [
            structs.replace(change, index=change.index - offset)
            for change in update.changes
            if change.index >= offset and not (is_young and change.provisional)
        ]
        places = _places(each, changes, order, statuses)
        found.append(Look(each, tuple(places), _keep(each, update.decided, changes)))
    return found


def _places(
    loaded: Loaded, changes: Sequence[ChangePoint], order: RunOrder, statuses: dict[int, bool]
) -> list[Place]:
    watched, runs = loaded.detection.watched, loaded.runs
    numbers = _as_numbers(loaded.values)
    found = []
    for number, change in enumerate(changes):
        start = changes[number - 1].index if number else 0
        stop = changes[number + 1].index if number + 1 < len(changes) else len(runs)
        low, high = change.index, change.index
        if watched.kind is not Kind.STATUS:
            low, high = find_places(numbers, change, start, stop)
        new = runs[change.index]
        old = _before(runs, change.index, order)
        earliest = min(order.places[runs[max(low - 1, 0)]].position, order.places[old].position)
        latest = max(order.places[runs[high]].position, order.places[new].position)
        way = _status_way(change, statuses) if watched.kind is Kind.STATUS else _way(change, watched.better)
        found.append(Place(change.index, old, new, earliest, latest, way, change))
    return found


def _as_numbers(values: Sequence[Value]) -> Sequence[float]:
    """Return pass rates as shares, everything else as it is."""
    if not values or not isinstance(values[0], tuple):
        return values  # type: ignore[return-value]  # all are alike
    return [each[0] / each[1] if isinstance(each, tuple) else each for each in values]


def _before(runs: Sequence[int], index: int, order: RunOrder) -> int:
    """Return the last run before a change that is of another revision: trials of one revision have the same code."""
    revision = order.places[runs[index]].revision
    for run_id in reversed(runs[:index]):
        if order.places[run_id].revision != revision:
            return run_id
    return runs[index - 1]


def _way(change: ChangePoint, better: str) -> Direction:
    """Return the direction of a change of numbers; one of a number that must not change is for the worse."""
    if better == "equal":
        return Direction.REGRESSION
    rises = change.after > change.before
    return Direction.IMPROVEMENT if rises == (better == "higher") else Direction.REGRESSION


def _status_way(change: ChangePoint, statuses: dict[int, bool]) -> Direction:
    before, after = (statuses.get(int(each), False) for each in (change.before, change.after))
    if before == after:
        return Direction.NEUTRAL
    return Direction.IMPROVEMENT if after else Direction.REGRESSION


def _keep(loaded: Loaded, decided: Decided, changes: Sequence[ChangePoint]) -> Looked:
    """Return what to keep of a series after a close look."""
    numbers = _as_numbers(loaded.values)
    first = decided.needed_from - loaded.detection.looked.decided.needed_from
    first_run = (
        loaded.runs[first]
        if decided.needed_from and first < len(loaded.runs)
        else loaded.detection.looked.first_run
    )
    newest = numbers[changes[-1].index if changes else 0 :][-_OF_LEVEL:]
    is_fresh = len(newest) < SETTLED or any(change.provisional for change in changes)
    if is_fresh or (len(set(newest[-SETTLED:])) > 1 and len(numbers) < SHORT):
        return Looked(decided, first_run)
    level, noise, is_log = describe_level(newest)
    is_constant = len(set(numbers)) == 1
    return Looked(decided, first_run, level, noise, is_log, is_quiet=True, is_constant=is_constant)
