"""Read the state of an NVIDIA device from the driver's library, through the package nvidia-ml-py, if it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from torchstone.worker.machine.device_state.snapshots import (
    POWER_CAP,
    TOO_HOT,
    DeviceFacts,
    DeviceProcess,
    NoStateError,
    Snapshot,
    find_process,
    name_reasons,
)
from torchstone.worker.protocol.device_state_found import ReadingFound

_CLOCK_SM, _CLOCK_MEMORY, _SENSOR = 1, 2, 0
_VIOLATIONS = {POWER_CAP: 0, TOO_HOT: 1}
_MILLI = 1000.0


class Nvml:
    """One device, through NVML: a reading takes a fraction of a millisecond."""

    name = "nvml"
    is_quick = True

    def __init__(self, uuid: str, index: int | None) -> None:
        try:
            self._nvml: Any = import_module("pynvml")
        except ImportError:
            raise NoStateError("the package nvidia-ml-py is not installed") from None
        try:
            self._nvml.nvmlInit()
            self._handle = self._find(uuid, index)
        except NoStateError:
            raise
        except Exception as error:
            raise NoStateError(f"NVML cannot be used: {error}") from error

    def _find(self, uuid: str, index: int | None) -> Any:  # noqa: ANN401  (a handle of the library)
        """Return the device with this uuid; without one, the device with this number, or the only one."""
        handles = [self._nvml.nvmlDeviceGetHandleByIndex(n) for n in range(self._nvml.nvmlDeviceGetCount())]
        for handle in handles:
            if uuid and plain_uuid(uuid) in self._uuids(handle):
                return handle
        if len(handles) == 1:
            return handles[0]
        if not uuid and index is not None and index < len(handles):
            return handles[index]
        raise NoStateError(f"NVML lists no device with the uuid {uuid or 'that is asked for'}")

    def _uuids(self, handle: Any) -> Iterator[str]:  # noqa: ANN401  (a handle of the library)
        """Yield the uuid of a device, and those of its MIG slices, of which torch sees only one."""
        yield plain_uuid(_text(self._ask("nvmlDeviceGetUUID", handle)))
        for number in range(self._ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
            part = self._ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)
            if part is not None:
                yield plain_uuid(_text(self._ask("nvmlDeviceGetUUID", part)))

    def _ask(self, function: str, *arguments: object) -> Any:  # noqa: ANN401  (whatever the library returns)
        """Return the library's answer; None if this device or driver has none."""
        try:
            return getattr(self._nvml, function)(*arguments)
        except Exception:  # noqa: BLE001  (each device supports other parts, and an old library lacks functions)
            return None

    def read(self) -> ReadingFound | None:
        """Return a reading; None if the device does not answer any more."""
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", self._handle)
        if bits is None:  # the former name
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle)
        found = ReadingFound(
            _number(self._ask("nvmlDeviceGetClockInfo", self._handle, _CLOCK_SM)),
            _number(self._ask("nvmlDeviceGetClockInfo", self._handle, _CLOCK_MEMORY)),
            _number(self._ask("nvmlDeviceGetPowerUsage", self._handle), _MILLI),
            _number(self._ask("nvmlDeviceGetTemperature", self._handle, _SENSOR)),
            name_reasons(bits) if isinstance(bits, int) else (),
        )
        return None if found == ReadingFound() else found

    def snapshot(self) -> Snapshot | None:
        """Return everything about the device; None if it does not answer any more."""
        reading = self.read()
        if reading is None:
            return None
        return Snapshot(self._facts(), reading, self._processes(), self._throttled_for())

    def _facts(self) -> DeviceFacts:
        limit = self._ask("nvmlDeviceGetEnforcedPowerLimit", self._handle)
        return DeviceFacts(
            _text(self._ask("nvmlDeviceGetName", self._handle)),
            plain_uuid(_text(self._ask("nvmlDeviceGetUUID", self._handle))),
            _text(self._ask("nvmlSystemGetDriverVersion")),
            _number(limit, _MILLI),
            _number(self._ask("nvmlDeviceGetMaxClockInfo", self._handle, _CLOCK_SM)),
            _switch(self._ask("nvmlDeviceGetPersistenceMode", self._handle)),
            _switch(_first(self._ask("nvmlDeviceGetEccMode", self._handle))),
            _switch(_first(self._ask("nvmlDeviceGetMigMode", self._handle))),
        )

    def _processes(self) -> tuple[DeviceProcess, ...] | None:
        listed = self._ask("nvmlDeviceGetComputeRunningProcesses", self._handle)
        if listed is None:
            return None
        found = (
            find_process(int(each.pid), _text(self._ask("nvmlSystemGetProcessName", each.pid)))
            for each in listed
        )
        return tuple(each for each in found if each)

    def _throttled_for(self) -> dict[str, int]:
        """Return the nanoseconds of each reason since the driver was started, where it counts them."""
        found = {}
        for reason, policy in _VIOLATIONS.items():
            status = self._ask("nvmlDeviceGetViolationStatus", self._handle, policy)
            if status is not None and isinstance(spent := getattr(status, "violationTime", None), int):
                found[reason] = spent
        return found


def plain_uuid(uuid: str) -> str:
    """Return a uuid without the prefix that only some tools write.

    >>> plain_uuid("GPU-6ff0dbe1"), plain_uuid("MIG-6FF0DBE1")
    ('6ff0dbe1', '6ff0dbe1')
    """
    return uuid.strip().removeprefix("GPU-").removeprefix("MIG-").lower()


def _number(value: object, per: float = 1.0) -> float | None:
    return float(value) / per if isinstance(value, int | float) else None


def _switch(value: object) -> bool | None:
    return bool(value) if isinstance(value, int) else None


def _first(value: object) -> object:
    """Return the present mode of a pair of the present one and the next."""
    return value[0] if isinstance(value, list | tuple) and value else None


def _text(value: object) -> str:
    return (
        value.decode(errors="replace")
        if isinstance(value, bytes)
        else value
        if isinstance(value, str)
        else ""
    )
