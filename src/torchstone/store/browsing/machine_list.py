"""Read the classes of machines of a store: what was measured on each, and when last."""

from __future__ import annotations

from msgspec import Struct

from torchstone.store.database.connection import Database


class MachineUse(Struct, frozen=True):
    """A class of machines: how many series and cases it has, and the newest run on it."""

    name: str
    series: int
    cases: int
    newest_run_id: int


def read_machines(database: Database) -> list[MachineUse]:
    """Return the classes of machines that have series, most series first."""
    rows = database.query(
        "SELECT a.name, count(*), count(DISTINCT s.case_id), max(s.latest_run_id) FROM series s"
        " JOIN machines a ON a.id = s.machine_id GROUP BY a.name ORDER BY count(*) DESC, a.name"
    )
    return [MachineUse(*row) for row in rows]
