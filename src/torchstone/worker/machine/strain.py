"""Notice that other work takes the processor away from this process, so that its times are longer than on a quiet machine."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from dataclasses import dataclass

# Share of the time: threads waited 0 to 3 % of it on a quiet machine, 35 to 74 % with a loop on every processor.
DISTURBED = 0.1
LEAST_WAIT = 0.05  # seconds: less is only a few scheduler slices
TASKS = "/proc/self/task"


@dataclass(frozen=True)
class Strain:
    """Interference by other work over ``seconds`` of wall time.

    ``interruptions`` counts involuntary context switches of this process. ``waited`` is how many seconds the
    thread that waited most was runnable without a processor.
    """

    seconds: float = 0.0
    interruptions: int = 0
    waited: float = 0.0

    @property
    def rate(self) -> float:
        """Return interruptions per second."""
        return self.interruptions / self.seconds if self.seconds > 0 else 0.0

    @property
    def share(self) -> float:
        """Return the share of time spent waiting for a processor, from 0 to 1."""
        return min(1.0, self.waited / self.seconds) if self.seconds > 0 else 0.0

    @property
    def is_disturbed(self) -> bool:
        """Return whether times are clearly not those of a quiet machine.

        Interruptions alone do not tell: a thread that waits longer at a time is interrupted less often.
        """
        return self.share >= DISTURBED and self.waited >= LEAST_WAIT


class StrainWatch:
    """Watch this process from construction on.

    Waiting times come from the kernel (``/proc/self/task/*/schedstat``). Otherwise the time without a
    processor is used, unless the process gave it up voluntarily more often than it lost it: then it slept.
    """

    def __init__(self) -> None:
        self._waits = _thread_waits()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        self._start = time.perf_counter_ns()

    def read(self) -> Strain:
        """Return the interference so far."""
        seconds = (time.perf_counter_ns() - self._start) / 1e9
        now, before = resource.getrusage(resource.RUSAGE_SELF), self._usage
        taken, given = now.ru_nivcsw - before.ru_nivcsw, now.ru_nvcsw - before.ru_nvcsw
        waits = _thread_waits()
        if waits and self._waits:
            waited = max(each - self._waits.get(thread, 0.0) for thread, each in waits.items())
        else:
            busy = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
            waited = max(0.0, seconds - busy) if taken > given else 0.0
        return Strain(seconds, taken, waited)


def _thread_waits() -> dict[str, float]:
    """Return how many seconds each thread was runnable but not running; empty if the kernel does not tell."""
    waits: dict[str, float] = {}
    for thread in os.listdir(TASKS) if os.path.isdir(TASKS) else ():
        path = f"{TASKS}/{thread}/schedstat"
        with contextlib.suppress(OSError, ValueError, IndexError), open(path) as file:
            waits[thread] = int(file.read().split()[1]) / 1e9  # unless the thread has ended meanwhile
    return waits
