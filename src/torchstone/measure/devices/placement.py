"""Which device each case is measured on: with ``--device cuda:all``, the one that has the fewest cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from torchstone.core.errors import UsageError, printable
from torchstone.core.records import Case
from torchstone.core.run_settings import Environment, Settings

ALL = ":all"
"""The end of a device's name that stands for all devices of its kind."""


def is_all(device: str) -> bool:
    """Return whether a device as the user names it stands for all of its kind; raise UsageError for the CPU, of which there is one."""
    if device == f"cpu{ALL}":
        raise UsageError(f"--device {device}: there is only one CPU", advice="--device cpu")
    return device.endswith(ALL) and device != ALL


def kind_of_all(device: str) -> str:
    """Return the device of the plan for a device as the user names it: ``cuda`` for ``cuda:all``."""
    return device.removesuffix(ALL) if is_all(device) else device


class DevicePlacement:
    """Places cases on devices. ``devices`` are those of one kind; without them, a case has the device of its plan."""

    def __init__(self, devices: Sequence[str] = ()) -> None:
        self._devices = tuple(devices)
        self._placed: dict[int, str] = {}

    def place(self, number: int, case: Case) -> str:
        """Return the device for a case, which it keeps until it is removed."""
        if number not in self._placed:
            self._placed[number] = self._choose(case.variant.device)
        return self._placed[number]

    def remove(self, number: int) -> None:
        """Free the place of a case."""
        self._placed.pop(number, None)

    def _choose(self, planned: str) -> str:
        fitting = [device for device in self._devices if device.partition(":")[0] == planned]
        if not fitting:
            return planned
        used = Counter(self._placed.values())
        return min(fitting, key=lambda device: used[device])


def list_places(settings: Settings, environment: Environment) -> tuple[str, ...]:
    """Return the devices of a run on all devices; none for a run on one."""
    if not settings.all_devices:
        return ()
    kind = (environment.device or "").partition(":")[0]
    return tuple(f"{kind}:{number}" for number in range(len(environment.accelerators or ())))


def check_alike(settings: Settings, environment: Environment) -> None:
    """Raise UsageError if a run on all devices has different ones: its times would not be comparable."""
    names = dict.fromkeys(str(each.get("name")) for each in environment.accelerators or ())
    if settings.all_devices and len(names) > 1:
        kind = (environment.device or "").partition(":")[0]
        raise UsageError(
            f"--device {kind}{ALL}: the devices differ: {', '.join(map(printable, names))}",
            advice=f"name one, such as --device {kind}:0",
        )
