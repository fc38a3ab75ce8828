"""Find the collective backends of this torch, and the number of ranks that fit on a device."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from torchstone.worker.protocol.replies import CollectivesFound


def find_collectives(device: str) -> CollectivesFound:
    """Return the collective backends of this torch, the device's default one, and the number of ranks that fit."""
    kind, _, index = device.partition(":")
    if not dist.is_available():
        return CollectivesFound()
    available = sorted(name for name in dist.Backend.backend_list if _is_available(name))
    own = dist.Backend.default_device_backend_map.get(kind, "gloo")
    rooms = 1 if index else _count(kind)
    return CollectivesFound(tuple(available), own, rooms)


def _is_available(name: str) -> bool:
    """Return whether a backend was built into this torch, or registered by the user."""
    if name in {dist.Backend.UNDEFINED, "fake", "threaded"}:
        return False
    known = getattr(dist, f"is_{name}_available", None)
    return bool(known()) if known is not None else True


def _count(kind: str) -> int:
    if kind == "cpu":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    current = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if current is not None and current.type == kind:
        return torch.accelerator.device_count()
    return int(torch.get_device_module(kind).device_count())
