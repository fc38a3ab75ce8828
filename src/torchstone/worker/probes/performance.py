"""Probe ``performance``: time eager and compiled in turns; record compile time, peak memory and capture statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import median

import torch

from torchstone.analyze.speedup_ratio import CONFIDENCE, Ratio
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.vocabulary import COMPILE_SECONDS
from torchstone.define.benchmarks import Work
from torchstone.worker.failures import is_out_of_memory
from torchstone.worker.machine.strain import Strain
from torchstone.worker.probes.compiler.capture import add_capture, read_capture, reset_capture
from torchstone.worker.probes.compiler.compile_strain import noting_strain
from torchstone.worker.probes.compiler.compiling_apart import watch_compiler
from torchstone.worker.probes.device_time.device_results import add_device_times, take_device_times
from torchstone.worker.probes.device_time.device_times import DeviceTimes
from torchstone.worker.probes.device_time.watching import note_device_state, watch_device
from torchstone.worker.probes.outputs.values import tensors_in
from torchstone.worker.probes.reply import PhaseClock, Result, ending_as
from torchstone.worker.probes.reported_metrics import MetricCollector
from torchstone.worker.probes.subject import Target, gradient_mode, make_call, seed_everything
from torchstone.worker.probes.time_profile.taking import take_time_profile
from torchstone.worker.probes.timing import Call, Pairs, StopRule, time_pairs
from torchstone.worker.probes.warm_up import WarmUp, WarmUpDifference, compare_warm_ups, warm_up
from torchstone.worker.protocol.jobs import NO_COMPILER

NANOSECONDS_A_MILLISECOND = 1e6
BYTES_A_GIGABYTE = 1e9
_DEVICE_BUDGET = 0.4  # of the time for the wall clock: device times need fewer samples
METHOD = "median ratio of the faster half of the pairs; interval from 10 batches, Student's t, and the distance to all pairs"


def measure_performance(
    work: Work,
    target: Target,
    rule: StopRule,
    clock: PhaseClock,
    result: Result,
    identity: dict[str, str],
    own: MetricCollector | None = None,
    *,
    profile: bool = False,
) -> None:
    """Measure, and add to ``result``; ``identity`` distinguishes compile times of different setups, ``own`` collects the benchmark's own metrics.

    With ``profile``, also find out where the time goes, after everything else.
    """
    own = own or MetricCollector()
    eager = make_call(work, target, work.model)
    inputs = _versions(work)
    with gradient_mode(target.mode):
        clock.enter("eager")
        with ending_as("warmup_failed", "eager_1st_run_OOM", is_out_of_memory), clock.using_device():
            reset_capture()
            seed_everything()
            with noting_strain(result):  # compilation_latency is a difference of both
                eager_warm_up = warm_up(own.watch(eager), target.device, clock)
            own.forget()
            _note_own_compiling(result)
        clock.enter("compile")
        with ending_as("fail_to_run", "OOM", is_out_of_memory), clock.using_device():
            watch_compiler(clock)
            reset_capture()
            seed_everything()
            compiled = make_call(work, target, target.compile(work.model))
            with noting_strain(result):
                compiled_warm_up = warm_up(own.watch(compiled), target.device, clock)
            own.forget()
            captured = read_capture()
        _add_warm_ups(result, eager_warm_up, compiled_warm_up, target, identity)
        if target.backend != NO_COMPILER:
            add_capture(result, captured, identity)
        clock.enter("run")
        with ending_as("fail_to_run", "OOM", is_out_of_memory), clock.turn():
            watch = watch_device(target.device, result)
            pairs = _time(eager, compiled, rule, target, own, watch.look if watch else None)
            times = _time_on_device(eager, compiled, pairs, rule, target, own, result)
            note_device_state(watch, result)
        if read_capture().has_compiled_since(captured):
            result.caution(CautionKind.RECOMPILED_WHILE_TIMED)
    if _versions(work) != inputs:
        result.caution(CautionKind.INPUTS_CHANGED)
    _note_strain(result, pairs.strain)
    _add_times(result, pairs, times)
    own.add_to(result)
    if profile:
        with gradient_mode(target.mode):
            take_time_profile(work, target, eager, compiled, clock, result)


def _time(
    eager: Call,
    compiled: Call,
    rule: StopRule,
    target: Target,
    own: MetricCollector,
    between: Callable[[], None] | None,
) -> Pairs:
    """Time both sides; calls of a benchmark that reports no metrics of its own are timed bare."""
    synchronize = target.device.synchronize
    if not own.is_needed:
        return time_pairs(eager, compiled, rule, synchronize, None, between)
    return time_pairs(own.watch(eager), own.watch(compiled), rule, synchronize, own, between)


def _time_on_device(
    eager: Call,
    compiled: Call,
    pairs: Pairs,
    rule: StopRule,
    target: Target,
    own: MetricCollector,
    result: Result,
) -> DeviceTimes | None:
    """Return how long the device is busy in both calls, if it can be told; what the benchmark reports meanwhile does not count."""
    one, other = (own.watch(eager), own.watch(compiled)) if own.is_needed else (eager, compiled)
    seconds = (median(pairs.eager) + median(pairs.compiled)) / 1e9
    times = take_device_times(one, other, target.device, _DEVICE_BUDGET * rule.budget, result, seconds)
    own.forget()
    return times


def _note_strain(result: Result, strain: Strain) -> None:
    """Add a caution if the machine was too busy: both sides can be slow alike, and the interval still narrow."""
    if strain.is_disturbed:
        threads = torch.get_num_threads()
        result.caution(CautionKind.BUSY_MACHINE, rate=strain.rate, share=strain.share, threads=threads)


def _versions(work: Work) -> list[tuple[int, int]]:
    """Return a value that changes when an input tensor is written to or replaced."""
    tensors = tensors_in((work.args, dict(work.kwargs)))
    return [(id(tensor), 0 if tensor.is_inference() else tensor._version) for tensor in tensors]


def _note_own_compiling(result: Result) -> None:
    if read_capture().counts["unique_graphs"]:
        result.caution(CautionKind.COMPILES_ITSELF)


def _add_warm_ups(
    result: Result, eager: WarmUp, compiled: WarmUp, target: Target, identity: dict[str, str]
) -> None:
    if target.backend != NO_COMPILER:
        _add_difference(result, compare_warm_ups(eager, compiled), identity)
    if eager.peak_bytes is None or compiled.peak_bytes is None:
        result.caution(CautionKind.NO_PEAK_MEMORY, device=target.device.type)
        return
    result.add("eager_peak_mem", eager.peak_bytes / BYTES_A_GIGABYTE)
    result.add("dynamo_peak_mem", compiled.peak_bytes / BYTES_A_GIGABYTE)
    if compiled.peak_bytes:
        result.add("compression_ratio", eager.peak_bytes / compiled.peak_bytes)


def _add_difference(result: Result, difference: WarmUpDifference, identity: dict[str, str]) -> None:
    """Add the original's compile time, unless running the model swamps it."""
    if difference.is_clear:
        result.add("compilation_latency", difference.seconds, **identity)
    else:
        result.leave_out("compilation_latency", f"{difference.describe()}; see {COMPILE_SECONDS}")


def _add_times(result: Result, pairs: Pairs, times: DeviceTimes | None) -> None:
    """Add the samples in order, the speedup with its interval, and what the device did."""
    ratio = pairs.ratio()
    by_device = (
        add_device_times(result, times, (median(pairs.eager), median(pairs.compiled))) if times else None
    )
    _add_speedup(result, ratio, pairs, by_device)
    eager_block, compiled_block = pairs.blocks
    for metric, times_of_side, block in (
        ("abs_latency", pairs.compiled, compiled_block),
        ("eager_latency", pairs.eager, eager_block),
    ):
        result.add(metric, [each / NANOSECONDS_A_MILLISECOND for each in times_of_side], block=block)


def _add_speedup(result: Result, ratio: Ratio, pairs: Pairs, by_device: Ratio | None) -> None:
    """Add the speedup by the wall clock; if the host decides it, its interval reaches to the speedup by the device's time."""
    count = len(pairs.eager)
    if ratio.low is None or ratio.high is None or not math.isfinite(ratio.high):
        result.caution(CautionKind.FEW_PAIRS, pairs=count)
        result.add("speedup", ratio.value, pairs=count, stopped=pairs.stopped)
        return
    interval, method = (ratio.low, ratio.high), METHOD
    is_host_bound = any(each.kind == CautionKind.HOST_BOUND for each in result.cautions)
    if is_host_bound and by_device is not None and by_device.low is not None and by_device.high is not None:
        interval = min(ratio.low, by_device.low), max(ratio.high, by_device.high)
        method = f"{METHOD}; extended to device_speedup, because the host decides the wall time"
    how = {"confidence": CONFIDENCE, "method": method}
    result.add("speedup", ratio.value, pairs=count, stopped=pairs.stopped, interval=interval, **how)
