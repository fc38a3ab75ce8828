"""Counted work and its counter: iterations of the one, counted by the other; all of it, or only what the compiler does."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

from torch._dynamo import utils as dynamo

from torchstone.core.clock import monotonic
from torchstone.define.counted import Counted
from torchstone.worker.probes.counting.counters import Counter, Counts

WARM_UP_SECONDS = 2.0
WARM_UP_ITERATIONS = 20
SHORT_SECONDS = 0.1
"""Work that takes no longer, simulated, is short."""
_OF_INSTRUCTIONS = "instruction_count"


class Counting:
    """A counted benchmark and its counter: iterations of the one, counted by the other."""

    def __init__(self, counted: Counted, counter: Counter) -> None:
        self.counted = counted
        self.counter = counter

    def warm_up(self) -> None:
        """Prepare and work, uncounted: once, and short work so often that the interpreter has adapted to it.

        Simulated, how often must not depend on how busy the machine is: compiling is long work, and of other work the second time tells.
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
        """Prepare, then work, counted; gives the counts by metric."""
        self.counted.prepare()
        self.run(self.counter.start, self.counter.stop, self.counter.begin)
        counts = self.counter.end()
        return {self.metric_of(quantity): amount for quantity, amount in counts.items()}

    def run(
        self, start: Callable[[], None], stop: Callable[[], None], begin: Callable[[], None] | None = None
    ) -> None:
        """Work once; ``start`` and ``stop`` are called around what is to be counted."""
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
        """The metric that a quantity is, for this benchmark: its own name for it, if it has one."""
        name = self.counted.metric
        if _OF_INSTRUCTIONS in name:
            return name.replace(_OF_INSTRUCTIONS, quantity)
        return name + quantity.partition(_OF_INSTRUCTIONS)[2]


@contextlib.contextmanager
def _collector(*, off: bool) -> Iterator[None]:
    """Nothing left to collect at the beginning; and, if wanted, nothing collected until the end."""
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
    """Call ``start`` and ``stop`` around what the compiler does: where torch itself would count, each time a frame is compiled."""
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
