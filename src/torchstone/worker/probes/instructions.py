"""Probe ``instructions``: count all of the work, or only the compiler's part.

Uncounted iterations come first, for everything that happens only once: imports, caches, the interpreter's
adaptive specialisation. Then each iteration is counted, and all counts are kept; the metric is their minimum.
"""

from __future__ import annotations

import contextlib
import resource
import threading
from dataclasses import replace

import torch

from torchstone.core.caution_kinds import CautionKind
from torchstone.define.counted import Counted
from torchstone.define.custom_metrics import take_reports
from torchstone.worker.failures import is_out_of_memory
from torchstone.worker.probes.counting.counted_work import Counting
from torchstone.worker.probes.counting.counters import open_counter
from torchstone.worker.probes.counting.perf_events import CounterError
from torchstone.worker.probes.counting.profile import record_profile
from torchstone.worker.probes.reply import PhaseClock, Result, Stopped, ending_as
from torchstone.worker.probes.reported_metrics import MetricCollector
from torchstone.worker.protocol.codec import to_json
from torchstone.worker.protocol.jobs import CountPlan

ITERATIONS = {"hardware": 5, "simulated": 5, "python": 3, "cpu_time": 5}
"""Default number of iterations by counter."""
ENOUGH = 500_000_000
"""Simulated instructions after which iterations stop.

For so much work, the count of the first iteration is more repeatable than the minimum of several, and each takes seconds.
"""
Samples = dict[str, list[float]]
NOT_AVAILABLE = "not_available"


def measure_instructions(
    counted: Counted, plan: CountPlan, clock: PhaseClock, result: Result, own: MetricCollector | None = None
) -> None:
    """Count the work; any failure becomes a status with a reason. ``own`` collects the metrics that the work reports."""
    own = own or MetricCollector()
    result.details = replace(
        result.details, category=str(counted.category), description=str(counted.description)
    )
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
            own.end_build()
        clock.enter("compile")
        with ending_as("warmup_failed", "OOM", is_out_of_memory):
            counting.warm_up()
        clock.enter("run")
        # Work that times itself must run alone; a count does not depend on what runs beside it.
        alone = clock.turn() if counted.measures_itself else contextlib.nullcontext()
        with ending_as("fail_to_run", "OOM", is_out_of_memory), alone:
            _count(counting, plan, result, own)
            if plan.profile:
                result.details = replace(result.details, profile=to_json(record_profile(counting)))
        clock.enter("compare")
    finally:
        with contextlib.suppress(Exception):
            counted.finish()


def _why_not(counted: Counted, counter: str) -> str:
    """Return why it cannot be counted here; empty if it can."""
    wanted = counted.device.partition(":")[0]
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    if wanted != "cpu" and (accelerator is None or accelerator.type != wanted):
        return f"it runs on {wanted}, and there is none here"
    if counted.in_children and counter != "hardware" and not counted.measures_itself:
        return f"its work is done by processes that it starts, which the {counter} counter does not see"
    return counted.missing()


def _count(counting: Counting, plan: CountPlan, result: Result, reported: MetricCollector) -> None:
    """Count each iteration, and keep all counts; metrics measured by the work itself replace the counts."""
    counted, counter = counting.counted, counting.counter
    threads, others = threading.active_count(), _seconds_of_others()
    samples, own = _iterate(counting, plan.iterations or counted.iterations, reported)
    reported.add_to(result)
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
        result.caution(CautionKind.THREADS_NOT_COUNTED)
    if counted.counts == "all" and _seconds_of_others() > others:
        result.caution(CautionKind.PROCESSES_NOT_COUNTED)


def _iterate(counting: Counting, asked: int | None, reported: MetricCollector) -> tuple[Samples, Samples]:
    """Return the counts, and the metrics measured by the work itself, as samples by metric."""
    samples: Samples = {}
    own: Samples = {}
    take_reports()  # of the warm-up
    for _ in range(asked or ITERATIONS[counting.counter.name]):
        for metric, amount in counting.iterate().items():
            samples.setdefault(metric, []).append(amount)
        for metric, amount in counting.counted.measured().items():
            own.setdefault(metric, []).append(amount)
        reported.end_work()
        is_simulated = counting.counter.name == "simulated"
        if not asked and is_simulated and sum(next(iter(samples.values()))) >= ENOUGH:
            break
    return samples, own


def _seconds_of_others() -> float:
    """Return the processor time of child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _nothing_counted(counted: Counted, counter: str) -> str:
    if counted.counts == "compile":
        return (
            f"the {counter} counter counted nothing: the compiler had nothing to do. "
            "prepare() must make it forget, with torch.compiler.reset()"
        )
    return f"the {counter} counter counted nothing: work() does nothing"
