"""The records of a store: the key of a series, its points, and the runs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from torchstone.core.records import Case
from torchstone.core.run_settings import Environment
from torchstone.core.vocabulary import Metric


class SeriesKey(Struct, frozen=True, gc=False, omit_defaults=True):
    """What makes a series: points with another value of any of these are another series.

    ``machine`` is the class of machines: the model of the accelerator for a case on one, else of the processor. ``counter``, ``start``, ``cache`` and
    ``definition`` say how the metric was measured, ``preset`` is the run's. Versions of torch, libraries, driver and image are annotations of a point, and no part of
    the key: what is measured every night is a nightly torch.
    """

    case: Case
    metric: str
    machine: str = ""
    counter: str = ""
    start: str = ""
    cache: str = ""
    preset: str = ""
    definition: str = ""


class SeriesPoint(Struct, frozen=True, gc=False):
    """One run in a series. ``value`` is the estimate over all samples, or the status; None if the case was planned, and has no outcome, or no finite value.

    ``spread`` is the standard deviation of the logarithms of the trials. ``position`` orders revisions; ``height`` is that in the history of git, if it is known.
    """

    run_id: int
    run: str
    revision: str
    commit: str
    branch: str
    position: int
    value: float | str | None
    samples: int = 0
    trials: int = 0
    spread: float | None = None
    attempt: int = 1
    measured_at: str | None = None
    recorded_at: str = ""
    torch: str = ""
    driver: str = ""
    image: str = ""
    environment: str = ""


class Series(Struct, frozen=True):
    """One metric of one case over revisions, on one class of machines. ``points`` are in the order of revisions; ``metric`` defines unit and direction."""

    id: int
    key: SeriesKey
    metric: Metric
    points: tuple[SeriesPoint, ...]

    @property
    def values(self) -> list[float | str | None]:
        """The values of all points."""
        return [point.value for point in self.points]

    def __len__(self) -> int:
        return len(self.points)


class StoredRun(Struct, frozen=True):
    """A run in the store, without its points. ``pinned`` is the reason why it is kept for ever; None if it is not pinned."""

    id: int
    digest: str
    name: str
    revision: str
    commit: str
    branch: str
    position: int
    attempt: int
    finished: bool
    measured_at: str | None
    recorded_at: str
    source: str
    format: str
    outcomes: int
    points: int
    pinned: str | None
    torch: str


def machine_of(environment: Environment, case: Case, stated: str = "") -> str:
    """Return the class of machines that a case was measured on: as stated, else the model of its device; empty if nothing is known.

    >>> machine_of(Environment(machine={"cpu": {"model": "EPYC"}}, accelerators=({"name": "H200"},)), Case("a", "performance"))
    'EPYC'
    """
    if stated:
        return stated
    device = case.variant.device.partition(":")[0]
    if device not in {"", "cpu"} or not _processor(environment):
        names = _names(environment.accelerators or ())
        if names:
            return names
    return _processor(environment)


def _processor(environment: Environment) -> str:
    cpu = environment.machine.get("cpu")
    model = cpu.get("model") if isinstance(cpu, dict) else None
    architecture = environment.machine.get("architecture")
    return str(model or architecture or "")


def _names(accelerators: Sequence[dict[str, object]]) -> str:
    return ", ".join(sorted({str(each["name"]) for each in accelerators if each.get("name")}))
