"""Check one accelerator: whether torch can use it, whether its profiler records it, and its present state, with advice."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from msgspec import DecodeError, Struct, convert, json

from torchstone.core.details.device_state import DeviceReading, DeviceState
from torchstone.core.errors import UsageError, printable
from torchstone.core.text.safe_text import summarise_error
from torchstone.measure.devices.placement import is_all, kind_of_all
from torchstone.measure.doctor.diagnosis import Finding, Level
from torchstone.measure.doctor.inspection import PACKAGES, PATIENCE
from torchstone.worker.machine.device_state.snapshots import THROTTLING, NoStateError, StateSource
from torchstone.worker.machine.device_state.watch import open_source
from torchstone.worker.machine.external_programs import ask
from torchstone.worker.protocol.codec import to_json

_PROGRAM = """
import json, sys
sys.path.append(sys.argv[1])
import torch
from torchstone.worker.probes.device import Device, find_problem_and_remedy
from torchstone.worker.probes.device_time.recording import find_profiler_problem
name = sys.argv[2]
problem, remedy = find_problem_and_remedy(name)
found = {"problem": problem, "remedy": remedy}
if not found["problem"]:
    device = Device(name)
    found["profiler"] = find_profiler_problem(device.type)
    found["uuid"], found["index"] = device.uuid(), device.current_index()
    found["kind"] = "hip" if device.type == "cuda" and torch.version.hip else device.type
print("\\n" + json.dumps(found))
"""


class SeenDevice(Struct, frozen=True):
    """What torch says about a device: why it cannot be used, and what can be done; why the profiler cannot; its uuid, number and kind."""

    problem: str = ""
    remedy: str = ""
    profiler: str = ""
    uuid: str = ""
    index: int | None = None
    kind: str = ""


class DeviceCheck(Struct, frozen=True):
    """What is known of the device ``name``: by torch, and by the tool that tells its state, or why there is none."""

    name: str
    seen: SeenDevice
    state: DeviceState | None = None
    why_unknown: str = ""

    @property
    def can_measure(self) -> bool:
        """Return whether torch can use the device."""
        return not self.seen.problem


def refuse_several(name: str) -> None:
    """Raise UsageError if a device's name stands for all of its kind."""
    if is_all(name):
        first = f"{kind_of_all(name)}:0"
        raise UsageError(f"--device {name}: one device is checked at a time", advice=f"--device {first}")


def check_device(name: str, python: str = sys.executable) -> DeviceCheck:
    """Check a device: torch is asked in another process, the tool for its state here."""
    answer = ask([python, "-P", "-c", _PROGRAM, PACKAGES, name], PATIENCE)
    try:
        seen = json.decode(answer.out.strip().rpartition("\n")[2].encode(), type=SeenDevice)
    except (DecodeError, UnicodeEncodeError):
        lines = answer.err.strip().splitlines() or ["no error message"]
        seen = SeenDevice(f"torch cannot be asked: {printable(summarise_error(lines[-1]), 300)}")
    if seen.problem or seen.kind == "cpu":
        return DeviceCheck(name, seen)
    try:
        state = _read_state(open_source(seen.kind, seen.uuid, seen.index))
    except NoStateError as error:
        return DeviceCheck(name, seen, why_unknown=printable(str(error), 300))
    return DeviceCheck(name, seen, state, "" if state else "the device does not answer")


def _read_state(source: StateSource) -> DeviceState | None:
    """Return the present state of a device. Whoever is on it now is another's process: this one is not."""
    found = source.snapshot()
    if found is None:
        return None
    reading = convert(to_json(found.reading), DeviceReading)
    facts = to_json(found.facts)
    processes = None
    if found.processes is not None:
        processes = tuple(
            printable(f"{each.name or 'process'} (process {each.pid})") for each in found.processes
        )
    throttled = tuple(reason for reason in found.reading.reasons if reason in THROTTLING)
    return convert({**facts, "source": source.name}, DeviceState).with_reading(reading, throttled, processes)


def diagnose_device(check: DeviceCheck) -> tuple[Finding, ...]:
    """Return the findings about a device."""
    return tuple(_find(check))


def _find(check: DeviceCheck) -> Iterator[Finding]:
    topic = f"device {check.name}"
    if check.seen.problem:
        why = "Nothing can be measured on it."
        remedy = check.seen.remedy or "install torch for the interpreter that torchstone runs with"
        yield Finding(topic, Level.PROBLEM, check.seen.problem, why, remedy)
        return
    if check.seen.kind == "cpu":
        yield Finding(topic, Level.OK, "the CPU: its findings are those of this machine")
        return
    yield from _profiler(topic, check)
    if check.state is None:
        yield Finding(
            topic,
            Level.NOTE,
            f"the state of {check.name} is not known: {check.why_unknown}",
            "Whether it was throttled or shared while a case was timed cannot be told.",
            "pip install nvidia-ml-py, or install nvidia-smi, rocm-smi or xpu-smi",
        )
        return
    yield from _state(topic, check.state)


def _profiler(topic: str, check: DeviceCheck) -> Iterator[Finding]:
    if check.seen.profiler:
        why = "Cases have no device time, so a host-bound case cannot be told from others."
        yield Finding(
            topic, Level.NOTE, check.seen.profiler, why, "install a torch whose profiler supports it"
        )
    else:
        yield Finding(topic, Level.OK, f"torch's profiler records {check.name}: cases have device times")


def _state(topic: str, state: DeviceState) -> Iterator[Finding]:
    yield Finding(topic, Level.OK, state.text)
    if state.throttled:
        yield Finding(
            topic,
            Level.PROBLEM,
            f"it is throttled: {', '.join(state.throttled)}",
            "A result that was timed meanwhile is disturbed: neither red nor green.",
            "check cooling and power supply",
        )
    if state.processes:
        yield Finding(
            topic,
            Level.PROBLEM,
            f"it is in use by {', '.join(state.processes[:3])}",
            "Processes on one device take turns, and share its memory and power: a result that was timed meanwhile is disturbed.",
            "wait until they end, or select another device",
        )
    if any("power cap" in reading.reasons for reading in state.readings):
        yield Finding(
            topic,
            Level.NOTE,
            "it runs at its power limit",
            "Its clock follows the load and the temperature. That is how it is set up, and no disturbance.",
            "lock its clock below that to compare small changes: nvidia-smi --lock-gpu-clocks",
        )
    if state.mig:
        yield Finding(
            topic,
            Level.NOTE,
            "MIG is on: a slice shares power and clock with the other slices",
            "Which processes disturb a slice cannot be told.",
            "measure on a whole device",
        )
