"""Wrap one device for the probes: synchronisation and peak memory.

Everything goes through PyTorch's accelerator API or the device's own module, so nothing is specific to a
vendor.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from torchstone.worker.machine.missing_device import explain_missing


class Device:
    """A torch device with its synchronisation and peak memory."""

    def __init__(self, name: str) -> None:
        self.device = torch.device(name)
        self.type = self.device.type
        self._module: ModuleType | None = None if self.type == "cpu" else getattr(torch, self.type, None)

    def activate(self) -> None:
        """Make this device the current one."""
        if self.type != "cpu" and self.device.index is not None:
            torch.accelerator.set_device_index(self.device.index)

    def current_index(self) -> int | None:
        """Return the number of this device among those of its kind; None on a CPU, and if torch does not tell."""
        if self.type == "cpu":
            return None
        index: int | None = self.device.index
        if index is not None:
            return index
        try:
            return torch.accelerator.current_device_index()
        except RuntimeError:
            return None

    def uuid(self) -> str:
        """Return the uuid of this device; empty if torch does not tell."""
        index = self.current_index()
        read = getattr(self._module, "get_device_properties", None)
        if index is None or read is None:
            return ""
        try:
            return str(getattr(read(index), "uuid", ""))
        except (RuntimeError, AssertionError):
            return ""

    @property
    def place(self) -> str:
        """Return which device this is, such as ``cuda:1``; empty for the CPU, of which there is one."""
        if self.type == "cpu":
            return ""
        index: int | None = self.device.index
        if index is None:
            with contextlib.suppress(RuntimeError):  # a private device need not be torch's accelerator
                index = torch.accelerator.current_device_index()
        return self.type if index is None else f"{self.type}:{index}"

    @property
    def synchronize(self) -> Callable[[], None]:
        """Return a function that waits until the device has finished; it does nothing on a CPU."""
        return _do_nothing if self.type == "cpu" else torch.accelerator.synchronize

    def reset_peak(self) -> bool:
        """Reset the peak memory; return False if that is not possible, so no peak can be measured."""
        if self.type == "cpu":
            return _reset_process_peak()
        reset = self._call("reset_peak_memory_stats")
        if reset is None:
            return False
        torch.accelerator.synchronize()
        try:
            reset()
        except (RuntimeError, NotImplementedError):  # a private device need not have an allocator that counts
            return False
        return True

    def peak_bytes(self) -> int | None:
        """Return the peak memory since the last reset: allocated on a device; the resident set on a CPU."""
        if self.type == "cpu":
            return _process_peak()
        read = self._call("max_memory_allocated")
        return None if read is None else int(read())

    def _call(self, name: str) -> Callable[[], Any] | None:
        generic: Callable[[], Any] | None = getattr(torch.accelerator, name, None)
        own: Callable[[], Any] | None = getattr(self._module, name, None)
        return own or generic


def _do_nothing() -> None:
    return


def _reset_process_peak() -> bool:
    """Reset the kernel's high-water mark of this process (Linux; needs no privileges)."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return False
    return True


def _process_peak() -> int | None:
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        return None
    return None


def find_problem(name: str) -> str:
    """Return why a device cannot be used here; empty if it can."""
    return find_problem_and_remedy(name)[0]


def find_problem_and_remedy(name: str) -> tuple[str, str]:
    """Return why a device cannot be used here, and what can be done about it; both are empty if it can."""
    try:
        device = torch.device(name)
    except RuntimeError:
        return f"torch knows no device '{name}'", "name a device such as cuda, cuda:1 or xpu"
    if device.type in {"cpu", "meta"}:
        meta = "nothing can be measured on the meta device", "name a device that computes"
        return ("", "") if device.type == "cpu" else meta
    module = getattr(torch, device.type, None)
    is_available = getattr(module, "is_available", None)
    if is_available is None or not is_available():
        why, remedy = explain_missing(device.type)
        return f"no {device.type} device is available here{why and ': '}{why}", remedy
    with contextlib.suppress(AttributeError, RuntimeError):
        count = int(module.device_count()) if module else 0
        if device.index is not None and device.index >= count:
            return f"there is no {name}: {device.type} has {count}", f"count from {device.type}:0"
    return "", ""


def list_devices() -> list[str]:
    """Return the usable devices."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return ["cpu", *([found.type] if found else [])]
