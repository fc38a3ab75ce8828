"""Where the time of a case went: the part of a worker's reply about one call of each side, under torch's profiler."""

from __future__ import annotations

from dataclasses import dataclass

from torchstone.worker.protocol.codec import Count, Seconds


@dataclass(frozen=True)
class KernelTimeFound:
    """A kernel, or on a CPU an operator, launched from one place; see ``core.details.time_profile.KernelTime``."""

    name: str
    family: str
    dtype: str
    count: Count
    milliseconds: Seconds
    operator: str = ""
    module: str = ""
    place: str = ""
    source: str = ""


@dataclass(frozen=True)
class SideTimeFound:
    """One call of one side; see ``core.details.time_profile.SideTime``."""

    wall: Seconds
    busy: Seconds
    launches: Count
    kernels: tuple[KernelTimeFound, ...] = ()
    folded: Count = 0
    timeline: tuple[tuple[int, Count, Count, Count], ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class TimeProfileFound:
    """Both sides of a case; see ``core.details.time_profile.TimeProfile``."""

    device: str
    device_name: str
    torch: str
    model_dtype: str
    eager: SideTimeFound | None
    compiled: SideTimeFound | None
    tf32: bool | None = None
    cuda_graphs: bool = False
