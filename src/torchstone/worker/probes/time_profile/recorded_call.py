"""Run torch's profiler around one call, and return what it recorded as typed events."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.autograd import DeviceType  # type: ignore[attr-defined]

from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time.device_intervals import DeviceInterval, read_activity
from torchstone.worker.probes.device_time.recording import activity_name, find_profiler_problem

_HOST_WORK = frozenset({"cpu_op", "user_annotation"})
_GRAPH_HASH = re.compile(r"^(?:## )?Call CompiledFxGraph \w+.*")
_OF_PROFILER = ("ProfilerStep", "PyTorch Profiler", "aten::profiler::")


@dataclass(frozen=True, slots=True)
class HostOperator:
    """An operator, or a region with a name, on a thread of the host; times are in Unix nanoseconds."""

    name: str
    start: int
    end: int
    thread: int
    correlation: int
    dtype: str


@dataclass(frozen=True)
class Recording:
    """What happened in one call: ``wall`` nanoseconds, operators on the host, work on the device, and torch's tree of events."""

    wall: int
    host: tuple[HostOperator, ...]
    device: tuple[DeviceInterval, ...]
    tree: Any = None


class ProfilerError(Exception):
    """The profiler recorded nothing that can be used; the message says why."""


def record_call(call: Callable[[], object], device: Device, *, host: bool, stack: bool = False) -> Recording:
    """Return the recording of one call; with ``stack``, torch's tree too, which has modules and lines."""
    from torch.profiler import kineto_available, profile  # noqa: PLC0415  (slow to import, and only now needed)

    if not kineto_available():
        raise ProfilerError("this torch was built without its profiler (kineto)")
    activities = _activities(device, host=host)
    device.synchronize()
    try:
        with profile(activities=activities, with_stack=stack, record_shapes=stack) as profiler:
            start = time.perf_counter_ns()
            call()
            device.synchronize()
            wall = time.perf_counter_ns() - start
        results = profiler.profiler.kineto_results if profiler.profiler else None
    except AssertionError as error:
        raise ProfilerError(f"torch's profiler failed: {error}") from error
    if results is None:
        raise ProfilerError("torch's profiler returned nothing")
    events = results.events()
    tree = results.experimental_event_tree() if stack else None
    return Recording(wall, read_operators(events), read_activity(events).intervals, tree)


def _activities(device: Device, *, host: bool) -> list[Any]:
    """Return what to record; raise an error if this torch cannot record the device."""
    from torch.profiler import ProfilerActivity  # noqa: PLC0415  (slow to import, and only now needed)

    found = [ProfilerActivity.CPU] if host or device.type == "cpu" else []
    if device.type != "cpu":
        if problem := find_profiler_problem(device.type):
            raise ProfilerError(problem)
        found.append(getattr(ProfilerActivity, activity_name(device.type)))
    return found


def read_operators(events: Any) -> tuple[HostOperator, ...]:  # noqa: ANN401  (torch's own list)
    """Return the operators among torch's events, in order of start, outer ones first."""
    found = [
        HostOperator(
            _GRAPH_HASH.sub("CompiledFxGraph", event.name()),
            event.start_ns(),
            event.start_ns() + max(0, event.duration_ns()),
            event.start_thread_id(),
            event.correlation_id(),
            _dtype_of(event),
        )
        for event in events
        if event.device_type() == DeviceType.CPU and _is_operator(_activity_type(event), event.name())
    ]
    return tuple(sorted(found, key=lambda each: (each.start, -each.end)))


def _activity_type(event: Any) -> str:  # noqa: ANN401  (torch's own event)
    """Return kineto's type of an event; empty if this torch does not tell."""
    read = getattr(event, "activity_type", None)
    return str(read()) if read is not None else ""


def _is_operator(activity: str, name: str) -> bool:
    if name.startswith(_OF_PROFILER):
        return False
    return activity in _HOST_WORK or (not activity and ("::" in name or name.startswith(("triton_", "cpp_"))))


def _dtype_of(event: Any) -> str:  # noqa: ANN401  (torch's own event)
    """Return the dtype of the first input that is a tensor, as torch's profiler calls it."""
    for shape, dtype in zip(event.shapes(), event.dtypes(), strict=False):
        if shape and dtype not in {"", "Scalar", "ScalarList"}:
            return str(dtype)
    return ""
