"""Measure the memory of a worker and its children, and count processes that the kernel killed for lack of memory (Linux)."""

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
    """The memory of several processes together in bytes, and how it was measured."""

    bytes: int
    measure: str


class MemoryWatch:
    """Checks whether a process and its descendants use more memory than a limit.

    A page shared by n processes counts 1/n in each (proportional set size), so that forks are not charged for shared memory. The
    kernel walks all page tables for that, so the resident sizes, which are cheap to read and never smaller, are added up first;
    the proportional ones are read only if that sum exceeds the limit, and for at most a twentieth of the time.
    """

    def __init__(self, pid: int, limit: int | None) -> None:
        self._pid = pid
        self._limit = limit
        self._next_look = 0.0

    def excess(self) -> str:
        """Return a message if the limit is exceeded, else an empty string."""
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
    """Return resident and swapped bytes of a process and each of its descendants, as far as they can be read."""
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
    """Add up proportional set sizes, including swap; use the resident size of a process if that cannot be read."""
    total, measure = 0, PROPORTIONAL
    for pid, size in resident.items():
        try:
            total += sum(_fields_of(f"{root}/{pid}/smaps_rollup", ("Pss", "SwapPss")))
        except ProcessLookupError:
            continue  # it has exited
        except (OSError, ValueError, IndexError):
            if size and os.path.exists(f"{root}/{pid}"):
                total, measure = total + size, RESIDENT
    return HeldMemory(total, measure)


def _fields_of(path: str, names: tuple[str, ...]) -> list[int]:
    """Return the bytes in these fields of a kernel file; missing fields are left out."""
    found = []
    with open(path) as file:
        for line in file:
            name, _, value = line.partition(":")
            if name in names:
                found.append(int(value.split()[0]) * 1024)
    return found


def count_kernel_kills() -> int:
    """Return how many processes the kernel has killed for lack of memory since boot."""
    try:
        with open("/proc/vmstat") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except (OSError, ValueError):
        return 0
    return 0
