"""Read facts about the machine from ``/proc`` and ``/sys``.

Unknown facts are None; nothing here raises.

Standard library only: it also runs inside workers. Tests pass a ``root`` with their own ``/proc`` and ``/sys``.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchstone.worker.machine.external_programs import ask, first_line

ROOT = Path("/")
_CPU = "sys/devices/system/cpu"
_UNLIMITED = 1 << 60  # how version 1 of control groups writes "no limit"
_NO_RANDOMIZE = 0x0040000  # the personality that `setarch -R` gives


@dataclass(frozen=True)
class ProcessorFound:
    """Facts about the processor and its clock settings."""

    model: str | None
    family: str | None
    governor: str | None
    turbo: bool | None
    smt: bool | None
    numa_nodes: int | None


@dataclass(frozen=True)
class CoresFound:
    """Number of physical and logical cores, of those that affinity allows, and of cores that the quota is worth."""

    physical: int | None
    logical: int | None
    allowed: int | None
    quota: float | None


@dataclass(frozen=True)
class MemoryFound:
    """Bytes of memory, and the limit of the control groups."""

    total: int | None
    limit: int | None


@dataclass(frozen=True)
class MachineFound:
    """Facts about the machine."""

    host: str
    os: str
    kernel: str
    architecture: str
    cpu: ProcessorFound
    cores: CoresFound
    memory: MemoryFound
    virtual_machine: str | None
    container: str | None


def read_machine(root: Path = ROOT) -> MachineFound:
    """Return all facts about the machine."""
    return MachineFound(
        host=platform.node(),
        os=read_os(root),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu=ProcessorFound(
            model=read_cpu_model(root),
            family=read_cpu_family(root),
            governor=read_governor(root),
            turbo=read_turbo(root),
            smt=read_smt(root),
            numa_nodes=count_numbered(root / "sys/devices/system/node", "node") or None,
        ),
        cores=read_cores(root),
        memory=MemoryFound(read_meminfo(root).get("MemTotal"), memory_limit(root)),
        virtual_machine=read_virtual_machine(root),
        container=read_container(root),
    )


def read(path: Path) -> str:
    """Return the text of a small file, stripped; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n \t")
    except (OSError, ValueError):
        return ""


def read_number(path: Path) -> int | None:
    """Return the whole number in a file; None if there is none."""
    text = read(path)
    return int(text) if text.removeprefix("-").isdecimal() else None


def _switch(path: Path) -> bool | None:
    number = read_number(path)
    return None if number is None else number == 1


def read_os(root: Path = ROOT) -> str:
    """Return the name of the operating system."""
    for line in read(root / "etc/os-release").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME" and value:
            return value.strip("\"'")
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    return platform.system()


def _cpuinfo(root: Path) -> dict[str, str]:
    """Return the fields of the first processor in ``/proc/cpuinfo``."""
    first = read(root / "proc/cpuinfo").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def read_cpu_model(root: Path = ROOT) -> str | None:
    """Return the processor's name. ARM kernels do not state it, but lscpu knows most."""
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
    """Return vendor, family and model number: virtual machines often give different processors the same name."""
    info = _cpuinfo(root)
    if "cpu family" in info:
        return f"{info.get('vendor_id', '')} {info['cpu family']}.{info.get('model', '')}".strip()
    if "CPU part" in info:
        return f"{info.get('CPU implementer', '')} {info['CPU part']}".strip()
    return None


def read_governor(root: Path = ROOT) -> str | None:
    """Return the frequency governor of all cores; several, joined with commas, if they differ."""
    found = {read(path / "cpufreq/scaling_governor") for path in numbered(root / _CPU, "cpu")} - {""}
    return ", ".join(sorted(found)) or None


def read_turbo(root: Path = ROOT) -> bool | None:
    """Return whether cores may clock above their base frequency."""
    path = turbo_switch(root)
    return None if path is None else _switch(path) is not path.name.startswith("no_")


def turbo_switch(root: Path = ROOT) -> Path | None:
    """Return the file that turns turbo on and off; ``no_turbo`` has the inverse meaning."""
    names = ("intel_pstate/no_turbo", "cpufreq/boost", "cpufreq/policy0/boost")
    return next((path for name in names if _switch(path := root / _CPU / name) is not None), None)


def read_smt(root: Path = ROOT) -> bool | None:
    """Return whether several threads share a core."""
    return _switch(root / _CPU / "smt/active")


def read_clock_source(root: Path = ROOT) -> str | None:
    """Return the kernel's clock source."""
    return read(root / "sys/devices/system/clocksource/clocksource0/current_clocksource") or None


def read_randomized(root: Path = ROOT) -> bool | None:
    """Return whether this process and its children each get a random address space layout."""
    chosen = read_number(root / "proc/sys/kernel/randomize_va_space")
    if chosen is None:
        return None
    personality = read(root / "proc/self/personality")
    try:
        return chosen > 0 and not int(personality or "0", 16) & _NO_RANDOMIZE
    except ValueError:
        return chosen > 0


def numbered(folder: Path, prefix: str) -> list[Path]:
    """Return the entries of a folder whose names are this prefix and a number."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.startswith(prefix) and name[len(prefix) :].isdecimal()]


def count_numbered(folder: Path, prefix: str) -> int:
    """Return the number of entries whose names are this prefix and a number."""
    return len(numbered(folder, prefix))


def read_cores(root: Path = ROOT) -> CoresFound:
    """Return the number of cores."""
    siblings = {read(path / "topology/thread_siblings_list") for path in numbered(root / _CPU, "cpu")} - {""}
    affinity = getattr(os, "sched_getaffinity", None)
    return CoresFound(
        physical=len(siblings) or None,
        logical=os.cpu_count(),
        allowed=len(affinity(0)) if affinity else os.cpu_count(),
        quota=cpu_quota(root),
    )


def read_meminfo(root: Path = ROOT) -> dict[str, int]:
    """Return ``/proc/meminfo`` in bytes; on other systems at least the total, if known."""
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
    """Return the bytes of swap in use."""
    known = read_meminfo(root)
    return known["SwapTotal"] - known["SwapFree"] if {"SwapTotal", "SwapFree"} <= set(known) else None


def read_virtual_machine(root: Path = ROOT) -> str | None:
    """Return the firmware's name if the processor says that this is a virtual machine; None if it is not."""
    info = _cpuinfo(root)
    if "hypervisor" not in info.get("flags", "").split():
        return None
    product = " ".join(read(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name"))
    return product.strip() or "unnamed"


def read_container(root: Path = ROOT) -> str | None:
    """Return the kind of container this probably is; None if it is not one."""
    for name, kind in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if (root / name).exists():
            return kind
    groups = read(root / "proc/1/cgroup")
    return next((kind for kind in ("kubepods", "docker", "lxc", "containerd") if kind in groups), None)


def cgroup_folders(controller: str, root: Path = ROOT) -> Iterator[Path]:
    """Yield the folders of this process's control group and its parents, for one controller, in either version."""
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
    """Return how many cores the control groups' quota is worth; None if they set no limit."""
    quotas = []
    for folder in cgroup_folders("cpu", root):
        share = read(folder / "cpu.max").split()
        if not share:
            share = [read(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        if len(share) == 2 and all(part.isdecimal() and int(part) > 0 for part in share):
            quotas.append(int(share[0]) / int(share[1]))
    return min(quotas, default=None)


def memory_limit(root: Path = ROOT) -> int | None:
    """Return the memory limit of the control groups in bytes; None if they set none."""
    limits = [
        read_number(folder / name)
        for folder in cgroup_folders("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
    ]
    return min((limit for limit in limits if limit is not None and limit < _UNLIMITED), default=None)


def memory_left(root: Path = ROOT) -> int | None:
    """Return the bytes still available, of the machine's memory and within the control groups' limits."""
    left = [read_meminfo(root).get("MemAvailable")]
    for folder in cgroup_folders("memory", root):
        for limit, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            most, now = read_number(folder / limit), read_number(folder / used)
            if most is not None and now is not None and most < _UNLIMITED:
                left.append(max(most - now + _reclaimable(folder), 0))
    return min((amount for amount in left if amount is not None), default=None)


def _reclaimable(folder: Path) -> int:
    """Return the bytes of a control group that only cache files."""
    pairs = (line.partition(" ") for line in read(folder / "memory.stat").splitlines())
    return next((int(value) for key, _, value in pairs if key == "inactive_file" and value.isdecimal()), 0)


def times_throttled(root: Path = ROOT) -> int | None:
    """Return how often this process's control group was throttled because its quota was used up."""
    for folder in cgroup_folders("cpu", root):
        for line in read(folder / "cpu.stat").splitlines():
            key, _, value = line.partition(" ")
            if key == "nr_throttled" and value.isdecimal():
                return int(value)
    return None
