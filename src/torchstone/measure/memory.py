"""How much memory a worker and its children hold, and whether the kernel has ended anyone for want of it (Linux)."""

from __future__ import annotations

import os

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes(pid: int) -> int:
    """The resident memory of a process and all its descendants; 0 where it cannot be read."""
    total, waiting = 0, [pid]
    while waiting:
        each = waiting.pop()
        try:
            with open(f"/proc/{each}/statm") as file:
                total += int(file.read().split()[1]) * _PAGE
            for task in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{task}/children") as file:
                    waiting += [int(child) for child in file.read().split()]
        except (OSError, ValueError, IndexError):
            continue
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
