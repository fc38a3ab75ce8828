"""``series``: the history of metrics in a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, TypedDict

from msgspec import Struct

from torchstone.api.data_frames import make_frame
from torchstone.api.requests import Texts, make_request
from torchstone.api.showing import show_html, show_text
from torchstone.api.value_checks import check_count
from torchstone.core.config import find_store
from torchstone.core.errors import UsageError
from torchstone.core.text.units import format_value
from torchstone.reporting.views.names import Names
from torchstone.reporting.views.result_table import ResultTable, show_most
from torchstone.store.database.opening import connect
from torchstone.store.identity import find_day
from torchstone.store.queries import SeriesQuery, find_series
from torchstone.store.stored import Series, SeriesPoint

if TYPE_CHECKING:
    from typing import Unpack

    import pandas as pd


class SeriesRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which series of a store: cases and metrics by name, id or pattern; and which points: of a branch, ``since`` a day, or the ``last`` ones."""

    cases: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    branch: str = ""
    since: str = ""
    last: int | None = None
    store: str = ""
    config: str | None = None


class SeriesOptions(TypedDict, total=False):
    """Options of ``series``, explained in docs/history.md."""

    metrics: Texts
    machines: Texts
    branch: str
    since: str
    last: int
    store: str
    config: str | None


class SeriesResult(Struct, frozen=True):
    """Series of a store, each with its points in the order of revisions."""

    series: tuple[Series, ...]
    store: str

    def __len__(self) -> int:
        return len(self.series)

    def __iter__(self) -> Iterator[Series]:
        return iter(self.series)

    def __getitem__(self, index: int) -> Series:
        return self.series[index]

    def to_dicts(self) -> list[dict[str, object]]:
        """Return one dictionary for each point: what makes its series, its run and revision, and its value."""
        return [_record(series, point) for series in self.series for point in series.points]

    def to_frame(self) -> pd.DataFrame:
        """Return the same as a pandas ``DataFrame``. Requires pandas; ``to_dicts`` does not."""
        return make_frame(self.to_dicts())

    def __str__(self) -> str:
        return show_text(self._table())

    def _repr_html_(self) -> str:
        return show_html(self._table())

    def _table(self) -> ResultTable:
        names = Names([each.key.case for each in self.series])
        rows = [
            (
                names.of(each.key.case),
                each.key.metric,
                each.key.machine,
                str(len(each)),
                format_value(each.points[-1].value, each.metric.unit),
                each.points[-1].revision[:12],
            )
            for each in self.series
        ]
        shown, notes = show_most(rows)
        header = ("case", "metric", "machine", "points", "newest", "revision")
        return ResultTable(f"{self.store}: {len(rows):,} series", header, shown, notes)


def series(cases: Texts = (), **options: Unpack[SeriesOptions]) -> SeriesResult:
    """Return the history of metrics. The metric ``accuracy`` is the status of a case.

    torchstone.series("resnet*", metrics="speedup", branch="main").to_frame()
    """
    return find_all(make_request(SeriesRequest, {"cases": cases, **options}))


def find_all(request: SeriesRequest) -> SeriesResult:
    """Return the series as requested."""
    check_points(request.since, request.last)
    query = SeriesQuery(
        request.cases, request.metrics, request.machines, request.branch, request.since, request.last
    )
    with closing(connect(find_store(request.store, request.config))) as connection, connection.reading():
        return SeriesResult(tuple(find_series(connection, query)), connection.place)


def check_points(since: str, last: int | None) -> None:
    """Raise an error for a day or a number of points that cannot be meant."""
    if since and find_day(since) != since[:10]:
        raise UsageError(f"since={since}: expected a date such as 2026-12-31")
    check_count("last", last)


def _record(series: Series, point: SeriesPoint) -> dict[str, object]:
    key = series.key
    return {
        "case": key.case.id,
        "suite": key.case.suite,
        "benchmark": key.case.benchmark,
        "probe": key.case.probe,
        **key.case.variant.axes(),
        "metric": key.metric,
        "unit": series.metric.unit,
        "machine": key.machine,
        "counter": key.counter,
        "start": key.start,
        "cache": key.cache,
        "preset": key.preset,
        "revision": point.revision,
        "branch": point.branch,
        "position": point.position,
        "run": point.run,
        "attempt": point.attempt,
        "measured_at": point.measured_at,
        "recorded_at": point.recorded_at,
        "value": point.value,
        "samples": point.samples,
        "trials": point.trials,
        "spread": point.spread,
        "torch": point.torch,
    }
