"""The facts that a diagnosis is made from: frozen records, with None for what is not known."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from torchstone.worker.probes.counting.perf_events import CounterProblem

GIB = 1 << 30


class TorchFacts(Struct, frozen=True):
    """Whether torch can be imported: its version and the seconds that took, or what went wrong."""

    version: str | None = None
    seconds: float = 0.0
    missing: bool = False
    error: str = ""


class Accelerator(Struct, frozen=True):
    """One device. ``usable`` says that torch sees it; ``processes`` are other ones on it; clocks are in MHz, memory in bytes.

    ``slowed`` are the reasons for which it runs below its clock; ``clock_set`` says that somebody has set the clock.
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
    """How far repeats of fixed work lie from their median, as a share of it: half of them, and 95 % of them."""

    CALM: ClassVar[float] = 0.02
    WILD: ClassVar[float] = 0.10

    repeats: int
    median: float
    p95: float


class MachineFacts(Struct, frozen=True, kw_only=True):
    """A machine as a diagnosis sees it. Bytes, seconds and shares are plain numbers.

    ``cores`` are those that may be used; ``load`` is how many of them other work used while we looked, ``stolen`` the share of time that the
    hypervisor withheld. ``counters`` are those of the instructions probe, the best first, each with why it cannot be used, or nothing if it can;
    ``counter`` is the one that is taken unless another is asked for. ``turbo_switch`` is the file that turns turbo off.
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
