"""Accelerators: what torch says of them, and what the vendor's own tool adds. Nothing here raises.

Standard library and torch only: it also runs inside workers. torch is imported inside functions.
"""

from __future__ import annotations

import contextlib
import json
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


def read_accelerators(device: str) -> list[dict[str, Any]]:
    """The accelerators of the kind that ``device`` names, as torch sees them; none for the CPU, which is left untouched.

    This starts the device's driver in the calling process.
    """
    kind = device.partition(":")[0]
    if kind in _NO_ACCELERATOR:
        return []
    with contextlib.suppress(Exception):  # a device that cannot be asked is a device nothing is known of
        import torch  # noqa: PLC0415  (importing this module must not load torch)

        module = torch.get_device_module(kind)
        found = [_describe(module, number) for number in range(_count(module, kind))]
        _add_vendor_facts(found)
        return found
    return []


def _count(module: Any, kind: str) -> int:  # noqa: ANN401  (a device's module)
    import torch  # noqa: PLC0415  (importing this module must not load torch)

    current = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if current is not None and current.type == kind:
        return torch.accelerator.device_count()
    return int(module.device_count()) if module.is_available() else 0


def _describe(module: Any, number: int) -> dict[str, Any]:  # noqa: ANN401  (torch.cuda or a module with the same interface)
    """What a device's own module says of one device; each module offers other parts of this."""
    facts: dict[str, Any] = {"index": number, "name": None, "memory": None}
    with contextlib.suppress(Exception):
        facts["name"] = str(module.get_device_name(number))
    with contextlib.suppress(Exception):
        properties = module.get_device_properties(number)
        facts["name"] = facts["name"] or str(properties.name)
        facts["memory"] = int(properties.total_memory)
        for fact, attribute in (("units", "multi_processor_count"), ("architecture", "gcnArchName")):
            value = getattr(properties, attribute, None)
            if value and value != facts["name"]:  # which NVIDIA devices repeat as their architecture
                facts[fact] = value if isinstance(value, int) else str(value)
        if hasattr(properties, "major"):
            facts["capability"] = f"{properties.major}.{properties.minor}"
        if uuid := getattr(properties, "uuid", None):
            facts["uuid"] = str(uuid).removeprefix("GPU-")
    if facts["memory"] is None:
        with contextlib.suppress(Exception):
            facts["memory"] = int(module.mem_get_info(number)[1])
    facts["name"] = facts["name"] or module.__name__.rpartition(".")[2]
    return facts


def _add_vendor_facts(found: list[dict[str, Any]]) -> None:
    """Lay what the vendor's tool says over what torch said: by uuid, or by position where both list as many."""
    listed = read_nvidia() or read_rocm()
    by_uuid = {facts["uuid"]: facts for facts in listed if "uuid" in facts}
    for number, facts in enumerate(found):
        vendor = by_uuid.get(facts.get("uuid", ""))
        if vendor is None and len(listed) == len(found) and "uuid" not in facts:
            vendor = listed[number]
        for name in ("driver", "power_limit_w", "sm_clock_max_mhz", "memory_clock_max_mhz", "persistence"):
            if vendor and name in vendor:
                facts[name] = vendor[name]


def read_nvidia() -> list[dict[str, Any]]:
    """What ``nvidia-smi`` says of each device, with numbers as numbers; nothing where there is no such tool."""
    fields = list(_NVIDIA_FIELDS.values())
    query = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    answer = ask(query)
    found = []
    for line in answer.out.splitlines() if answer.code == 0 else ():
        values = [value.strip() for value in line.split(",")]
        if len(values) == len(fields):
            stated = zip(_NVIDIA_FIELDS, values, strict=True)
            facts = {name: _value(value) for name, value in stated if not value.startswith("[")}
            facts["uuid"] = str(facts.get("uuid", "")).removeprefix("GPU-")
            found.append(facts)
    return found


def read_nvidia_processes() -> list[tuple[str, int, str]]:
    """The processes on NVIDIA devices: uuid of the device, process id, name."""
    fields = "gpu_uuid,pid,process_name"
    answer = ask(["nvidia-smi", f"--query-compute-apps={fields}", "--format=csv,noheader"])
    found = []
    for line in answer.out.splitlines() if answer.code == 0 else ():
        uuid, pid, name = ([part.strip() for part in line.split(",", 2)] + ["", ""])[:3]
        if pid.isdecimal():
            found.append((uuid.removeprefix("GPU-"), int(pid), name))
    return found


def read_nvidia_reasons() -> dict[str, int]:
    """Why each NVIDIA device does not run at its highest clock, as the bits that the driver gives, by uuid."""
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


def _value(text: str) -> str | float | int:
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number == int(number) else number


def read_rocm() -> list[dict[str, Any]]:
    """What ``rocm-smi`` says of each device; nothing where there is no such tool."""
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


def _rocm_card(card: dict[str, Any], driver: object) -> dict[str, Any]:
    facts: dict[str, Any] = {"driver": str(driver)} if driver else {}
    for name, value in card.items():
        if name.startswith("Max Graphics Package Power"):
            facts["power_limit_w"] = _value(str(value))
    return facts
