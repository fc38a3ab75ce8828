"""An accelerator that is none: calls queue work on streams, a clock says when each would run, and a recorder reports it as torch's profiler does."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torchstone.worker.probes.device_time.device_intervals import DeviceActivity, DeviceInterval, RuntimeCall

MICROSECOND = 1_000


@dataclass
class FakeAccelerator:
    """Runs kernels one after another on each stream, from when they are launched on; the host does not wait for them.

    ``launch_cost`` are the nanoseconds that the host takes for a launch. ``shown`` filters what the recorder reports.
    """

    launch_cost: int = 2 * MICROSECOND
    clock_offset: int = 0
    shown: Callable[[DeviceActivity], DeviceActivity] = lambda activity: activity
    intervals: list[DeviceInterval] = field(default_factory=list)
    calls: list[RuntimeCall] = field(default_factory=list)
    sessions: int = 0
    _free_at: dict[int, int] = field(default_factory=dict)
    _correlation: int = 0

    def launch(self, nanoseconds: int, stream: int = 7, name: str = "kernel") -> None:
        """Queue a kernel."""
        self.launch_graph([nanoseconds], stream, name)

    def launch_graph(self, kernels: Sequence[int], stream: int = 7, name: str = "kernel") -> None:
        """Queue several kernels with one launch, as the replay of a CUDA graph does."""
        began = time.time_ns()
        self._correlation += 1
        _wait_until(began + self.launch_cost)
        self.calls.append(RuntimeCall("cudaLaunchKernel", began, time.time_ns(), self._correlation))
        for nanoseconds in kernels:
            start = max(time.time_ns(), self._free_at.get(stream, 0))
            end = self._free_at[stream] = start + nanoseconds
            offset = self.clock_offset
            self.intervals.append(
                DeviceInterval(name, "kernel", start + offset, end + offset, 0, stream, self._correlation, 0)
            )

    def synchronize(self) -> None:
        """Wait until all streams are free."""
        began = time.time_ns()
        _wait_until(max(self._free_at.values(), default=0))
        self.calls.append(RuntimeCall("cudaDeviceSynchronize", began, time.time_ns(), 0))

    def record(self, run: Callable[[], None], device_type: str) -> DeviceActivity:
        """Return what ``run`` makes the device do."""
        assert device_type == "cuda"
        self.sessions += 1
        self.intervals.clear()
        self.calls.clear()
        run()
        return self.shown(
            DeviceActivity(
                tuple(sorted(self.intervals, key=lambda each: (each.start, each.end))), tuple(self.calls)
            )
        )


def _wait_until(moment: int) -> None:
    while time.time_ns() < moment:
        pass
