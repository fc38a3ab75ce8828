"""How much memory a worker and its children hold, and whether the kernel has ended anyone for want of it (Linux)."""

from __future__ import annotations

import contextlib
import os

from torchstone.measure.kinship import list_children

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes(pid: int) -> int:
    """The resident memory of a process and all its descendants; 0 where it cannot be read."""
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{each}/statm") as file:
            total += int(file.read().split()[1]) * _PAGE
            waiting += list_children(each)
    return total


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
