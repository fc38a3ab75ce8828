"""The page of machines: what is measured on each class, and how noisy it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

from torchstone.core.text.units import format_share
from torchstone.reporting.views.history.page_filters import FilterBar, PageFilters
from torchstone.store.browsing.machine_list import MachineUse
from torchstone.store.browsing.measured_values import MeasuredValue
from torchstone.store.stored import StoredRun

_MOST_METRICS = 6
_NOISY = 0.05


class MetricNoise(Struct, frozen=True):
    """The usual noise of a metric on a machine: the median, over series, of the spread between trials; and the noisiest series."""

    metric: str
    series: int
    usual: float
    worst: float
    worst_case_id: int
    text: str
    worst_text: str
    is_noisy: bool


class MachineLine(Struct, frozen=True):
    """A class of machines, with the newest run on it and the noise of its metrics; no noise if no metric has several trials."""

    name: str
    cases: int
    series: int
    newest_run_id: int
    newest_run: str
    when: str
    noise: tuple[MetricNoise, ...]


class MachinesView(Struct, frozen=True):
    """The page of machines."""

    filters: PageFilters
    bar: FilterBar
    rows: tuple[MachineLine, ...]
    title: str = "Machines"


def make_machines_view(
    filters: PageFilters,
    bar: FilterBar,
    machines: Sequence[MachineUse],
    runs: Mapping[int, StoredRun],
    values: Iterable[MeasuredValue],
) -> MachinesView:
    """Return the page for these machines."""
    by_machine: dict[str, dict[str, list[MeasuredValue]]] = {}
    for each in values:
        if each.spread is not None:
            by_machine.setdefault(each.machine, {}).setdefault(each.metric, []).append(each)
    rows = []
    for machine in machines:
        run = runs[machine.newest_run_id]
        noise = [_noise(metric, found) for metric, found in by_machine.get(machine.name, {}).items()]
        noise.sort(key=lambda each: (-each.series, each.metric))
        when = run.measured_at or run.recorded_at
        line = MachineLine(
            machine.name, machine.cases, machine.series, run.id, run.name, when, tuple(noise[:_MOST_METRICS])
        )
        rows.append(line)
    return MachinesView(filters, bar, tuple(rows))


def _noise(metric: str, values: Sequence[MeasuredValue]) -> MetricNoise:
    spreads = [each.spread or 0.0 for each in values]
    usual, worst = median(spreads), max(values, key=lambda each: each.spread or 0.0)
    most = worst.spread or 0.0
    return MetricNoise(
        metric,
        len(values),
        usual,
        most,
        worst.case_id,
        format_share(usual),
        format_share(most),
        usual > _NOISY,
    )
