"""What a device did, as typed intervals: kernels, copies and fills, read from the events of torch's profiler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from torch._C._autograd import DeviceType

Kind = Literal["kernel", "copy", "fill"]

_KINDS: dict[str, Kind] = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "fill",
}
"""Activity types of work on a device; others are annotations, waits and overhead of the profiler."""
_NO_WORK = ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait", "Event Record", "ProfilerStep")
_RUNTIME = ("_runtime", "_driver")
_LAUNCHES = ("Launch", "Memcpy", "Memset", "Enqueue", "AppendMemory")


class ProfilerEvent(Protocol):
    """One event of torch's profiler, as kineto reports it: times are Unix nanoseconds."""

    def name(self) -> str:
        """Return what ran."""

    def device_type(self) -> DeviceType:
        """Return the kind of device it ran on; the CPU for calls of the host."""

    def device_index(self) -> int:
        """Return the number of the device."""

    def device_resource_id(self) -> int:
        """Return the stream."""

    def start_ns(self) -> int:
        """Return when it began."""

    def duration_ns(self) -> int:
        """Return how long it took."""

    def correlation_id(self) -> int:
        """Return the number that a launch shares with what it launched."""

    def linked_correlation_id(self) -> int:
        """Return the number of the operator on the host; 0 if it is not known."""


@dataclass(frozen=True, slots=True)
class DeviceInterval:
    """One kernel, copy or fill on a device, in Unix nanoseconds.

    ``correlation`` is that of the runtime call that launched it; ``operator`` that of the operator on the host, 0 if the
    profiler does not know it, or the host was not recorded.
    """

    name: str
    kind: Kind
    start: int
    end: int
    device: int
    stream: int
    correlation: int
    operator: int


@dataclass(frozen=True, slots=True)
class RuntimeCall:
    """One call of the device's runtime or driver on the host, in Unix nanoseconds: a launch, a copy, a wait."""

    name: str
    start: int
    end: int
    correlation: int

    @property
    def waits(self) -> bool:
        """Return whether the host waits for the device in it."""
        return "Synchronize" in self.name or self.name in {"cudaMemcpy", "hipMemcpy"}

    @property
    def launches(self) -> bool:
        """Return whether it gives the device something to do."""
        return any(part in self.name for part in _LAUNCHES)


@dataclass(frozen=True)
class DeviceActivity:
    """What the profiler recorded: intervals on devices and runtime calls on the host, each in order of start."""

    intervals: tuple[DeviceInterval, ...]
    runtime_calls: tuple[RuntimeCall, ...]

    def on_device(self, index: int) -> DeviceActivity:
        """Return the activity of one device; the runtime calls are not assigned to devices.

        If only one device was active, it is that one, whatever number the profiler gives it.
        """
        if len({each.device for each in self.intervals}) == 1:
            return self
        mine = tuple(each for each in self.intervals if each.device == index)
        return DeviceActivity(mine, self.runtime_calls)


def read_activity(events: Iterable[ProfilerEvent]) -> DeviceActivity:
    """Return the device intervals and runtime calls among the events of torch's profiler."""
    intervals, calls = [], []
    for event in events:
        on_host = event.device_type() == DeviceType.CPU
        activity = _activity_type(event)
        start = event.start_ns()
        end = start + max(0, event.duration_ns())
        if on_host:
            if _is_runtime_call(activity, event.name()):
                calls.append(RuntimeCall(event.name(), start, end, event.correlation_id()))
        elif (kind := _kind_of(activity, event)) is not None:
            intervals.append(
                DeviceInterval(
                    event.name(),
                    kind,
                    start,
                    end,
                    event.device_index(),
                    event.device_resource_id(),
                    event.correlation_id(),
                    event.linked_correlation_id(),
                )
            )
    intervals.sort(key=lambda each: (each.start, each.end))
    calls.sort(key=lambda each: (each.start, each.end))
    return DeviceActivity(tuple(intervals), tuple(calls))


def _activity_type(event: ProfilerEvent) -> str:
    """Return kineto's type of an event; empty if this torch does not tell."""
    read = getattr(event, "activity_type", None)
    return str(read()) if read is not None else ""


def _kind_of(activity: str, event: ProfilerEvent) -> Kind | None:
    """Return what the device does in an event; None if it is no work."""
    if activity:
        return _KINDS.get(activity)
    name = event.name()
    is_annotation = getattr(event, "is_user_annotation", None)
    if name.startswith(_NO_WORK) or (is_annotation is not None and is_annotation()):
        return None
    if name.startswith("Memcpy"):
        return "copy"
    return "fill" if name.startswith("Memset") else "kernel"


def _is_runtime_call(activity: str, name: str) -> bool:
    if activity:
        return activity.endswith(_RUNTIME)
    return name.startswith(("cuda", "cu", "hip", "ur", "ze")) and not name.startswith("aten")
