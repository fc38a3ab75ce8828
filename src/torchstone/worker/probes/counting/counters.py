"""The counters: what an amount of work is counted with, all used in the same way."""

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

from torchstone.worker.probes.counting.callgrind import CallgrindError, read_total
from torchstone.worker.probes.counting.perf_events import CounterError, HardwareCounter
from torchstone.worker.probes.counting.valgrind_requests import NoValgrindError, Valgrind

Counts = dict[str, float]
"""What was counted, by what a metric's name ends with: ``instruction_count``, ``instruction_count_tree``."""


@dataclass(frozen=True)
class Lap:
    """What was counted for a while: the amount; each function's own part, by its library or file and its name; or the file that says it."""

    amount: float
    functions: Mapping[tuple[str, str], float] = field(default_factory=dict)
    file: str = ""


class Counter(Protocol):
    """Counts in iterations: ``begin``, then any number of times ``start`` and ``stop``, then ``end`` gives the sum."""

    name: str
    unit: str

    def begin(self) -> None:
        """Before an iteration: forget what was before, and be ready."""

    def start(self) -> None:
        """Count from here."""

    def stop(self) -> None:
        """Count no further."""

    def end(self) -> Counts:
        """What was counted since ``begin``."""

    def lap(self) -> Lap:
        """While it is stopped: what was counted since the last lap, or since ``begin``. Then ``end`` is not asked for."""


class PerfCounter:
    """Instructions that the processor counts: of the measuring thread, and of the process with all that it starts."""

    name = "hardware"
    unit = "instructions"

    def __init__(self) -> None:
        self._events = HardwareCounter()
        self._sums: Counts = {}

    def begin(self) -> None:
        """Begin at nothing."""
        self._sums = {"instruction_count": 0, "instruction_count_tree": 0}

    def start(self) -> None:
        """Count from here."""
        self._events.start()

    def stop(self) -> None:
        """Count no further."""
        counted = self._events.stop()
        self._sums["instruction_count"] += counted[""]
        self._sums["instruction_count_tree"] += counted["tree"]

    def end(self) -> Counts:
        """The sums."""
        return dict(self._sums)

    def lap(self) -> Lap:
        """The thread's own; which functions it was in, the processor does not say."""
        amount = self._sums["instruction_count"]
        self.begin()
        return Lap(amount)


class SimulatedCounter:
    """Instructions that valgrind executes for this process: those of the measuring thread, and of what it forks."""

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
        """Begin at nothing, and make valgrind ready, which takes a while."""
        self.drop_files()
        self._valgrind.begin()
        self._valgrind.zero()

    def start(self) -> None:
        """Count from here."""
        self._valgrind.toggle()

    def stop(self) -> None:
        """Count no further."""
        self._valgrind.toggle()

    def end(self) -> Counts:
        """Read what valgrind wrote down, also of processes that were forked and have ended."""
        self._valgrind.end()
        self._valgrind.dump("end")
        own = self._total_of(self._root)
        children = sum(self._total_of(pid) for pid in self._children())
        self.drop_files()
        return {"instruction_count": own, "instruction_count_tree": own + children}

    def lap(self) -> Lap:
        """Valgrind writes it down, with every function's part; the file is read later, by a process that is not simulated."""
        self._valgrind.dump("lap")
        path = self.files_of(self._root)[-1]
        return Lap(_total(path), file=path)

    def files_of(self, pid: int) -> list[str]:
        """What valgrind has written for a process, in the order it was written."""
        found = glob.glob(os.path.join(glob.escape(self._folder), f"callgrind.{pid}.*"))
        return sorted(found, key=lambda path: int(path.rpartition(".")[2]))

    def drop_files(self) -> None:
        """Remove what valgrind has written for this process and its children."""
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
        """In a child: what its parent has counted is not its own."""
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
    """Calls of functions that Python makes in the measuring thread: its own, and those written in C."""

    name = "python"
    unit = "calls"

    def __init__(self) -> None:
        self._profile = cProfile.Profile()

    def begin(self) -> None:
        """Begin at nothing."""
        self._profile.clear()

    def start(self) -> None:
        """Count from here."""
        try:
            self._profile.enable()
        except ValueError as error:  # newer Pythons allow one profiler at a time
            raise CounterError(f"Python's profiler is in use: {error}") from None

    def stop(self) -> None:
        """Count no further."""
        self._profile.disable()

    def end(self) -> Counts:
        """All calls."""
        return {"python_calls": sum(calls for _, calls in self._calls())}

    def lap(self) -> Lap:
        """Calls, by the function that was called."""
        functions: dict[tuple[str, str], float] = {}
        for code, calls in self._calls():
            place = place_of(code)
            functions[place] = functions.get(place, 0) + calls
        self.begin()
        return Lap(sum(functions.values()), functions)

    def _calls(self) -> Iterator[tuple[CodeType | str, int]]:
        """Each function and how often it was called; those that end the counting are ours, and not of the work."""
        for entry in self._profile.getstats():
            if entry.code is not PythonCounter.stop.__code__ and entry.code != _DISABLE:
                yield entry.code, int(entry.callcount)


_DISABLE = "<method 'disable' of '_lsprof.Profiler' objects>"


def place_of(code: CodeType | str) -> tuple[str, str]:
    """Where a function is, and what it is called: the file below the folder of installed packages; none for one that is not written in Python."""
    if isinstance(code, str):
        return "", re.sub(r" at 0x[0-9a-f]+", "", code)  # the same in every process
    path = code.co_filename
    for folder in ("site-packages/", "dist-packages/", f"python{sys.version_info[0]}.{sys.version_info[1]}/"):
        if folder in path:
            return path.rpartition(folder)[2], code.co_qualname
    return os.path.basename(path), code.co_qualname


class CpuTimeCounter:
    """Processor time of the measuring thread: the last resort, and not a count."""

    name = "cpu_time"
    unit = "s"

    def __init__(self) -> None:
        self._sum = self._began = 0

    def begin(self) -> None:
        """Begin at nothing."""
        self._sum = 0

    def start(self) -> None:
        """Count from here."""
        self._began = time.thread_time_ns()

    def stop(self) -> None:
        """Count no further."""
        self._sum += time.thread_time_ns() - self._began

    def end(self) -> Counts:
        """In seconds."""
        return {"cpu_seconds": self._sum / 1e9}

    def lap(self) -> Lap:
        """In seconds; which functions they were spent in is not known."""
        seconds = self._sum / 1e9
        self.begin()
        return Lap(seconds)


def open_counter(name: str, folder: str) -> Counter:
    """The counter of this name, ready; one that this process cannot have is an error that says why."""
    makers: dict[str, Callable[[], Counter]] = {
        "hardware": PerfCounter,
        "simulated": lambda: SimulatedCounter(folder),
        "python": PythonCounter,
        "cpu_time": CpuTimeCounter,
    }
    return makers[name]()
