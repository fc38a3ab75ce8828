"""Choose how many cases run at once."""

from __future__ import annotations

import os

from torchstone.core.records import Run
from torchstone.core.run_settings import Environment
from torchstone.core.vocabulary import Probe
from torchstone.measure.devices.placement import list_places
from torchstone.measure.measuring import Settings
from torchstone.measure.supervisor import WorkerLimits

CORES_A_CASE = 2
"""A compiling worker keeps one core busy; a timed one needs another to submit work."""

DEVICE_MEMORY_A_CASE = 16 << 30
"""Bytes of a device; a case that runs out of memory beside others is repeated with fewer."""

HOST_MEMORY_A_CASE = 6 << 30
"""Bytes of the host: torch with its accelerator libraries, a model, and the compiler."""


def choose_limits(settings: Settings, run: Run) -> WorkerLimits:
    """Choose how many workers run at once: as many as have their own cores, so that none disturbs timing.

    On an accelerator, as many as cores and memory allow: they load and compile at the same time, and leave the
    device to the one that is timed. Compile caches are timed as a whole, so one at a time.
    """
    probes = {case.probe for case in run.plan}
    on_cpu = [case.variant.device == "cpu" for case in run.plan]
    if Probe.SCALING in probes:
        jobs = 1  # a round is compared with the smallest one, which is measured first
    elif settings.jobs:
        jobs = settings.jobs
    elif probes == {Probe.INSTRUCTIONS} and settings.counter != "cpu_time":
        jobs = _cores()  # one thread each; counts do not depend on other processes
    elif all(on_cpu):
        jobs = max(1, _cores() // max(1, settings.threads or 1))
    elif any(on_cpu) or not probes <= {Probe.PERFORMANCE, Probe.ACCURACY}:
        jobs = 1
    else:
        jobs = _jobs_on_devices(settings, run.environment)
    places = list_places(settings, run.environment)
    return WorkerLimits(settings.timeout, settings.memory_limit, jobs, places)


def _jobs_on_devices(settings: Settings, environment: Environment) -> int:
    """Return how many cases cores, host memory and device memory allow; one if the devices do not state their memory."""
    devices = environment.accelerators or ()
    sizes = [size for each in devices if isinstance(size := each.get("memory"), int)]
    if not sizes or len(sizes) < len(devices):
        return 1
    places = len(list_places(settings, environment)) or 1
    allowed = [_cores() // CORES_A_CASE, places * (min(sizes) // DEVICE_MEMORY_A_CASE)]
    memory = environment.machine.get("memory")
    total = memory.get("total") if isinstance(memory, dict) else None
    if isinstance(total, int):
        allowed.append(total // HOST_MEMORY_A_CASE)
    return max(1, min(allowed))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
