"""How much memory a worker and its children hold, and whether the kernel has ended anyone for want of it (Linux)."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from torchstone.worker.process_tree import list_children

_SHARE_OF_TIME = 0.05
PROPORTIONAL = "proportional set size"
RESIDENT = (
    "resident set size, which counts shared pages once per process, because smaps_rollup cannot be read"
)


class HeldMemory(NamedTuple):
    """Bytes that processes hold together, and the measure that says so."""

    bytes: int
    measure: str


class MemoryWatch:
    """Watches a process and its descendants for holding more than a limit.

    A page shared by n processes counts 1/n in each of them (proportional set size), so that forks are not charged for memory that exists once. The
    kernel walks all page tables for that. So the resident sizes, which are cheap and never less, are added up first; only a sum beyond the limit makes
    us ask, and never for more than a twentieth of the time.
    """

    def __init__(self, pid: int, limit: int | None) -> None:
        self._pid = pid
        self._limit = limit
        self._next_look = 0.0

    def excess(self) -> str:
        """What to say about a limit that is exceeded; empty while it is not."""
        if not self._limit or time.monotonic() < self._next_look:
            return ""
        sizes = resident_sizes(self._pid)
        if sum(sizes.values()) <= self._limit:
            return ""
        began = time.monotonic()
        held = memory_held(sizes)
        now = time.monotonic()
        self._next_look = now + (now - began) / _SHARE_OF_TIME
        if held.bytes <= self._limit:
            return ""
        return f"used {held.bytes / 1e9:.2f} GB of memory ({held.measure}), more than the limit of {self._limit / 1e9:.2f} GB"


def resident_sizes(pid: int) -> dict[int, int]:
    """Resident and swapped bytes of a process and of each of its descendants; nothing where it cannot be read."""
    sizes: dict[int, int] = {}
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        size = _resident_bytes(each)
        if size is not None and each not in sizes:
            sizes[each] = size
            waiting += list_children(each)
    return sizes


def _resident_bytes(pid: int) -> int | None:
    try:
        fields = _fields_of(f"/proc/{pid}/status", ("VmRSS", "VmSwap"))
    except (OSError, ValueError, IndexError):
        return None
    return sum(fields)


def memory_held(resident: Mapping[int, int], root: str = "/proc") -> HeldMemory:
    """What processes hold together: proportional set sizes, swap included; the resident size of each that has none to read."""
    total, measure = 0, PROPORTIONAL
    for pid, size in resident.items():
        try:
            total += sum(_fields_of(f"{root}/{pid}/smaps_rollup", ("Pss", "SwapPss")))
        except ProcessLookupError:
            continue  # it has ended
        except (OSError, ValueError, IndexError):
            if size and os.path.exists(f"{root}/{pid}"):
                total, measure = total + size, RESIDENT
    return HeldMemory(total, measure)


def _fields_of(path: str, names: tuple[str, ...]) -> list[int]:
    """The bytes that these fields of a file of the kernel state; a field that is not there is left out."""
    found = []
    with open(path) as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in names:
                found.append(int(value.split()[0]) * 1024)
    return found


def count_kernel_kills() -> int:
    """How often the kernel has ended a process for want of memory since it started."""
    try:
        with open("/proc/vmstat") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        return 0
    return 0
