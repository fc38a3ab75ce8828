"""Find the raw data around changes, which pruning keeps: somebody will want to know what the change was made of."""

from __future__ import annotations

from msgspec import Struct

from torchstone.store.database.connection import Database

AROUND = 20
"""Points on each side of a change that keep their raw data."""


class AroundChanges(Struct, frozen=True):
    """What is kept: runs by the series whose samples are kept, and the runs whose details are, for changes of a status."""

    samples: dict[int, frozenset[int]]
    details: frozenset[int]

    @property
    def runs(self) -> frozenset[int]:
        """All runs of which something is kept."""
        return self.details.union(*self.samples.values())


def find_around_changes(connection: Database) -> AroundChanges:
    """Return what lies within some points of a change, in its series and on its branch."""
    order = {
        run_id: (place, branch)
        for place, (run_id, branch) in enumerate(
            connection.query(
                "SELECT r.id, r.branch FROM runs r JOIN revisions v ON v.id = r.revision_id ORDER BY v.position, v.id, r.id"
            )
        )
    }
    changes: dict[tuple[int | None, int, int, str], list[int]] = {}
    for series_id, case_id, machine_id, branch, first_new in connection.query(
        "SELECT d.series_id, d.case_id, d.machine_id, d.branch, x.first_new_run_id FROM changes x"
        " JOIN detections d ON d.id = x.detection_id"
    ):
        changes.setdefault((series_id, case_id, machine_id, branch), []).append(first_new)
    samples: dict[int, set[int]] = {}
    details: set[int] = set()
    for (series_id, case_id, machine_id, branch), first_new_runs in changes.items():
        if series_id is None:
            rows = connection.query(
                "SELECT run_id FROM outcomes WHERE case_id = ? AND machine_id = ? AND status_id IS NOT NULL",
                (case_id, machine_id),
            )
        else:
            rows = connection.query("SELECT run_id FROM points WHERE series_id = ?", (series_id,))
        runs = sorted((order[run_id][0], run_id) for (run_id,) in rows if order[run_id][1] == branch)
        kept = details if series_id is None else samples.setdefault(series_id, set())
        for each in first_new_runs:
            at = sum(place < order[each][0] for place, _ in runs)
            kept.update(run_id for _, run_id in runs[max(0, at - AROUND) : at + AROUND])
    return AroundChanges({series: frozenset(runs) for series, runs in samples.items()}, frozenset(details))
