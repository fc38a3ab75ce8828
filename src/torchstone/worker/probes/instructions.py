"""Probe ``instructions``: how much work is done, counted; all of it, or only what the compiler does.

Uncounted iterations come first, which pay for what happens only once: imports, caches, and the interpreter's own adapting to the code it runs. Then each
iteration is counted by itself, and all counts are kept; the smallest stands for them.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import utils as dynamo

from torchstone.core.clock import monotonic
from torchstone.define.counted import Counted
from torchstone.worker.probes.counting.counters import Counter, Counts, open_counter
from torchstone.worker.probes.counting.perf_events import CounterError
from torchstone.worker.probes.device import is_out_of_memory
from torchstone.worker.probes.reply import PhaseClock, Result, Stopped, ending_as

ITERATIONS = {"hardware": 5, "simulated": 5, "python": 3, "cpu_time": 5}
"""How often each counter counts, unless something else is said."""
ENOUGH = 500_000_000
"""Simulated instructions after which there are no more iterations: of so much work one count repeats better than the smallest of several, for nothing has happened
before the first but what always happens; and it takes seconds."""
Samples = dict[str, list[float]]
WARM_UP_SECONDS = 2.0
WARM_UP_ITERATIONS = 20
SHORT_SECONDS = 0.1
"""Work that takes no longer, simulated, is short."""
NOT_AVAILABLE = "not_available"
_OF_INSTRUCTIONS = "instruction_count"


@dataclass(frozen=True)
class CountPlan:
    """How to count: ``folder`` is where valgrind writes; no ``iterations`` means the benchmark's own, or the counter's."""

    counter: str
    iterations: int | None = None
    profile: bool = False
    folder: str = ""


def measure_instructions(counted: Counted, plan: CountPlan, clock: PhaseClock, result: Result) -> None:
    """Count the work; whatever goes wrong is a status with a reason."""
    result.extra |= {"category": counted.category, "description": counted.description}
    if problem := _why_not(counted, plan.counter):
        raise Stopped(NOT_AVAILABLE, problem)
    try:
        counter = open_counter(plan.counter, plan.folder)
    except CounterError as error:
        raise Stopped(NOT_AVAILABLE, f"the {plan.counter} counter cannot be used: {error}") from None
    torch.set_num_threads(1)
    counting = Counting(counted, counter)
    try:
        with ending_as("model_fail_to_load", "OOM", is_out_of_memory):
            counted.prepare_once()
        clock.enter("compile")
        with ending_as("warmup_failed", "OOM", is_out_of_memory):
            counting.warm_up()
        clock.enter("run")
        # What times itself is alone while it does; a count is the same whatever runs beside it.
        alone = clock.turn() if counted.measures_itself else contextlib.nullcontext()
        with ending_as("fail_to_run", "OOM", is_out_of_memory), alone:
            _count(counting, plan, result)
            if plan.profile:
                from torchstone.worker.probes.counting.profile import record_profile  # noqa: PLC0415  (only on request)

                result.extra["profile"] = record_profile(counting)
        clock.enter("compare")
    finally:
        with contextlib.suppress(Exception):
            counted.finish()


def _why_not(counted: Counted, counter: str) -> str:
    """Why it cannot be counted here; empty if it can."""
    wanted = counted.device.partition(":")[0]
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if wanted != "cpu" and (accelerator is None or accelerator.type != wanted):
        return f"it runs on {wanted}, and there is none here"
    if counted.in_children and counter != "hardware" and not counted.measures_itself:
        return f"its work is done by processes that it starts, which the {counter} counter does not see"
    return counted.missing()


def _count(counting: Counting, plan: CountPlan, result: Result) -> None:
    """Count iteration by iteration, and keep all counts; what the work measures itself is kept instead of a count."""
    counted, counter = counting.counted, counting.counter
    threads, others = threading.active_count(), _seconds_of_others()
    samples, own = _iterate(counting, plan.iterations or counted.iterations)
    for metric, amounts in own.items():
        result.add(metric, amounts)
    if own:
        return
    for metric, amounts in samples.items():
        if not all(amounts):
            raise Stopped("fail_to_run", _nothing_counted(counted, counter.name))
        result.add(metric, amounts, counter=counter.name)
    if counter.name == "hardware":
        return
    if threading.active_count() > threads:
        result.caution("it started threads, whose work is not counted")
    if counted.counts == "all" and _seconds_of_others() > others:
        result.caution("it started processes: what these do is not in its count")


def _iterate(counting: Counting, asked: int | None) -> tuple[Samples, Samples]:
    """What was counted, and what the work has measured itself: samples by metric."""
    samples: Samples = {}
    own: Samples = {}
    for _ in range(asked or ITERATIONS[counting.counter.name]):
        for metric, amount in counting.iterate().items():
            samples.setdefault(metric, []).append(amount)
        for metric, amount in counting.counted.measured().items():
            own.setdefault(metric, []).append(amount)
        is_simulated = counting.counter.name == "simulated"
        if not asked and is_simulated and sum(next(iter(samples.values()))) >= ENOUGH:
            break
    return samples, own


def _seconds_of_others() -> float:
    """Processor time of processes that this one has started, and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _nothing_counted(counted: Counted, counter: str) -> str:
    if counted.counts == "compile":
        return (
            f"the {counter} counter counted nothing: the compiler had nothing to do. "
            "prepare() must make it forget, with torch.compiler.reset()"
        )
    return f"the {counter} counter counted nothing: work() does nothing"


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
