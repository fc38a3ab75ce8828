"""Define the counters, which share one interface: hardware, simulated, python and cpu_time."""

from __future__ import annotations

import contextlib
import cProfile
import glob
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Protocol

from torchstone.worker.probes.counting.callgrind_output import CallgrindError, read_total
from torchstone.worker.probes.counting.perf_events import CounterError, HardwareCounter
from torchstone.worker.probes.counting.valgrind_requests import NoValgrindError, Valgrind

Counts = dict[str, float]
"""Counts by the suffix of the metric: ``instruction_count``, ``instruction_count_tree``."""


@dataclass(frozen=True)
class Lap:
    """One interval of counting: the amount, and the own cost by library and function, or the file that contains it."""

    amount: float
    functions: Mapping[tuple[str, str], float] = field(default_factory=dict)
    file: str = ""


class Counter(Protocol):
    """Count an iteration: ``begin``, then ``start`` and ``stop`` any number of times, then ``end`` returns the sum."""

    name: str
    unit: str

    def begin(self) -> None:
        """Reset before an iteration."""

    def start(self) -> None:
        """Start counting."""

    def stop(self) -> None:
        """Stop counting."""

    def end(self) -> Counts:
        """Return the count since ``begin``."""

    def lap(self) -> Lap:
        """Return the count since the last lap or ``begin``, while stopped; ``end`` is not called then."""


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


class SimulatedCounter:
    """Count instructions under valgrind: of the measuring thread, and of its forks."""

    name = "simulated"
    unit = "instructions"

    def __init__(self, folder: str) -> None:
        try:
            self._valgrind = Valgrind()
        except NoValgrindError as error:
            raise CounterError(str(error)) from None
        self._folder = folder
        self._root = os.getpid()
        os.register_at_fork(after_in_child=self._note_child)

    def begin(self) -> None:
        """Reset, and prepare valgrind, which takes a while."""
        self.drop_files()
        self._valgrind.begin()
        self._valgrind.zero()

    def start(self) -> None:
        """Start counting."""
        self._valgrind.toggle()

    def stop(self) -> None:
        """Stop counting."""
        self._valgrind.toggle()

    def end(self) -> Counts:
        """Read valgrind's output, including that of forked processes that have ended."""
        self._valgrind.end()
        self._valgrind.dump("end")
        own = self._total_of(self._root)
        children = sum(self._total_of(pid) for pid in self._children())
        self.drop_files()
        return {"instruction_count": own, "instruction_count_tree": own + children}

    def lap(self) -> Lap:
        """Let valgrind write the count of each function; a process outside valgrind reads the file later."""
        self._valgrind.dump("lap")
        path = self.files_of(self._root)[-1]
        return Lap(_total(path), file=path)

    def files_of(self, pid: int) -> list[str]:
        """Return valgrind's files for a process, oldest first."""
        found = glob.glob(os.path.join(glob.escape(self._folder), f"callgrind.{pid}.*"))
        return sorted(found, key=lambda path: int(path.rpartition(".")[2]))

    def drop_files(self) -> None:
        """Remove valgrind's files for this process and its children."""
        for pid in (self._root, *self._children()):
            for path in (*self.files_of(pid), os.path.join(self._folder, f"callgrind.{pid}")):
                with contextlib.suppress(OSError):
                    os.remove(path)
            with contextlib.suppress(OSError):
                os.remove(self._mark(pid))

    def _total_of(self, pid: int) -> int:
        paths = self.files_of(pid)
        last = os.path.join(self._folder, f"callgrind.{pid}")
        if pid != self._root and os.path.exists(last):
            paths.append(last)
        if not paths and pid == self._root:
            raise CounterError(f"valgrind has written nothing into {self._folder}")
        return sum(map(_total, paths))

    def _note_child(self) -> None:
        """Reset the count in a forked child."""
        self._valgrind.zero()
        with contextlib.suppress(OSError), open(self._mark(os.getpid()), "w"):
            pass

    def _mark(self, pid: int) -> str:
        return os.path.join(self._folder, f"forked.{self._root}.{pid}")

    def _children(self) -> list[int]:
        found = glob.glob(os.path.join(glob.escape(self._folder), f"forked.{self._root}.*"))
        return [int(path.rpartition(".")[2]) for path in found]


def _total(path: str) -> int:
    try:
        return read_total(path)
    except (OSError, CallgrindError, ValueError) as error:
        raise CounterError(
            f"{os.path.basename(path)}, which valgrind has written, cannot be read: {error}"
        ) from None


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
