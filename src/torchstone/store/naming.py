"""Look up the names in a store and their ids, and add new ones.

Names are of machines, statuses, metrics, cases and series.
"""

from __future__ import annotations

import msgspec

from torchstone.core.records import Case, Measurement, find_metric
from torchstone.store.database.connection import Database, Value
from torchstone.store.identity import method_of, renamed

_Key = tuple[Value, ...]
SERIES_KEY = (
    "case_id",
    "metric_id",
    "machine_id",
    "counter",
    "start_method",
    "cache",
    "preset",
    "definition",
)


_PLAIN = ("", "", "", "")
"""The method of a measurement without details."""


class NameTable:
    """The ids of the rows of one table, by their unique columns; new rows are collected until they are written."""

    def __init__(
        self, connection: Database, table: str, unique: tuple[str, ...], others: tuple[str, ...] = ()
    ) -> None:
        self._connection = connection
        self._table = table
        self._columns = ("id", *unique, *others)
        rows = connection.query(f"SELECT id, {', '.join(unique)} FROM {table}")
        self.ids: dict[_Key, int] = {tuple(key): int(number or 0) for number, *key in rows}
        self._next = max(self.ids.values(), default=0) + 1
        self._new: list[tuple[Value, ...]] = []

    def id_of(self, key: _Key, *others: Value) -> int:
        """Return the id of a row; add it if it is new."""
        found = self.ids.get(key)
        if found is None:
            found = self.ids[key] = self._next
            self._next += 1
            self._new.append((found, *key, *others))
        return found

    def write(self) -> None:
        """Insert the new rows."""
        if self._new:
            self._connection.insert(self._table, self._columns, self._new)
            self._new = []


class StoredNames:
    """All names that the rows of a run refer to. Valid within one writing transaction."""

    def __init__(self, connection: Database) -> None:
        self.machines = NameTable(connection, "machines", ("name",))
        self.statuses = NameTable(connection, "statuses", ("name",))
        self.metrics = NameTable(connection, "metrics", ("name", "unit", "better"))
        columns = (
            "suite",
            "benchmark",
            "probe",
            "device",
            "backend",
            "mode",
            "dtype",
            "dynamic",
            "batch_size",
            "record",
        )
        self.cases = NameTable(connection, "cases", ("name",), columns)
        self.series = NameTable(connection, "series", SERIES_KEY, ("latest_run_id",))
        self._case_ids: dict[Case, int] = {}
        self._metric_ids: dict[tuple[str, str, str], int] = {}
        rows = connection.query("SELECT suite, old, new FROM renames")
        self._renames = {(str(suite), str(old)): str(new) for suite, old, new in rows}

    def case(self, case: Case) -> int:
        """Return the id of a case, under the name that its benchmark has now."""
        found = self._case_ids.get(case)
        if found is None:
            new = self._renames.get((case.suite, case.benchmark))
            kept = renamed(case, new) if new else case
            found = self._case_ids[case] = self.cases.id_of((kept.id,), *case_columns(kept))
        return found

    def machine(self, name: str) -> int:
        """Return the id of a class of machines."""
        return self.machines.id_of((name,))

    def status(self, status: str) -> int:
        """Return the id of a status."""
        return self.statuses.id_of((status,))

    def series_of(
        self, case_id: int, measured: Measurement, machine_id: int, preset: str, run_id: int
    ) -> int:
        """Return the id of the series of a measurement."""
        details = measured.details
        stated = (measured.metric, details.unit if details else "", details.better if details else "")
        metric_id = self._metric_ids.get(stated)
        if metric_id is None:
            known = find_metric(measured.metric, measured)
            unit, better = (known.unit, known.better) if known else ("", "")
            metric_id = self._metric_ids[stated] = self.metrics.id_of((measured.metric, unit, better))
        counter, start, cache, definition = method_of(measured) if details else _PLAIN
        return self.series.id_of(
            (case_id, metric_id, machine_id, counter, start, cache, preset, definition), run_id
        )

    def write(self) -> None:
        """Insert all that is new, except series, which refer to runs."""
        for table in (self.machines, self.statuses, self.metrics, self.cases):
            table.write()


def case_columns(case: Case) -> tuple[Value, ...]:
    """Return the columns of a case beside its id and name."""
    variant = case.variant
    dynamic = None if variant.dynamic is None else int(variant.dynamic)
    axes = (variant.device, variant.backend, variant.mode, variant.dtype, dynamic, variant.batch_size)
    return case.suite, case.benchmark, case.probe, *axes, msgspec.json.encode(case).decode()
