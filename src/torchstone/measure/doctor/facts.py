"""Facts about a machine, for the diagnosis; None means unknown."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct, to_builtins

from torchstone.core.run_settings import JsonObject
from torchstone.worker.probes.counting.perf_events import CounterProblem

GIB = 1 << 30


class TorchFacts(Struct, frozen=True):
    """Result of importing torch: its version and the seconds it took, or the error."""

    version: str | None = None
    seconds: float = 0.0
    missing: bool = False
    error: str = ""


class Accelerator(Struct, frozen=True):
    """One device. ``usable``: torch sees it; ``processes``: other processes that use it; clocks are in MHz, memory in bytes.

    ``slowed`` are the reasons for throttling; ``clock_set``: the clock was set by a user.
    """

    index: int
    name: str
    usable: bool = True
    memory: int | None = None
    processes: tuple[str, ...] = ()
    persistence: bool | None = None
    clock_max: int | None = None
    clock_set: bool = False
    slowed: tuple[str, ...] = ()


class Noise(Struct, frozen=True):
    """Relative deviation of repeats of fixed work from their median: its median and its 95th percentile."""

    CALM: ClassVar[float] = 0.02
    WILD: ClassVar[float] = 0.10

    repeats: int
    median: float
    p95: float


class MachineFacts(Struct, frozen=True, kw_only=True):
    """Facts about a machine, in bytes, seconds and shares.

    ``cores`` may be used by this process; ``load`` is how many of them other processes used during the inspection, ``stolen`` the
    share of time that the hypervisor withheld. ``counters`` are those of the instructions probe, best first, each with why it
    cannot be used, if so; ``counter`` is the default one. ``turbo_switch`` is the file that turns turbo off.
    """

    system: str = "Linux"
    python: str = "python"
    torch: TorchFacts = TorchFacts()
    compiler: str | None = None
    compiler_error: str = ""
    cpu: str | None = None
    cores: float = 1
    quota: float | None = None
    throttled: int | None = None
    load: float | None = None
    busiest: tuple[str, ...] = ()
    stolen: float | None = None
    governor: str | None = None
    turbo: bool | None = None
    turbo_switch: str = ""
    smt: bool | None = None
    virtual_machine: str | None = None
    memory_left: int | None = None
    swap_used: int | None = None
    disk_folder: str = ""
    disk_left: int | None = None
    peak_can_be_reset: bool = False
    can_fork: bool = False
    counters: dict[str, CounterProblem | None] = {}
    counter: str = ""
    clock_step: float = 1e-9
    clock_source: str | None = None
    randomized: bool | None = None
    accelerators: tuple[Accelerator, ...] = ()
    noise: Noise | None = None

    def to_mapping(self) -> JsonObject:
        """Return the facts as JSON; a counter has the text of its problem, empty if it can be used."""
        found: JsonObject = to_builtins(self)
        counters = {name: str(problem or "") for name, problem in self.counters.items()}
        return found | {"counters": counters}
