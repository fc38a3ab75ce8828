"""The state of a device: what nvidia-smi, NVML, rocm-smi and xpu-smi say, in good times and bad. The tools are programs, and the library is a module, that really run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest
from probe_steps import cautions_in

from torchstone.worker.machine.device_state import other_tools
from torchstone.worker.machine.device_state.nvidia_smi import NvidiaSmi
from torchstone.worker.machine.device_state.nvml import Nvml
from torchstone.worker.machine.device_state.other_tools import RocmSmi, XpuSmi
from torchstone.worker.machine.device_state.snapshots import (
    DeviceFacts,
    DeviceProcess,
    NoStateError,
    Snapshot,
    StateSource,
    find_process,
)
from torchstone.worker.machine.device_state.watch import (
    MOST_READINGS,
    DeviceWatch,
    find_others,
    find_throttling,
    open_source,
)
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time.watching import note_device_state, watch_device
from torchstone.worker.probes.reply import Result
from torchstone.worker.protocol.codec import from_json, to_json
from torchstone.worker.protocol.device_state_found import DeviceStateFound, ReadingFound

UUID = "GPU-6ff0dbe1-4f29-6c31-41a5-2a14a1c3bd8f"
HEALTHY = f"{UUID}, NVIDIA H200, 570.133.20, 700.00, 1980, Enabled, Enabled, Disabled, 1980, 3201, 431.17, 52, 0x0000000000000000"


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the only one on PATH besides those of the shell."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return folder


def install(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text("#!/bin/sh\n" + textwrap.dedent(script))
    program.chmod(0o755)


def install_smi(folder: Path, rows: str, processes: str = "") -> None:
    """An nvidia-smi that prints these rows for devices, and these for processes."""
    (folder / "rows").write_text(rows + "\n")
    (folder / "processes").write_text(processes + "\n" if processes else "")
    install(
        folder,
        "nvidia-smi",
        f"""
        case "$1" in
          --query-gpu=*) cat {folder}/rows ;;
          --query-compute-apps=*) cat {folder}/processes ;;
          *) exit 2 ;;
        esac
        """,
    )


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        process.wait()
    return process.pid


def test_nvidia_smi_tells_facts_clocks_power_and_processes(bin_folder: Path) -> None:
    install_smi(
        bin_folder, HEALTHY, f"{UUID}, 1, python\n{UUID}, {ended_process()}, python\nGPU-other, 2, python"
    )
    found = NvidiaSmi(UUID.removeprefix("GPU-"), 0).snapshot()
    assert found == Snapshot(
        DeviceFacts(
            "NVIDIA H200",
            UUID.removeprefix("GPU-"),
            "570.133.20",
            700.0,
            1980.0,
            persistence=True,
            ecc=True,
            mig=False,
        ),
        ReadingFound(1980.0, 3201.0, 431.17, 52.0),
        (DeviceProcess(1, "python"),),  # what has ended meanwhile is left out
    )


def test_what_nvidia_smi_does_not_know_is_unknown_and_not_zero(bin_folder: Path) -> None:
    install_smi(
        bin_folder,
        f"{UUID}, Tesla T4, 470.82, [N/A], [Not Supported], [Unknown Error], N/A, [N/A], [N/A], [N/A], [Insufficient Permissions], [N/A], [N/A]",
    )
    found = NvidiaSmi(UUID, 0).snapshot()
    assert found is not None
    assert found.facts == DeviceFacts("Tesla T4", UUID.removeprefix("GPU-"), "470.82")
    assert found.reading == ReadingFound()


def test_throttle_reasons_are_named(bin_folder: Path) -> None:
    install_smi(bin_folder, HEALTHY.replace("0x0000000000000000", "0x0000000000000064"))
    found = NvidiaSmi(UUID, 0).read()
    assert found is not None
    assert found.reasons == ("power cap", "too hot")


def test_an_older_driver_has_another_name_for_the_reasons(bin_folder: Path) -> None:
    install(
        bin_folder,
        "nvidia-smi",
        f"""
        case "$1" in
          *clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2 ;;
          --query-gpu=*) echo "{HEALTHY}" ;;
        esac
        """,
    )
    assert NvidiaSmi(UUID, 0).read() is not None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'No devices were found'; exit 6", "No devices were found"),
        ("echo 'No devices were found'", "No devices were found"),
        (
            "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
            "Failed to initialize NVML: Driver/library version mismatch",
        ),
        ("echo 'NVIDIA-SMI has failed: insufficient permissions' >&2; exit 4", "insufficient permissions"),
        ("exit 3", "it ended with exit code 3"),
        ("printf '\\377\\376 not, text'", "nvidia-smi cannot be used"),
        ("true", "it printed nothing"),
    ],
)
def test_an_nvidia_smi_that_fails_is_a_reason(bin_folder: Path, script: str, said: str) -> None:
    install(bin_folder, "nvidia-smi", script)
    with pytest.raises(NoStateError, match=said):
        NvidiaSmi(UUID, 0)


def test_an_nvidia_smi_that_hangs_is_given_up(bin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchstone.worker.machine.device_state.nvidia_smi.PATIENCE", 0.2)
    install(bin_folder, "nvidia-smi", "exec sleep 60")
    with pytest.raises(NoStateError, match="no answer within"):
        NvidiaSmi(UUID, 0)


def test_without_any_tool_the_reasons_of_all_are_given(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NoStateError, match="nvidia-ml-py is not installed; nvidia-smi cannot be used"):
        open_source("cuda", UUID, 0)
    with pytest.raises(NoStateError, match="no tool is known that tells it for mps devices"):
        open_source("mps", "", 0)


def test_the_device_is_found_by_its_uuid_among_several(bin_folder: Path) -> None:
    other = HEALTHY.replace(UUID, "GPU-0000").replace("431.17", "99.0")
    install_smi(bin_folder, f"{other}\n{HEALTHY}")
    found = NvidiaSmi(UUID, 0).read()
    assert found is not None
    assert found.power_w == 431.17
    with pytest.raises(NoStateError, match="lists no device with the uuid MIG-1234"):
        NvidiaSmi("MIG-1234", 0)


def test_a_device_that_is_lost_while_it_is_timed_leaves_what_was_read_before(bin_folder: Path) -> None:
    install_smi(bin_folder, HEALTHY)
    watch = DeviceWatch(NvidiaSmi(UUID, 0))
    install(
        bin_folder, "nvidia-smi", "echo 'Unable to determine the device handle for GPU: GPU is lost'; exit 15"
    )
    found = watch.end()
    assert found is not None
    assert found.before is not None
    assert found.after is None


def test_a_device_that_stops_answering_while_it_is_timed_is_a_caution(bin_folder: Path) -> None:
    install_smi(bin_folder, HEALTHY)
    watch = DeviceWatch(NvidiaSmi(UUID, 0))
    install(bin_folder, "nvidia-smi", "echo 'GPU is lost'; exit 15")
    result = Result()
    note_device_state(watch, result)
    assert result.details.device_state is not None
    (caution,) = cautions_in(result)
    assert "the device stopped answering while it was timed" in caution


def test_a_slice_of_a_device_is_found_by_its_own_uuid(nvml: dict[str, object]) -> None:
    nvml["slices"] = {1: ["MIG-1111", "MIG-2222"]}
    found = Nvml("2222", 0).snapshot()
    assert found is not None
    assert found.facts.uuid == UUID.removeprefix("GPU-")


FAKE_NVML = """
    state = {"reasons": 0, "thermal": 0, "reads": 0}
    class NVMLError(Exception): pass
    class Process:
        def __init__(self, pid): self.pid, self.usedGpuMemory = pid, 1 << 30
    class Violation:
        def __init__(self, spent): self.referenceTime, self.violationTime = 0, spent
    def nvmlInit(): pass
    def nvmlDeviceGetCount(): return 2
    def nvmlDeviceGetHandleByIndex(index): return index
    def nvmlDeviceGetUUID(handle):
        return handle if isinstance(handle, str) else ["GPU-0000", "GPU-6ff0dbe1-4f29-6c31-41a5-2a14a1c3bd8f"][handle]
    def nvmlDeviceGetMaxMigDeviceCount(handle): return 7 if "slices" in state else 0
    def nvmlDeviceGetMigDeviceHandleByIndex(handle, number): return state["slices"][handle][number]
    def nvmlDeviceGetName(handle): return b"NVIDIA H200"
    def nvmlSystemGetDriverVersion(): return "570.133.20"
    def nvmlDeviceGetEnforcedPowerLimit(handle): return 700000
    def nvmlDeviceGetMaxClockInfo(handle, clock): return 1980
    def nvmlDeviceGetPersistenceMode(handle): return 1
    def nvmlDeviceGetEccMode(handle): return [1, 1]
    def nvmlDeviceGetMigMode(handle): raise NVMLError("Not Supported")
    def nvmlDeviceGetClockInfo(handle, clock):
        state["reads"] += 1
        return {1: 1755, 2: 3201}[clock]
    def nvmlDeviceGetPowerUsage(handle): return 431170
    def nvmlDeviceGetTemperature(handle, sensor): return 52
    def nvmlDeviceGetCurrentClocksThrottleReasons(handle): return state["reasons"]
    def nvmlDeviceGetComputeRunningProcesses(handle): return [Process(pid) for pid in state.get("pids", ())]
    def nvmlSystemGetProcessName(pid): return b"python"
    def nvmlDeviceGetViolationStatus(handle, policy): return Violation(state["thermal"] if policy == 1 else 0)
"""


@pytest.fixture
def nvml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A module pynvml that answers from a dictionary; that of a driver without the new function for reasons, nor MIG."""
    (tmp_path / "pynvml.py").write_text(textwrap.dedent(FAKE_NVML))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    state: dict[str, object] = import_module("pynvml").state
    return state


def test_nvml_tells_the_same_as_nvidia_smi(nvml: dict[str, object]) -> None:
    found = Nvml(UUID, 0).snapshot()
    assert found is not None
    assert found.facts == DeviceFacts(
        "NVIDIA H200", UUID.removeprefix("GPU-"), "570.133.20", 700.0, 1980.0, persistence=True, ecc=True
    )
    assert found.reading == ReadingFound(1755.0, 3201.0, 431.17, 52.0)
    assert nvml["reasons"] == 0


def test_nvml_is_asked_between_blocks_but_not_often(
    nvml: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = DeviceWatch(Nvml(UUID, 0))
    before = nvml["reads"]
    for _ in range(1000):
        watch.look()
    assert nvml["reads"] == before
    monkeypatch.setattr("torchstone.worker.machine.device_state.watch.BETWEEN", 0.0)
    for _ in range(1000):
        watch.look()
    found = watch.end()
    assert found is not None
    assert len(found.during) == MOST_READINGS


def test_throttling_that_no_reading_saw_is_known_from_what_the_driver_counts(nvml: dict[str, object]) -> None:
    watch = DeviceWatch(Nvml(UUID, 0))
    nvml["thermal"] = 40_000_000
    found = watch.end()
    assert found is not None
    assert found.throttled == ("too hot",)


def test_a_library_that_cannot_be_initialised_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pynvml.py").write_text("def nvmlInit(): raise RuntimeError('Insufficient Permissions')\n")
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(NoStateError, match="NVML cannot be used: Insufficient Permissions"):
        Nvml(UUID, 0)
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)


@pytest.mark.parametrize(
    ("reasons", "throttled"),
    [
        (("power cap",), ()),  # it works as it is set up
        (("idle", "application clocks"), ()),
        (("power cap", "too hot"), ("too hot",)),
        (("hardware slowdown", "power brake"), ("hardware slowdown", "power brake")),
    ],
)
def test_only_faults_count_as_throttling(reasons: tuple[str, ...], throttled: tuple[str, ...]) -> None:
    reading = ReadingFound(1000.0, reasons=reasons)
    assert find_throttling(Snapshot(DeviceFacts(), ReadingFound()), [reading], None) == throttled


def snapshot_with(*pids: int) -> Snapshot:
    found = (find_process(pid, "python") for pid in pids)
    return Snapshot(DeviceFacts(), ReadingFound(), tuple(each for each in found if each))


def test_other_processes_are_those_that_are_neither_this_one_nor_its_relatives() -> None:
    own = os.getpid()
    assert find_others(snapshot_with(own), snapshot_with(own, 1)) == ("python (process 1)",)
    assert find_others(snapshot_with(own), snapshot_with(own)) == ()


def test_a_worker_of_the_same_run_that_has_ended_since_is_no_other_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as sibling:
        before = snapshot_with(os.getpid(), sibling.pid)
        sibling.communicate(b"\n")
    assert before.processes is not None
    assert [each.pid for each in before.processes] == [os.getpid(), sibling.pid]
    assert find_others(before, snapshot_with(os.getpid())) == ()


def test_processes_of_another_namespace_are_not_taken_for_others() -> None:
    assert find_others(snapshot_with(4711), snapshot_with(4711)) is None
    assert find_others(Snapshot(DeviceFacts(), ReadingFound()), None) is None


ROCM = {
    "card0": {
        "Card Series": "AMD Instinct MI300X",
        "Unique ID": "0xabc",
        "sclk clock speed:": "(2100Mhz)",
        "mclk clock speed:": "(1300Mhz)",
        "Average Graphics Package Power (W)": "612.0",
        "Temperature (Sensor junction) (C)": "71.0",
        "Max Graphics Package Power (W)": "750.0",
    },
    "system": {"Driver version": "6.8.5"},
}


def test_rocm_smi_tells_clocks_power_and_temperature(bin_folder: Path) -> None:
    install(bin_folder, "rocm-smi", f"cat <<'END'\n{json.dumps(ROCM)}\nEND\n")
    found = open_source("hip", "", 0).snapshot()
    assert found == Snapshot(
        DeviceFacts("AMD Instinct MI300X", "0xabc", "6.8.5", 750.0), ReadingFound(2100.0, 1300.0, 612.0, 71.0)
    )


@pytest.mark.parametrize("output", ["", "[]", '{"card7": {}}', '{"card0": 5}', "ERROR: no amdgpu"])
def test_a_rocm_smi_that_prints_something_else_is_a_reason(bin_folder: Path, output: str) -> None:
    install(bin_folder, "rocm-smi", f"cat <<'END'\n{output}\nEND\n")
    with pytest.raises(NoStateError, match="rocm-smi cannot be used"):
        RocmSmi("", 0)


def test_xpu_smi_tells_clocks_power_and_temperature(bin_folder: Path) -> None:
    stats = {
        "device_id": 0,
        "device_level": [
            {"metrics_type": "XPUM_STATS_GPU_FREQUENCY", "value": 1550},
            {"metrics_type": "XPUM_STATS_POWER", "value": 231.5},
            {"metrics_type": "XPUM_STATS_GPU_CORE_TEMPERATURE", "value": 48},
        ],
    }
    about = {"device_name": "Intel(R) Data Center GPU Max 1550", "driver_version": "1.3.27642"}
    install(
        bin_folder,
        "xpu-smi",
        f"""
        case "$1" in
          stats) echo '{json.dumps(stats)}' ;;
          discovery) echo '{json.dumps(about)}' ;;
        esac
        """,
    )
    found = XpuSmi("", 0).snapshot()
    assert found is not None
    assert found.facts.name == "Intel(R) Data Center GPU Max 1550"
    assert found.reading == ReadingFound(1550.0, None, 231.5, 48.0)


def test_an_xpu_smi_that_is_not_there_is_a_reason(bin_folder: Path) -> None:
    assert other_tools.PATIENCE > 0
    with pytest.raises(NoStateError, match="xpu-smi cannot be used"):
        XpuSmi("", 0)


def test_only_the_library_is_quick_enough_to_be_asked_between_blocks(
    bin_folder: Path, nvml: dict[str, object]
) -> None:
    install_smi(bin_folder, HEALTHY)
    sources: list[StateSource] = [Nvml(UUID, 0), NvidiaSmi(UUID, 0)]
    assert [each.name for each in sources if each.is_quick] == ["nvml"]


def test_a_device_that_was_throttled_and_shared_is_in_the_details_and_the_cautions(
    bin_folder: Path, nvml: dict[str, object]
) -> None:
    nvml["pids"] = [os.getpid(), 1]
    nvml["reasons"] = 0x40
    result = Result()
    note_device_state(DeviceWatch(Nvml(UUID, 0)), result)
    found = result.details.device_state
    assert found is not None
    assert (found.name, found.throttled) == ("NVIDIA H200", ("too hot",))
    assert cautions_in(result) == [
        (
            "the device was throttled while it was timed: too hot; improve its cooling and power supply: 'torchstone doctor --device' "
            "shows its state"
        ),
        "other processes were on the device while it was timed: python (process 1); wait until they end, or select another device",
    ]
    assert result.cautions[0].numbers == {"clock": 1755.0, "clock_max": 1980.0}
    assert from_json(DeviceStateFound, to_json(found), "device") == found


def test_a_healthy_device_has_details_and_no_caution(bin_folder: Path, nvml: dict[str, object]) -> None:
    nvml["pids"] = [os.getpid()]
    result = Result()
    note_device_state(DeviceWatch(Nvml(UUID, 0)), result)
    assert result.cautions == []
    assert result.details.device_state is not None
    assert result.details.device_state.processes == ()


def test_a_cpu_is_not_watched() -> None:
    result = Result()
    assert watch_device(Device("cpu"), result) is None
    note_device_state(None, result)
    assert result == Result()
