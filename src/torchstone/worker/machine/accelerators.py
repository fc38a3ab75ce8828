"""Read facts about accelerators, from torch and from the vendor's own tool.

Nothing here raises.

Standard library and torch only: it also runs inside workers. torch is imported inside functions.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from typing import Any

from torchstone.worker.machine.external_programs import ask

_NO_ACCELERATOR = frozenset({"", "cpu", "meta"})
_NVIDIA_FIELDS = {
    "uuid": "uuid",
    "name": "name",
    "driver": "driver_version",
    "memory_mib": "memory.total",
    "persistence": "persistence_mode",
    "power_limit_w": "power.limit",
    "sm_clock_mhz": "clocks.sm",
    "sm_clock_max_mhz": "clocks.max.sm",
    "memory_clock_max_mhz": "clocks.max.memory",
    "temperature_c": "temperature.gpu",
    "utilization_percent": "utilization.gpu",
}

VendorValue = str | float | None
"""A number if the tool printed one, else its text; None if it stated nothing."""


@dataclass(frozen=True)
class VendorFacts:
    """Facts about one device from the vendor's tool."""

    uuid: str = ""
    name: VendorValue = None
    driver: VendorValue = None
    memory_mib: VendorValue = None
    persistence: VendorValue = None
    power_limit_w: VendorValue = None
    sm_clock_mhz: VendorValue = None
    sm_clock_max_mhz: VendorValue = None
    memory_clock_max_mhz: VendorValue = None
    temperature_c: VendorValue = None
    utilization_percent: VendorValue = None


@dataclass(frozen=True)
class AcceleratorFound:
    """Facts about one device from torch and the vendor's tool; ``memory`` is in bytes."""

    index: int
    name: str
    memory: int | None
    units: int | str | None = None
    architecture: int | str | None = None
    capability: str | None = None
    uuid: str | None = None
    driver: VendorValue = None
    power_limit_w: VendorValue = None
    sm_clock_max_mhz: VendorValue = None
    memory_clock_max_mhz: VendorValue = None
    persistence: VendorValue = None


def read_accelerators(device: str) -> list[AcceleratorFound]:
    """Return the accelerators of the kind that ``device`` names, as torch sees them; none for the CPU.

    This starts the device's driver in the calling process.
    """
    kind = device.partition(":")[0]
    if kind in _NO_ACCELERATOR:
        return []
    with contextlib.suppress(Exception):  # nothing is known about a device that cannot be queried
        import torch  # noqa: PLC0415  (importing this module must not load torch)

        module = torch.get_device_module(kind)
        return _with_vendor_facts([_describe(module, number) for number in range(_count(module, kind))])
    return []


def _count(module: Any, kind: str) -> int:  # noqa: ANN401  (a device's module)
    import torch  # noqa: PLC0415  (importing this module must not load torch)

    current = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if current is not None and current.type == kind:
        return torch.accelerator.device_count()
    return int(module.device_count()) if module.is_available() else 0


def _describe(module: Any, number: int) -> AcceleratorFound:  # noqa: ANN401  (torch.cuda or a module with the same interface)
    """Return what a device's own module states; each module offers other parts of this."""
    name = ""
    found = AcceleratorFound(number, "", None)
    with contextlib.suppress(Exception):
        name = str(module.get_device_name(number))
    with contextlib.suppress(Exception):
        properties = module.get_device_properties(number)
        name = name or str(properties.name)
        found = replace(found, memory=int(properties.total_memory))
        found = replace(
            found,
            units=_stated(properties, "multi_processor_count", name),
            architecture=_stated(properties, "gcnArchName", name),
        )
        if hasattr(properties, "major"):
            found = replace(found, capability=f"{properties.major}.{properties.minor}")
        found = replace(found, driver=_stated(properties, "driver_version", name))  # of Intel devices
        if uuid := getattr(properties, "uuid", None):
            found = replace(found, uuid=str(uuid).removeprefix("GPU-"))
    if found.memory is None:
        with contextlib.suppress(Exception):
            found = replace(found, memory=int(module.mem_get_info(number)[1]))
    return replace(found, name=name or module.__name__.rpartition(".")[2])


def _stated(properties: object, attribute: str, name: str) -> int | str | None:
    """Return a property; None if it only repeats the name, as NVIDIA devices do with their architecture."""
    value = getattr(properties, attribute, None)
    if not value or value == name:
        return None
    return value if isinstance(value, int) else str(value)


def _with_vendor_facts(found: list[AcceleratorFound]) -> list[AcceleratorFound]:
    """Add the vendor's facts: matched by uuid, or by position if both list the same number of devices."""
    listed = read_nvidia() or read_rocm()
    by_uuid = {facts.uuid: facts for facts in listed if facts.uuid}
    complete = []
    for number, each in enumerate(found):
        vendor = by_uuid.get(each.uuid or "")
        if vendor is None and len(listed) == len(found) and not each.uuid:
            vendor = listed[number]
        complete.append(_merge(each, vendor) if vendor else each)
    return complete


def _merge(found: AcceleratorFound, vendor: VendorFacts) -> AcceleratorFound:
    return replace(
        found,
        driver=vendor.driver or found.driver,
        power_limit_w=vendor.power_limit_w,
        sm_clock_max_mhz=vendor.sm_clock_max_mhz,
        memory_clock_max_mhz=vendor.memory_clock_max_mhz,
        persistence=vendor.persistence,
    )


def read_nvidia() -> list[VendorFacts]:
    """Return what ``nvidia-smi`` states about each device; nothing if there is no such tool."""
    fields = list(_NVIDIA_FIELDS.values())
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    answer = ask(query)
    found = []
    for line in answer.out.splitlines() if answer.code == 0 else ():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields):
            stated = zip(_NVIDIA_FIELDS, values, strict=True)
            facts = {name: value for name, value in stated if not value.startswith("[")}
            uuid = facts.pop("uuid", "").removeprefix("GPU-")
            found.append(VendorFacts(uuid, **{name: _value(value) for name, value in facts.items()}))
    return found


def read_nvidia_processes() -> list[tuple[str, int, str]]:
    """Return the processes on NVIDIA devices: uuid of the device, process id, name."""
    fields = "gpu_uuid,pid,process_name"
    answer = ask(["nvidia-smi", f"--query-compute-apps={fields}", "--format=csv,noheader"])
    found = []
    for line in answer.out.splitlines() if answer.code == 0 else ():
        uuid, pid, name = ([part.strip() for part in line.split(",", 2)] + ["", ""])[:3]
        if pid.isdecimal():
            found.append((uuid.removeprefix("GPU-"), int(pid), name))
    return found


def read_nvidia_reasons() -> dict[str, int]:
    """Return, by uuid, the driver's bits for why an NVIDIA device does not run at its highest clock."""
    for field in (
        "clocks_event_reasons.active",
        "clocks_throttle_reasons.active",
    ):  # the new and the old name
        answer = ask(["nvidia-smi", f"--query-gpu=uuid,{field}", "--format=csv,noheader"])
        if answer.code == 0:
            pairs = (line.partition(",") for line in answer.out.splitlines())
            return {
                uuid.strip().removeprefix("GPU-"): int(bits, 16)
                for uuid, _, bits in pairs
                if bits.strip().startswith("0x")
            }
    return {}


def _value(text: str) -> str | float:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number == int(number) else number


def read_rocm() -> list[VendorFacts]:
    """Return what ``rocm-smi`` states about each device; nothing if there is no such tool."""
    answer = ask(["rocm-smi", "--showdriverversion", "--showmaxpower", "--json"])
    try:
        stated = json.loads(answer.out) if answer.code == 0 else {}
    except ValueError:
        return []
    if not isinstance(stated, dict):
        return []
    driver = stated.get("system", {}).get("Driver version")
    cards = [value for name, value in sorted(stated.items()) if name.startswith("card")]
    return [_rocm_card(card, driver) for card in cards if isinstance(card, dict)]


def _rocm_card(card: dict[str, object], driver: object) -> VendorFacts:
    powers = [value for name, value in card.items() if name.startswith("Max Graphics Package Power")]
    return VendorFacts(
        driver=str(driver) if driver else None, power_limit_w=_value(str(powers[-1])) if powers else None
    )
