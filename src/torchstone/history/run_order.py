"""The order of all runs of a store, by branch: what the points of its series are sorted by."""

from __future__ import annotations

from msgspec import Struct

from torchstone.store.database.connection import Database


class RunPlace(Struct, frozen=True):
    """The place of a run: ``rank`` in the order of all runs, and its revision with the position of that."""

    rank: int
    branch: str
    revision: int
    position: int


class RunOrder:
    """The places of all runs."""

    def __init__(self, database: Database) -> None:
        rows = database.query(
            "SELECT r.id, r.branch, v.id, v.position FROM runs r JOIN revisions v ON v.id = r.revision_id"
            " ORDER BY v.position, v.id, r.id"
        )
        self.places = {
            run_id: RunPlace(rank, branch, revision, position)
            for rank, (run_id, branch, revision, position) in enumerate(rows)
        }
        self._least: dict[int, int] = {}
        least: dict[str, int] = {}
        for run_id, branch, *_ in reversed(rows):
            self._least[run_id] = least[branch] = min(run_id, least.get(branch, run_id))
        self._least_of_branch = least
        self.newest_id = max(self.places, default=0)
        self.has_branches = len(least) > 1

    def rank_of(self, run_id: int | None) -> int:
        """Return the rank of a run; -1 for none."""
        place = self.places.get(run_id) if run_id is not None else None
        return -1 if place is None else place.rank

    def least_id(self, branch: str, first_run: int | None) -> int:
        """Return the least id of the runs of a branch, of those from ``first_run`` on in the order."""
        if first_run is not None and first_run in self._least:
            return self._least[first_run]
        return self._least_of_branch.get(branch, 0)
