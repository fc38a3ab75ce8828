"""Collect facts about the machine for the diagnosis.

Only a separate process imports torch.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence

from msgspec import DecodeError, Struct, json

from torchstone.core.errors import printable
from torchstone.core.text.safe_text import summarise_error
from torchstone.measure.doctor.facts import Accelerator, MachineFacts, TorchFacts
from torchstone.measure.doctor.noise import clock_step, measure_noise_and_load
from torchstone.worker.machine import hardware
from torchstone.worker.machine.accelerators import read_nvidia, read_nvidia_processes, read_nvidia_reasons
from torchstone.worker.machine.external_programs import ask
from torchstone.worker.machine.recorded_environment import compiler_command, read_compiler
from torchstone.worker.probes.counting.available import choose_counter, find_counters

PATIENCE = 120.0  # seconds; importing torch from a slow disk takes long the first time
SECONDS_OF_NOISE = 1.0

PACKAGES = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
_PROGRAM = """
import json, sys, time
sys.path.append(sys.argv[1])
began = time.perf_counter()
try:
    import torch
except Exception as error:
    missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
    print("\\n" + json.dumps({"error": f"{type(error).__name__}: {error}", "missing": missing}))
    raise
seconds = time.perf_counter() - began
from torchstone.worker.machine.recorded_environment import probe_environment
from torchstone.worker.protocol.codec import to_json
device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
print("\\n" + json.dumps({"seconds": seconds, "environment": to_json(probe_environment((), device))}))
"""
_SOURCE = "#include <Python.h>\n#include <vector>\nint main() { return 0; }\n"
_SLOWED = {0x08: "hardware slowdown", 0x20: "too hot", 0x40: "too hot", 0x80: "power brake"}
_CLOCK_SET = 0x02


class SeenAccelerator(Struct, frozen=True):
    """An accelerator as torch sees it."""

    index: int
    name: str | None = None
    memory: int | None = None
    uuid: str | None = None


class _SeenEnvironment(Struct, frozen=True):
    versions: dict[str, str | None] = {}
    accelerators: tuple[SeenAccelerator, ...] = ()


class _TorchReport(Struct, frozen=True):
    """The line that the program prints: what torch sees, or the error of importing it."""

    seconds: float = 0.0
    environment: _SeenEnvironment = _SeenEnvironment()
    error: str = ""
    missing: bool = False


def inspect_machine(python: str = sys.executable) -> MachineFacts:
    """Collect all facts. Takes about a second, plus the time to import torch."""
    torch, seen = ask_torch(python)
    compiler, compiler_error = ask_compiler()
    accelerators = list_accelerators(seen)
    noise, load = measure_noise_and_load(SECONDS_OF_NOISE)  # after everything that starts processes
    cores = hardware.read_cores()
    allowed, quota = cores.allowed or 1, cores.quota
    folder = tempfile.gettempdir()
    counters = find_counters()
    return MachineFacts(
        system=platform.system(),
        python=python,
        torch=torch,
        compiler=compiler,
        compiler_error=compiler_error,
        cpu=hardware.read_cpu_model(),
        cores=min(allowed, quota or allowed),
        quota=quota,
        throttled=hardware.times_throttled() if quota else None,
        load=load.others,
        busiest=load.busiest,
        stolen=load.stolen,
        governor=hardware.read_governor(),
        turbo=hardware.read_turbo(),
        turbo_switch=str(hardware.turbo_switch() or ""),
        smt=hardware.read_smt(),
        virtual_machine=hardware.read_virtual_machine(),
        memory_left=hardware.memory_left(),
        swap_used=hardware.swap_used(),
        disk_folder=folder,
        disk_left=shutil.disk_usage(folder).free,
        peak_can_be_reset=reset_peak(),
        can_fork=sys.platform == "linux",
        counters=counters,
        counter=choose_counter(counters),
        clock_step=clock_step(),
        clock_source=hardware.read_clock_source(),
        randomized=hardware.read_randomized(),
        accelerators=accelerators,
        noise=noise,
    )


def ask_torch(python: str, patience: float = PATIENCE) -> tuple[TorchFacts, tuple[SeenAccelerator, ...]]:
    """Import torch in another process; return the result, and the accelerators that torch sees there."""
    answer = ask([python, "-P", "-c", _PROGRAM, PACKAGES], patience)
    report = _read_report(answer.out)
    if answer.code == 0:
        if not (version := report.environment.versions.get("torch")):
            return TorchFacts(error="it printed something that is not an answer"), ()
        return TorchFacts(version, report.seconds), report.environment.accelerators
    if report.missing:
        return TorchFacts(missing=True), ()
    error = report.error or (answer.err.strip().splitlines() or ["no error message"])[-1]
    if answer.code is not None and answer.code < 0:
        error = f"the process was killed by signal {-answer.code}"
    return TorchFacts(error=printable(summarise_error(error), 300)), ()


def _read_report(output: str) -> _TorchReport:
    """Read the last line that the program above printed; an empty report if it is not one."""
    try:
        return json.decode(output.strip().rpartition("\n")[2].encode(), type=_TorchReport)
    except (DecodeError, UnicodeEncodeError):
        return _TorchReport()


def ask_compiler() -> tuple[str | None, str]:
    """Return the C++ compiler's description, and its error for a program with the headers that inductor uses."""
    described = read_compiler()
    if described is None:
        return None, ""
    include = sysconfig.get_path("include")
    command = [*compiler_command(), "-x", "c++", "-fsyntax-only", f"-I{include}", "-"]
    answer = ask(command, 30.0, _SOURCE)
    if answer.code == 0:
        return described, ""
    lines = answer.err.strip().splitlines() or ["no error message"]
    error = next((line for line in lines if "error" in line), lines[-1])
    return described, printable(error.rpartition("error: ")[2])


def list_accelerators(seen: Sequence[SeenAccelerator]) -> tuple[Accelerator, ...]:
    """Return the devices that torch sees, and those that only the vendor's tool lists."""
    listed = {facts.uuid: facts for facts in read_nvidia()}
    if not listed:
        return tuple(
            Accelerator(each.index, each.name or "unnamed device", memory=each.memory) for each in seen
        )
    processes, reasons = read_nvidia_processes(), read_nvidia_reasons()
    usable = {str(each.uuid): each for each in seen}
    found = []
    for number, (uuid, facts) in enumerate(listed.items()):
        bits = reasons.get(uuid, 0)
        clock = facts.sm_clock_max_mhz
        device = usable.get(uuid)
        found.append(
            Accelerator(
                device.index if device else number,
                str(facts.name or "NVIDIA device"),
                device is not None,
                device.memory if device else None,
                tuple(f"{printable(name)} (process {pid})" for on, pid, name in processes if on == uuid),
                facts.persistence == "Enabled" if facts.persistence is not None else None,
                clock if isinstance(clock, int) else None,
                bool(bits & _CLOCK_SET),
                tuple(dict.fromkeys(why for bit, why in _SLOWED.items() if bits & bit)),
            )
        )
    return tuple(found)


def reset_peak() -> bool:
    """Reset the peak memory of this process; return whether that is allowed."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True
