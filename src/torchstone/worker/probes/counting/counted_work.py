"""Run iterations of counted work under a counter: all of the work, or only the compiler's part."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

from torch._dynamo import utils as dynamo

from torchstone.define.counted import Counted
from torchstone.worker.machine.clock import monotonic
from torchstone.worker.probes.counting.counter_interface import Counter, Counts

WARM_UP_SECONDS = 2.0
WARM_UP_ITERATIONS = 20
SHORT_SECONDS = 0.1
"""Seconds, under simulation, up to which work counts as short."""
_OF_INSTRUCTIONS = "instruction_count"


class Counting:
    """A counted benchmark and its counter."""

    def __init__(self, counted: Counted, counter: Counter) -> None:
        self.counted = counted
        self.counter = counter

    def warm_up(self) -> None:
        """Run uncounted iterations: one of long work, more of short work, until the interpreter has adapted.

        Under simulation the number must not depend on how busy the machine is: compiling always counts as
        long work, for other work the second iteration decides.
        """
        is_simulated = self.counter.name == "simulated"
        ends = monotonic() + WARM_UP_SECONDS
        for number in range(WARM_UP_ITERATIONS):
            began = monotonic()
            self.counted.prepare()
            self.counted.work()
            if is_simulated and (
                self.counted.counts == "compile" or (number == 1 and monotonic() - began > SHORT_SECONDS)
            ):
                return
            if not is_simulated and monotonic() > ends:
                return

    def iterate(self) -> Counts:
        """Run one counted iteration; return the counts by metric."""
        self.counted.prepare()
        self.run(self.counter.start, self.counter.stop, self.counter.begin)
        counts = self.counter.end()
        return {self.metric_of(quantity): amount for quantity, amount in counts.items()}

    def run(
        self, start: Callable[[], None], stop: Callable[[], None], begin: Callable[[], None] | None = None
    ) -> None:
        """Do the work once; ``start`` and ``stop`` are called around the counted part."""
        with _collector(off=self.counted.counts == "compile"):
            if begin is not None:
                begin()
            if self.counted.counts == "compile":
                with counting_compiler(start, stop):
                    self.counted.work()
                return
            start()
            try:
                self.counted.work()
            finally:
                stop()

    def metric_of(self, quantity: str) -> str:
        """Return the metric of a quantity: the benchmark's own name for it, if it has one."""
        name = self.counted.metric
        if _OF_INSTRUCTIONS in name:
            return name.replace(_OF_INSTRUCTIONS, quantity)
        return name + quantity.partition(_OF_INSTRUCTIONS)[2]


@contextlib.contextmanager
def _collector(*, off: bool) -> Iterator[None]:
    """Run the garbage collector first; optionally keep it off until the end."""
    was_on = gc.isenabled()
    gc.collect()
    if off:
        gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def counting_compiler(start: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """Call ``start`` and ``stop`` around each compiled frame, where torch itself would count."""
    counter: Any = dynamo.CompileTimeInstructionCounter
    before = counter.__dict__["record"]
    depth = 0

    @contextlib.contextmanager
    def record() -> Iterator[None]:
        nonlocal depth
        depth += 1
        if depth == 1:
            start()
        try:
            yield
        finally:
            if depth == 1:
                stop()
            depth -= 1

    counter.record = staticmethod(record)
    try:
        yield
    finally:
        counter.record = before
