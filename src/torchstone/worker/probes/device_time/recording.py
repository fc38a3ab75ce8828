"""Run torch's profiler around calls, and return what the device did meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import torch

from torchstone.worker.probes.device_time.device_intervals import DeviceActivity, read_activity


class NoDeviceActivityError(Exception):
    """The profiler does not show what the device did; the message says why."""


def find_profiler_problem(device_type: str) -> str:
    """Return why torch's profiler cannot record this kind of device; empty if it can."""
    if device_type == "cpu":
        return "a CPU runs the calls itself, so there is no device time"
    activity = activity_name(device_type)
    known = _supported()
    if not known:
        return "this torch was built without its profiler (kineto)"
    if activity not in known:
        return f"torch's profiler does not record {device_type} devices here"
    return ""


def record_activity(
    run: Callable[[], None], device_type: str, *, with_host: bool = False, with_stack: bool = False
) -> DeviceActivity:
    """Return the activity of all devices of this type while ``run`` runs; it has to wait for the device itself at its end.

    Only the device and its runtime are recorded, which costs the host little, unless ``with_host`` asks for operators too.
    Raise NoDeviceActivityError if nothing can be recorded. An exception of ``run`` passes.
    """
    return read_activity(profile_events(run, device_type, with_host=with_host, with_stack=with_stack))


def profile_events(
    run: Callable[[], None], device_type: str, *, with_host: bool = False, with_stack: bool = False
) -> list[torch._C._autograd._KinetoEvent]:
    """Return all events of torch's profiler while ``run`` runs; see ``record_activity``."""
    if problem := find_profiler_problem(device_type):
        raise NoDeviceActivityError(problem)
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415  (slow to import, and only now needed)

    activities = [getattr(ProfilerActivity, activity_name(device_type))]
    if with_host:
        activities.append(ProfilerActivity.CPU)
    failed: BaseException | None = None
    try:
        with profile(activities=activities, with_stack=with_stack) as profiler:
            try:
                run()
            except BaseException as error:  # noqa: BLE001  (the profiler has to stop first; it is raised again below)
                failed = error
        results = profiler.profiler.kineto_results if profiler.profiler else None
        events = list(results.events()) if results is not None else []
    except RuntimeError as error:
        if failed is None:
            raise NoDeviceActivityError(f"torch's profiler failed: {error}") from error
        events = []
    if failed is not None:
        raise failed
    return events


def activity_name(device_type: str) -> str:
    """Return the name of the profiler's activity for a kind of device; a renamed private backend has the generic one."""
    if device_type == torch._C._get_privateuse1_backend_name():
        return "PrivateUse1"
    return device_type.upper()


def _supported() -> frozenset[str]:
    """Return the names of the activities that the profiler of this torch can record."""
    from torch._C._autograd import _supported_activities, kineto_available  # noqa: PLC0415  (not in every torch)

    return frozenset(each.name for each in _supported_activities()) if kineto_available() else frozenset()
