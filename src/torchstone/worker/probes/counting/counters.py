"""Define the counters hardware, python and cpu_time, and open a counter by its name."""

from __future__ import annotations

import cProfile
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from types import CodeType

from torchstone.worker.probes.counting.counter_interface import Counter, Counts, Lap
from torchstone.worker.probes.counting.perf_events import CounterError, HardwareCounter
from torchstone.worker.probes.counting.valgrind_counter import SimulatedCounter


class PerfCounter:
    """Count instructions in hardware: of the measuring thread, and of its process tree."""

    name = "hardware"
    unit = "instructions"

    def __init__(self) -> None:
        self._events = HardwareCounter()
        self._sums: Counts = {}

    def begin(self) -> None:
        """Reset."""
        self._sums = {"instruction_count": 0, "instruction_count_tree": 0}

    def start(self) -> None:
        """Start counting."""
        self._events.start()

    def stop(self) -> None:
        """Stop counting."""
        counted = self._events.stop()
        self._sums["instruction_count"] += counted[""]
        self._sums["instruction_count_tree"] += counted["tree"]

    def end(self) -> Counts:
        """Return the sums."""
        return dict(self._sums)

    def lap(self) -> Lap:
        """Return the thread's count; the hardware does not know functions."""
        amount = self._sums["instruction_count"]
        self.begin()
        return Lap(amount)


class PythonCounter:
    """Count function calls by Python in the measuring thread, including C functions."""

    name = "python"
    unit = "calls"

    def __init__(self) -> None:
        self._profile = cProfile.Profile()

    def begin(self) -> None:
        """Reset."""
        self._profile.clear()

    def start(self) -> None:
        """Start counting."""
        try:
            self._profile.enable()
        except ValueError as error:  # newer Pythons allow one profiler at a time
            raise CounterError(f"Python's profiler is in use: {error}") from None

    def stop(self) -> None:
        """Stop counting."""
        self._profile.disable()

    def end(self) -> Counts:
        """Return the number of calls."""
        return {"python_calls": sum(calls for _, calls in self._calls())}

    def lap(self) -> Lap:
        """Return the calls by called function."""
        functions: dict[tuple[str, str], float] = {}
        for code, calls in self._calls():
            place = place_of(code)
            functions[place] = functions.get(place, 0) + calls
        self.begin()
        return Lap(sum(functions.values()), functions)

    def _calls(self) -> Iterator[tuple[CodeType | str, int]]:
        """Yield each function with its calls, except our own that end the counting."""
        for entry in self._profile.getstats():
            if entry.code is not PythonCounter.stop.__code__ and entry.code != _DISABLE:
                yield entry.code, int(entry.callcount)


_DISABLE = "<method 'disable' of '_lsprof.Profiler' objects>"


def place_of(code: CodeType | str) -> tuple[str, str]:
    """Return a function's file, relative to the installed packages, and name; no file for C functions."""
    if isinstance(code, str):
        return "", re.sub(r" at 0x[0-9a-f]+", "", code)  # the same in every process
    path = code.co_filename
    for folder in ("site-packages/", "dist-packages/", f"python{sys.version_info[0]}.{sys.version_info[1]}/"):
        if folder in path:
            return path.rpartition(folder)[2], code.co_qualname
    return os.path.basename(path), code.co_qualname


class CpuTimeCounter:
    """Measure processor time of the measuring thread: a last resort, not a count."""

    name = "cpu_time"
    unit = "s"

    def __init__(self) -> None:
        self._sum = self._began = 0

    def begin(self) -> None:
        """Reset."""
        self._sum = 0

    def start(self) -> None:
        """Start measuring."""
        self._began = time.thread_time_ns()

    def stop(self) -> None:
        """Stop measuring."""
        self._sum += time.thread_time_ns() - self._began

    def end(self) -> Counts:
        """Return seconds."""
        return {"cpu_seconds": self._sum / 1e9}

    def lap(self) -> Lap:
        """Return seconds, without functions."""
        seconds = self._sum / 1e9
        self.begin()
        return Lap(seconds)


def open_counter(name: str, folder: str) -> Counter:
    """Open the counter of this name; raise an error with the reason if this process cannot use it."""
    makers: dict[str, Callable[[], Counter]] = {
        "hardware": PerfCounter,
        "simulated": lambda: SimulatedCounter(folder),
        "python": PythonCounter,
        "cpu_time": CpuTimeCounter,
    }
    return makers[name]()
