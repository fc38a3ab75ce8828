"""The order of revisions: that of git's history where it is known, else that of recording.

Every revision has a position. Within one history, positions follow the heights of commits: an ancestor has a lower height than its
descendants (``measure/code/ancestry.py``). A revision that the repository does not know stands behind all that were recorded before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from torchstone.store.database.connection import Database


class Placed(Struct, frozen=True):
    """A revision in the store. ``height`` is None if its place in a history of git is unknown."""

    name: str
    commit: str
    height: int | None
    position: int


class History(Struct, frozen=True):
    """What a repository knows of revisions: the heights of its commits; and whether there is a repository at all."""

    heights: Mapping[str, int] = {}
    is_there: bool = False


NO_HISTORY = History()


def read_order(connection: Database) -> list[Placed]:
    """Return all revisions in the order in which they were recorded."""
    rows = connection.query("SELECT name, commit_hash, height, position FROM revisions ORDER BY id")
    return [
        Placed(str(name), str(commit), None if height is None else int(height), int(position or 0))
        for name, commit, height, position in rows
    ]


class Places:
    """The places of all revisions of a store, to which new ones are added in the order of recording.

    >>> places = Places([], History({"a": 1, "b": 2, "c": 3}, is_there=True))
    >>> [places.add(name, name).position for name in ("c", "a", "unknown", "b")]
    [3, 1, 4, 2]
    """

    def __init__(self, known: Sequence[Placed], history: History) -> None:
        self._history = history
        self._last = max((each.position for each in known), default=0)
        self._shift = _shift(known, history)
        self._in_git = any(each.height is not None for each in known)

    def add(self, name: str, commit: str) -> Placed:
        """Return the place of a new revision."""
        height = self._history.heights.get(commit)
        if height is None:
            position = self._last + 1
        else:
            if self._shift is None:  # the first commit of another history stands behind all others
                self._shift = self._last + 1 - height if self._in_git else self._last
            self._in_git = True
            position = height + self._shift
        self._last = max(self._last, position)
        return Placed(name, commit, height, position)


def is_another_history(known: Sequence[Placed], history: History) -> bool:
    """Return whether the repository knows none of the commits that the store has a height of: it is another one, or was rewritten."""
    in_git = any(each.height is not None for each in known)
    return in_git and history.is_there and _shift(known, history) is None


def _shift(known: Sequence[Placed], history: History) -> int | None:
    """Return what is added to heights: as for the newest revision of the same history; None if there is none."""
    for each in reversed(known):
        if each.height is not None and each.commit in history.heights:
            return each.position - each.height
    return None
