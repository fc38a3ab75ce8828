"""The machine, read from ``/proc`` and ``/sys``. What cannot be known is None, and nothing here raises.

Standard library only: it also runs inside workers. ``root`` is for tests, which bring their own ``/proc`` and ``/sys``.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torchstone.worker.machine.external_programs import ask, first_line

ROOT = Path("/")
_CPU = "sys/devices/system/cpu"
_UNLIMITED = 1 << 60  # how version 1 of control groups writes "no limit"
_NO_RANDOMIZE = 0x0040000  # the personality that `setarch -R` gives


def read_machine(root: Path = ROOT) -> dict[str, Any]:
    """All that is known of the machine; bytes and counts are plain numbers."""
    return {
        "host": platform.node(),
        "os": read_os(root),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu": {
            "model": read_cpu_model(root),
            "family": read_cpu_family(root),
            "governor": read_governor(root),
            "turbo": read_turbo(root),
            "smt": read_smt(root),
            "numa_nodes": count_numbered(root / "sys/devices/system/node", "node") or None,
        },
        "cores": read_cores(root),
        "memory": {"total": read_meminfo(root).get("MemTotal"), "limit": memory_limit(root)},
        "virtual_machine": read_virtual_machine(root),
        "container": read_container(root),
    }


def read(path: Path) -> str:
    """A small file's text, without the space around it; empty where there is none or it may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n \t")
    except (OSError, ValueError):
        return ""


def read_number(path: Path) -> int | None:
    """The whole number that a file holds."""
    text = read(path)
    return int(text) if text.removeprefix("-").isdecimal() else None


def _switch(path: Path) -> bool | None:
    number = read_number(path)
    return None if number is None else number == 1


def read_os(root: Path = ROOT) -> str:
    """The system's name as it calls itself."""
    for line in read(root / "etc/os-release").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME" and value:
            return value.strip("\"'")
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    return platform.system()


def _cpuinfo(root: Path) -> dict[str, str]:
    """What ``/proc/cpuinfo`` says of the first processor."""
    first = read(root / "proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def read_cpu_model(root: Path = ROOT) -> str | None:
    """The processor's name. ARM kernels do not state it, but lscpu knows most."""
    stated = _cpuinfo(root).get("model name")
    if stated:
        return stated
    if platform.system() == "Darwin":
        return first_line(["sysctl", "-n", "machdep.cpu.brand_string"]) or None
    for line in ask(["lscpu"]).out.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Model name" and value.strip() not in {"", "-"}:
            return value.strip()
    return platform.processor() or None


def read_cpu_family(root: Path = ROOT) -> str | None:
    """Vendor, family and model number: many virtual machines call different processors by one name."""
    info = _cpuinfo(root)
    if "cpu family" in info:
        return f"{info.get('vendor_id', '')} {info['cpu family']}.{info.get('model', '')}".strip()
    if "CPU part" in info:
        return f"{info.get('CPU implementer', '')} {info['CPU part']}".strip()
    return None


def read_governor(root: Path = ROOT) -> str | None:
    """The frequency governor of all cores; several, joined with commas, if they differ."""
    found = {read(path / "cpufreq/scaling_governor") for path in numbered(root / _CPU, "cpu")} - {""}
    return ", ".join(sorted(found)) or None


def read_turbo(root: Path = ROOT) -> bool | None:
    """Whether cores may clock above their base frequency."""
    path = turbo_switch(root)
    return None if path is None else _switch(path) is not path.name.startswith("no_")


def turbo_switch(root: Path = ROOT) -> Path | None:
    """The file that turns turbo on and off; one that is called ``no_turbo`` does it the other way round."""
    names = ("intel_pstate/no_turbo", "cpufreq/boost", "cpufreq/policy0/boost")
    return next((path for name in names if _switch(path := root / _CPU / name) is not None), None)


def read_smt(root: Path = ROOT) -> bool | None:
    """Whether several threads share a core."""
    return _switch(root / _CPU / "smt/active")


def read_clock_source(root: Path = ROOT) -> str | None:
    """What the kernel reads the time from."""
    return read(root / "sys/devices/system/clocksource/clocksource0/current_clocksource") or None


def read_randomized(root: Path = ROOT) -> bool | None:
    """Whether this process and its children get a random address space layout each."""
    chosen = read_number(root / "proc/sys/kernel/randomize_va_space")
    if chosen is None:
        return None
    personality = read(root / "proc/self/personality")
    try:
        return chosen > 0 and not int(personality or "0", 16) & _NO_RANDOMIZE
    except ValueError:
        return chosen > 0


def numbered(folder: Path, prefix: str) -> list[Path]:
    """The entries of a folder that are a prefix and a number."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.startswith(prefix) and name[len(prefix) :].isdecimal()]


def count_numbered(folder: Path, prefix: str) -> int:
    """How many entries of a folder are a prefix and a number."""
    return len(numbered(folder, prefix))


def read_cores(root: Path = ROOT) -> dict[str, Any]:
    """Physical cores, logical ones, those that affinity allows, and how many the quota is worth."""
    siblings = {read(path / "topology/thread_siblings_list") for path in numbered(root / _CPU, "cpu")} - {""}
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "physical": len(siblings) or None,
        "logical": os.cpu_count(),
        "allowed": len(affinity(0)) if affinity else os.cpu_count(),
        "quota": cpu_quota(root),
    }


def read_meminfo(root: Path = ROOT) -> dict[str, int]:
    """``/proc/meminfo`` in bytes; elsewhere at least the total, where the system tells."""
    found = {}
    for line in read(root / "proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        amount = value.split()
        if amount and amount[0].isdecimal():
            found[key] = int(amount[0]) * (1024 if amount[1:] == ["kB"] else 1)
    if not found:
        try:
            return {"MemTotal": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")}
        except (OSError, ValueError, AttributeError):
            return {}
    return found


def swap_used(root: Path = ROOT) -> int | None:
    """The bytes of swap in use."""
    known = read_meminfo(root)
    return known["SwapTotal"] - known["SwapFree"] if {"SwapTotal", "SwapFree"} <= set(known) else None


def read_virtual_machine(root: Path = ROOT) -> str | None:
    """A hint that this is a virtual machine: what its firmware calls itself, or that the processor says so."""
    info = _cpuinfo(root)
    if "hypervisor" not in info.get("flags", "").split():
        return None
    product = " ".join(read(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name"))
    return product.strip() or "unnamed"


def read_container(root: Path = ROOT) -> str | None:
    """A hint that this is a container."""
    for name, kind in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if (root / name).exists():
            return kind
    groups = read(root / "proc/1/cgroup")
    return next((kind for kind in ("kubepods", "docker", "lxc", "containerd") if kind in groups), None)


def cgroup_folders(controller: str, root: Path = ROOT) -> Iterator[Path]:
    """The folders of this process's control group and of all those around it, for one controller; either version."""
    base = root / "sys/fs/cgroup"
    for line in read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            mounts = [base / "unified", base]
        elif controller in controllers.split(","):
            mounts = [base / controllers, base / controller]
        else:
            continue
        inside = Path(path.lstrip("/"))
        for mount in mounts:
            for folder in (inside, *inside.parents):
                yield mount / folder


def cpu_quota(root: Path = ROOT) -> float | None:
    """How many cores' time the control groups allow, or None where they set no limit."""
    quotas = []
    for folder in cgroup_folders("cpu", root):
        share = read(folder / "cpu.max").split()
        if not share:
            share = [read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        if len(share) == 2 and all(part.isdecimal() and int(part) > 0 for part in share):
            quotas.append(int(share[0]) / int(share[1]))
    return min(quotas, default=None)


def memory_limit(root: Path = ROOT) -> int | None:
    """The bytes that the control groups allow, or None where they set no limit."""
    limits = [
        read_number(folder / name)
        for folder in cgroup_folders("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    return min((limit for limit in limits if limit is not None and limit < _UNLIMITED), default=None)


def memory_left(root: Path = ROOT) -> int | None:
    """The bytes that can still be had: of the machine, and of the control groups' limits."""
    left = [read_meminfo(root).get("MemAvailable")]
    for folder in cgroup_folders("memory", root):
        for limit, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most, now = read_number(folder / limit), read_number(folder / used)
            if most is not None and now is not None and most < _UNLIMITED:
                left.append(max(most - now + _given_back_on_demand(folder), 0))
    return min((amount for amount in left if amount is not None), default=None)


def _given_back_on_demand(folder: Path) -> int:
    """The bytes of a control group that only keep copies of files."""
    pairs = (line.partition(" ") for line in read(folder / "memory.stat").splitlines())
    return next((int(value) for key, _, value in pairs if key == "inactive_file" and value.isdecimal()), 0)


def times_throttled(root: Path = ROOT) -> int | None:
    """How often this process's control group had used up its quota and had to wait."""
    for folder in cgroup_folders("cpu", root):
        for line in read(folder / "cpu.stat").splitlines():
            key, _, value = line.partition(" ")
            if key == "nr_throttled" and value.isdecimal():
                return int(value)
    return None
