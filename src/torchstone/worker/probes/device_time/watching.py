"""Watch the state of the device while a case is timed, and add it to the result.

A case on a throttled or shared device was disturbed.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from torchstone.core.caution_kinds import CautionKind
from torchstone.worker.machine.device_state.snapshots import NoStateError
from torchstone.worker.machine.device_state.watch import DeviceWatch, open_source
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.reply import Result
from torchstone.worker.protocol.device_state_found import DeviceStateFound

MOST_NAMED = 3  # processes


def watch_device(device: Device, result: Result) -> DeviceWatch | None:
    """Return a watch of the device; None on a CPU, and where nothing tells its state: then the result says why."""
    if device.type == "cpu":
        return None
    kind = "hip" if device.type == "cuda" and torch.version.hip else device.type
    try:
        return DeviceWatch(open_source(kind, device.uuid(), device.current_index()))
    except NoStateError as error:
        result.caution(CautionKind.DEVICE_STATE_UNKNOWN, why=str(error))
        return None


def note_device_state(watch: DeviceWatch | None, result: Result) -> None:
    """Add what was seen to the details of the result, with cautions if the device was throttled or shared."""
    if watch is None:
        return
    found = watch.end()
    if found is None:
        result.caution(CautionKind.DEVICE_STATE_UNKNOWN, why="the device stopped answering")
        return
    if found.after is None:
        why = "the device stopped answering while it was timed"
        result.caution(CautionKind.DEVICE_STATE_UNKNOWN, why=why)
    result.details = replace(result.details, device_state=found)
    if found.throttled:
        result.caution(CautionKind.DEVICE_THROTTLED, reasons=", ".join(found.throttled), **_clocks(found))
    if found.processes:
        named, more = found.processes[:MOST_NAMED], len(found.processes) - MOST_NAMED
        processes = ", ".join(named) + (f" and {more} more" if more > 0 else "")
        result.caution(CautionKind.DEVICE_SHARED, processes=processes)


def _clocks(found: DeviceStateFound) -> dict[str, float]:
    """Return the lowest clock that was read, and the highest one that the device has, as far as they are known."""
    readings = (*found.during, *((found.after,) if found.after else ()))
    known = [each.sm_clock_mhz for each in readings if each.sm_clock_mhz is not None]
    clocks = {"clock": min(known, default=None), "clock_max": found.sm_clock_max_mhz}
    return {name: value for name, value in clocks.items() if value is not None}
