"""Count instructions under valgrind, which simulates the processor: the counter ``simulated``."""

from __future__ import annotations

import contextlib
import glob
import os

from torchstone.worker.probes.counting.callgrind_output import CallgrindError, read_total
from torchstone.worker.probes.counting.counter_interface import Counts, Lap
from torchstone.worker.probes.counting.perf_events import CounterError
from torchstone.worker.probes.counting.valgrind_requests import NoValgrindError, Valgrind


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
