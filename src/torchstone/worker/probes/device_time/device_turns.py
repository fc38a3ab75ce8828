"""Time the calls of one side by how long the device is busy, turn by turn: for pairs of workers, and for known slowdowns."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time.busy_time import busy_time
from torchstone.worker.probes.device_time.device_intervals import DeviceActivity
from torchstone.worker.probes.device_time.device_times import (
    BLOCK,
    MOST_CALLS,
    Call,
    NothingLaunchedError,
    Recorder,
    SideTimes,
)
from torchstone.worker.probes.device_time.recording import record_activity
from torchstone.worker.probes.device_time.submit_time import time_submissions

_CALIBRATIONS = 8
_CLOSE = 0.02
_FEWEST_ELEMENTS, _MOST_ELEMENTS = 1 << 8, 1 << 28


class DeviceTurns:
    """Times blocks of one call by torch's profiler, a session for each block."""

    def __init__(self, call: Call, device: Device, record: Recorder = record_activity) -> None:
        self._call = call
        self._device = device
        self._record = record
        self._window = (0, 0)

    def take(self, calls: int) -> float:
        """Return the nanoseconds that the device is busy in a call; raise NoDeviceActivityError if that cannot be told."""
        return busy_time(self._profile(calls).intervals) / calls

    def look(self) -> SideTimes:
        """Return busy and submit time of a few calls, the profiler having been started once before."""
        self.take(1)
        alone = self._profile(1)
        waits = [each for each in alone.runtime_calls if each.waits and self._is_in_calls(each.start)]
        calls = max(1, min(MOST_CALLS, round(BLOCK / busy_time(alone.intervals))))
        busy = self.take(calls)
        launches = len({each.correlation for each in alone.intervals})
        submits = time_submissions(self._call, self._device.synchronize)
        waited = float(sum(each.end - each.start for each in waits))
        return SideTimes((busy,), tuple(submits), calls, len(alone.intervals), launches, waited)

    def _is_in_calls(self, moment: int) -> bool:
        """Return whether something happened during the calls; before and after, this class and the profiler wait for the device."""
        start, end = self._window
        return start <= moment < end

    def _profile(self, calls: int) -> DeviceActivity:
        def run() -> None:
            self._device.synchronize()
            start = time.time_ns()
            for _ in range(calls):
                self._call()
            self._window = start, time.time_ns()
            self._device.synchronize()

        activity = self._record(run, self._device.type)
        index = self._device.current_index()
        if index is not None:
            activity = activity.on_device(index)
        if not activity.intervals:
            raise NothingLaunchedError("torch's profiler shows nothing that a call launches on the device")
        return activity


def slow_down_device(
    call: Call, share: float, device: Device, busy: Callable[[Call], float] | None = None
) -> Call:
    """Return the call followed by work on the device for this share of the call's own device time, calibrated once."""
    if not share:
        return call
    measure = busy or (lambda each: DeviceTurns(each, device).take(MOST_CALLS))
    extra = _make_work(share * measure(call), device, measure)

    def slowed() -> object:
        result = call()
        extra()
        return result

    return slowed


def _make_work(nanoseconds: float, device: Device, measure: Callable[[Call], float]) -> Call:
    """Return an element-wise operation that takes about this long, by the number of its elements."""
    elements = 1 << 20
    for _ in range(_CALIBRATIONS):
        work = torch.zeros(elements, device=device.device).neg_
        took = measure(work)
        if abs(took / nanoseconds - 1) < _CLOSE:
            break
        wanted = round(elements * nanoseconds / took)
        elements = max(_FEWEST_ELEMENTS, min(_MOST_ELEMENTS, wanted))
    return work
