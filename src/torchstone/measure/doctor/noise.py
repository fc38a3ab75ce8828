"""Measure the noise of a machine: time fixed work repeatedly, and record what else runs."""

from __future__ import annotations

import os
import statistics
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torchstone.core.errors import printable
from torchstone.measure.doctor.facts import Noise
from torchstone.worker.machine.hardware import ROOT, read

_ROUNDS = 80_000  # a few milliseconds, like a step of a small model
_DATA = bytes(range(256)) * 1024  # fits the second-level cache, not the first
_BUSY = (
    0,
    1,
    2,
    5,
    6,
)  # fields of /proc/stat that are work: user, nice, system, and both kinds of interrupts
_STOLEN = 7


def measure_noise(seconds: float, clock: Callable[[], float] = time.perf_counter) -> Noise:
    """Time a block of fixed work, partly in Python and partly in C, repeatedly for this many seconds."""
    for _ in range(5):
        _work()
    blocks: list[float] = []
    end = clock() + seconds
    while clock() < end or len(blocks) < 3:
        start = clock()
        _work()
        blocks.append(clock() - start)
    return summarize(blocks)


def _work() -> int:
    total = sum(zlib.crc32(_DATA, start) for start in range(8))
    for number in range(_ROUNDS):
        total ^= number * number
    return total


def summarize(blocks: list[float]) -> Noise:
    """Return the deviation of block times from their median.

    >>> summarize([1.0, 1.0, 1.1, 1.0, 0.9])
    Noise(repeats=5, median=0.0, p95=0.1)
    """
    middle = statistics.median(blocks)
    away = sorted(round(abs(block / middle - 1), 6) for block in blocks)
    return Noise(len(blocks), statistics.median(away), away[min(int(0.95 * len(away)), len(away) - 1)])


class Load(NamedTuple):
    """Other activity: cores used by others, the busiest processes, and the share of time the hypervisor withheld."""

    others: float | None
    busiest: tuple[str, ...]
    stolen: float | None


class Ticks(NamedTuple):
    """The counters of ``/proc`` at one moment, in clock ticks; processes by id, with their names."""

    seconds: float
    busy: int
    stolen: int
    every: int
    processes: dict[int, tuple[str, int]]


def read_ticks(root: Path = ROOT, clock: Callable[[], float] = time.monotonic) -> Ticks | None:
    """Read the counters; None if there are none."""
    fields = read(root / "proc/stat").partition("\n")[0].split()[1:]
    if len(fields) <= _STOLEN or not all(field.isdecimal() for field in fields):
        return None
    counts = [int(field) for field in fields[: _STOLEN + 1]]
    return Ticks(
        clock(), sum(counts[n] for n in _BUSY), counts[_STOLEN], sum(counts), _processes(root / "proc")
    )


def _processes(folder: Path) -> dict[int, tuple[str, int]]:
    """Return name and ticks of every visible process."""
    found = {}
    for pid in (int(name) for name in os.listdir(folder) if name.isdecimal()):
        head, _, rest = read(folder / str(pid) / "stat").rpartition(")")
        fields = rest.split()
        if len(fields) > 12:
            found[pid] = (head.partition("(")[2], int(fields[11]) + int(fields[12]))
    return found


def compare_ticks(before: Ticks | None, after: Ticks | None, own: int, per_second: int) -> Load:
    """Return the activity between two moments, without the process ``own``."""
    if before is None or after is None or after.seconds <= before.seconds:
        return Load(None, (), None)
    ticks = (after.seconds - before.seconds) * per_second
    used = {pid: now - before.processes.get(pid, ("", 0))[1] for pid, (_, now) in after.processes.items()}
    others = max(0.0, (after.busy - before.busy - used.get(own, 0)) / ticks)
    most = sorted(
        (pid for pid in used if pid != own and used[pid] >= 0.05 * ticks), key=lambda pid: -used[pid]
    )
    every = after.every - before.every
    return Load(
        others,
        tuple(f"{printable(after.processes[pid][0])} (process {pid})" for pid in most),
        (after.stolen - before.stolen) / every if every else None,
    )


def measure_noise_and_load(seconds: float) -> tuple[Noise, Load]:
    """Measure the noise, and the load from other processes meanwhile."""
    before = read_ticks()
    noise = measure_noise(seconds)
    after = read_ticks()
    per_second = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    return noise, compare_ticks(before, after, os.getpid(), per_second)


def clock_step() -> float:
    """Return the shortest step of the clock, in seconds."""
    steps = []
    for _ in range(100):
        start = now = time.perf_counter()
        while now == start:
            now = time.perf_counter()
        steps.append(now - start)
    return min(steps)
