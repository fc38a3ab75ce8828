"""What can be asked of a device: fixed facts, a reading of this moment, and the processes on it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torchstone.worker.process_tree import ancestors_of
from torchstone.worker.protocol.device_state_found import ReadingFound

POWER_CAP = "power cap"
TOO_HOT = "too hot"
NVIDIA_REASONS = {
    0x001: "idle",
    0x002: "application clocks",
    0x004: POWER_CAP,
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: TOO_HOT,
    0x040: TOO_HOT,
    0x080: "power brake",
    0x100: "display clocks",
}
"""Why a clock is below the highest one, by the driver's bits."""

THROTTLING = frozenset({"hardware slowdown", TOO_HOT, "power brake"})
"""The reasons that are faults. A device at its power limit works as it is set up, and does so in every run."""


def name_reasons(bits: int) -> tuple[str, ...]:
    """Return the reasons of the driver's bits, in words.

    >>> name_reasons(0x64)
    ('power cap', 'too hot')
    """
    return tuple(dict.fromkeys(name for bit, name in NVIDIA_REASONS.items() if bits & bit))


@dataclass(frozen=True)
class DeviceProcess:
    """A process that uses a device, with its ancestors at that moment: a worker of the same run may have ended by the time they are asked for."""

    pid: int
    name: str = ""
    ancestors: tuple[int, ...] = ()


def find_process(pid: int, name: str) -> DeviceProcess | None:
    """Return a process that a tool lists; None if it has ended meanwhile, so that it can disturb nothing any more."""
    ancestors = tuple(ancestors_of(pid))
    if not ancestors and not _exists(pid):
        return None
    return DeviceProcess(pid, name, ancestors)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


@dataclass(frozen=True)
class DeviceFacts:
    """What does not change while a device is timed."""

    name: str = ""
    uuid: str = ""
    driver: str = ""
    power_limit_w: float | None = None
    sm_clock_max_mhz: float | None = None
    persistence: bool | None = None
    ecc: bool | None = None
    mig: bool | None = None


@dataclass(frozen=True)
class Snapshot:
    """The device at one moment, with everything that its tool tells.

    ``throttled_for`` has the nanoseconds that the driver counted for each reason since it was started; ``processes`` is None if not told.
    """

    facts: DeviceFacts
    reading: ReadingFound
    processes: tuple[DeviceProcess, ...] | None = None
    throttled_for: Mapping[str, int] = field(default_factory=dict)


class StateSource(Protocol):
    """A library or tool that tells the state of one device."""

    @property
    def name(self) -> str:
        """Return the name of the library or tool."""

    @property
    def is_quick(self) -> bool:
        """Return whether a reading takes so little that it can be taken between timed blocks."""

    def snapshot(self) -> Snapshot | None:
        """Return everything about the device; None if it does not answer any more."""

    def read(self) -> ReadingFound | None:
        """Return a reading; None if it does not answer any more."""


class NoStateError(Exception):
    """Nothing tells the state of a device; the message says why."""
