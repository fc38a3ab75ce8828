"""Measure the device times of a performance case, and add them to its result: metrics, and a caution if it is host-bound."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

from torchstone.analyze.speedup_ratio import CONFIDENCE, Ratio, estimate_device_ratio
from torchstone.core.caution_kinds import CautionKind
from torchstone.core.vocabulary import DEVICE_METRICS
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time.device_times import (
    Call,
    DeviceTimes,
    NothingLaunchedError,
    SideTimes,
    measure_device_times,
)
from torchstone.worker.probes.device_time.host_bound import find_host_share
from torchstone.worker.probes.device_time.recording import NoDeviceActivityError
from torchstone.worker.probes.reply import Result

METHOD = "median ratio of pairs of profiled blocks; interval from their spread, Student's t, and 0.4 % between processes"
LONGEST_CALLS = 4.0  # seconds: longer ones launch more than the profiler can keep in memory
_MILLISECOND = 1e6  # nanoseconds
_PERCENT = 100


def take_device_times(
    eager: Call, compiled: Call, device: Device, budget: float, result: Result, seconds: float
) -> DeviceTimes | None:
    """Return the device times of both calls, which take ``seconds`` together; None on a CPU, and where there are none: then the result says why."""
    if device.type == "cpu":
        return None
    if seconds > LONGEST_CALLS:
        why = f"an eager and a compiled call take {seconds:.3g} s, too long to be profiled"
        note_no_device_time(result, NoDeviceActivityError(why))
        return None
    try:
        return measure_device_times(
            eager,
            compiled,
            device.type,
            device.synchronize,
            budget,
            index=device.current_index(),
        )
    except NoDeviceActivityError as error:
        note_no_device_time(result, error)
        return None


def note_no_device_time(result: Result, error: NoDeviceActivityError) -> None:
    """Add to the result why device times are not available."""
    why = str(error)
    left_out = dict.fromkeys(DEVICE_METRICS, why)
    result.details = replace(result.details, left_out={**(result.details.left_out or {}), **left_out})
    kind = (
        CautionKind.NOTHING_ON_DEVICE
        if isinstance(error, NothingLaunchedError)
        else CautionKind.NO_DEVICE_TIME
    )
    result.caution(kind, why=why)


def add_device_times(result: Result, times: DeviceTimes, walls: tuple[float, float]) -> Ratio:
    """Add the device metrics; ``walls`` are the nanoseconds of an eager and of a compiled call by the wall clock. Return the device speedup."""
    eager, compiled = times.eager, times.compiled
    ratio = estimate_device_ratio(eager.busy, compiled.busy)
    how = {"confidence": CONFIDENCE, "method": METHOD, "pairs": len(compiled.busy)}
    if ratio.low is not None and ratio.high is not None:
        result.add("device_speedup", ratio.value, interval=(ratio.low, ratio.high), **how)
    else:
        result.add("device_speedup", ratio.value, pairs=len(compiled.busy))
    for metric, samples, block in (
        ("device_latency", compiled.busy, compiled.calls),
        ("eager_device_latency", eager.busy, eager.calls),
        ("host_latency", compiled.submit, 1),
        ("eager_host_latency", eager.submit, 1),
    ):
        result.add(metric, [each / _MILLISECOND for each in samples], block=block)
    result.add("device_share", _PERCENT * min(1.0, median(compiled.busy) / walls[1]))
    for side, name, wall in ((eager, "eager", walls[0]), (compiled, "compiled", walls[1])):
        note_host_bound(result, side, name, wall)
    return ratio


def note_host_bound(result: Result, side: SideTimes, name: str, wall: float) -> bool:
    """Add a caution if the calls of a side are host-bound; return whether they are."""
    share = find_host_share(side, wall)
    if not share.is_host_bound:
        return False
    busy = median(side.busy)
    result.caution(
        CautionKind.HOST_BOUND,
        side=name,
        submit=(median(side.submit) - side.waited) / _MILLISECOND,
        busy=busy / _MILLISECOND,
        idle=share.idle,
    )
    return True
