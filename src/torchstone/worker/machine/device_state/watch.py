"""Watch a device while it is timed: before, between blocks where that is quick, and after."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from torchstone.worker.machine.device_state.nvidia_smi import NvidiaSmi
from torchstone.worker.machine.device_state.nvml import Nvml
from torchstone.worker.machine.device_state.other_tools import RocmSmi, XpuSmi
from torchstone.worker.machine.device_state.snapshots import (
    THROTTLING,
    DeviceProcess,
    NoStateError,
    Snapshot,
    StateSource,
)
from torchstone.worker.process_tree import ancestors_of
from torchstone.worker.protocol.device_state_found import DeviceStateFound, ReadingFound

BETWEEN = 0.5  # seconds between two readings
MOST_READINGS = 16
LEAST_THROTTLED = 1_000_000  # nanoseconds by the driver's own count

SOURCES: dict[str, tuple[Callable[[str, int | None], StateSource], ...]] = {
    "cuda": (Nvml, NvidiaSmi),
    "hip": (RocmSmi,),
    "xpu": (XpuSmi,),
}
"""What tells the state of a kind of device, best first."""


def open_source(kind: str, uuid: str, index: int | None) -> StateSource:
    """Return the best source for a device; raise NoStateError with the reasons if there is none."""
    problems = []
    for make in SOURCES.get(kind, ()):
        try:
            return make(uuid, index)
        except NoStateError as error:
            problems.append(str(error))
    raise NoStateError("; ".join(problems) or f"no tool is known that tells it for {kind} devices")


class DeviceWatch:
    """Watches one device from construction on."""

    def __init__(self, source: StateSource) -> None:
        self._source = source
        self._before = source.snapshot()
        self._during: list[ReadingFound] = []
        self._latest = time.monotonic()

    def look(self) -> None:
        """Take a reading between two blocks, if that is quick and the latest one is old enough."""
        if not self._source.is_quick or len(self._during) >= MOST_READINGS:
            return
        if time.monotonic() - self._latest < BETWEEN:
            return
        if (reading := self._source.read()) is not None:
            self._during.append(reading)
        self._latest = time.monotonic()

    def end(self) -> DeviceStateFound | None:
        """Return what was seen; None if the device never answered."""
        before, after = self._before, self._source.snapshot()
        last = after or before
        if last is None:
            return None
        facts = last.facts
        return DeviceStateFound(
            self._source.name,
            facts.name,
            facts.uuid,
            facts.driver,
            facts.power_limit_w,
            facts.sm_clock_max_mhz,
            facts.persistence,
            facts.ecc,
            facts.mig,
            before.reading if before else None,
            tuple(self._during),
            after.reading if after else None,
            find_throttling(before, self._during, after),
            None if facts.mig else find_others(before, after),
        )


def find_throttling(
    before: Snapshot | None, during: Sequence[ReadingFound], after: Snapshot | None
) -> tuple[str, ...]:
    """Return the faults that lowered the clock while the device was watched: as read, and as the driver counted."""
    readings = [*(each.reading for each in (before, after) if each), *during]
    found = {reason: None for reading in readings for reason in reading.reasons if reason in THROTTLING}
    if before and after:
        for reason, spent in after.throttled_for.items():
            if reason in THROTTLING and spent - before.throttled_for.get(reason, spent) >= LEAST_THROTTLED:
                found[reason] = None
    return tuple(found)


def find_others(
    before: Snapshot | None, after: Snapshot | None, own: int | None = None
) -> tuple[str, ...] | None:
    """Return the processes of others on the device, before or after; None if they cannot be told from the own ones.

    ``own`` is this process. Its relatives, which the same run started, are no others. In a container the driver may list numbers of another namespace: then
    this process is not among them.
    """
    own = os.getpid() if own is None else own
    listed: dict[int, DeviceProcess] = {}
    for snapshot in (before, after):
        for process in (snapshot.processes or ()) if snapshot else ():
            listed[process.pid] = process
    known = [each.processes for each in (before, after) if each and each.processes is not None]
    if not known or own not in listed:
        return None
    family = set(ancestors_of(own)[:2])
    return tuple(
        f"{each.name or 'process'} (process {pid})"
        for pid, each in sorted(listed.items())
        if pid != own and family.isdisjoint(each.ancestors)
    )
