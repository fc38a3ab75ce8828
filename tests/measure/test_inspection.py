"""Gathering facts: from this machine, and from programs that misbehave."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from torchstone.measure.doctor import inspection
from torchstone.measure.doctor.inspection import SeenAccelerator, ask_compiler, ask_torch, list_accelerators
from torchstone.measure.doctor.noise import (
    Ticks,
    clock_step,
    compare_ticks,
    measure_noise,
    read_ticks,
    summarize,
)
from torchstone.worker.machine.accelerators import read_nvidia_reasons
from torchstone.worker.machine.external_programs import ask


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_torch_is_found_by_a_process_of_its_own() -> None:
    pytest.importorskip("torch")
    torch, _ = ask_torch(sys.executable)
    assert torch.version == metadata.version("torch")
    assert torch.seconds > 0


def test_a_python_without_torch_is_told_from_one_with_a_broken_torch(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: no such file')")
    bare = program(tmp_path, "bare", f'exec {sys.executable} -S "$@"')
    assert ask_torch(bare)[0].missing
    broken = program(tmp_path, "broken", f'PYTHONPATH={tmp_path} exec {sys.executable} -S "$@"')
    found = ask_torch(broken)[0]
    assert not found.missing
    assert found.error == "OSError: libtorch.so: no such file"


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("kill -11 $$", "the process was killed by signal 11"),
        ("exec sleep 60", "no answer within 0.2 s"),
        ("echo hello", "it printed something that is not an answer"),
        ("exit 3", "no error message"),
    ],
)
def test_a_torch_that_crashes_or_hangs_is_described(script: str, error: str, tmp_path: Path) -> None:
    patience = 0.2 if "sleep" in script else 20
    assert ask_torch(program(tmp_path, "python", script), patience)[0].error == error


def test_the_compiler_is_tried_on_what_inductor_includes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = "<stdin>:1:10: fatal error: Python.h: No such file or directory"
    script = f'[ "$1" = --version ] && echo "cxx 1" && exit 0; echo "{missing}" >&2; exit 1'
    monkeypatch.setenv("CXX", program(tmp_path, "cxx", script))
    assert ask_compiler() == ("cxx 1", "Python.h: No such file or directory")
    monkeypatch.setenv("CXX", "/nowhere/cxx")
    assert ask_compiler() == (None, "")


SMI = """case "$1" in
--query-gpu=uuid,name*)
  echo "GPU-1f, NVIDIA H200, 580.1, 143771, Disabled, 700.00, 405, 1980, 3201, 40, 0"
  echo "GPU-2f, NVIDIA H200, 580.1, 143771, Enabled, 700.00, 405, 1980, 3201, 40, 0" ;;
--query-gpu=uuid,clocks_event*) exit 2 ;;
--query-gpu=uuid,clocks_throttle*) echo "GPU-1f, 0x0000000000000060"; echo "GPU-2f, 0x0000000000000002" ;;
--query-compute*) echo "GPU-1f, 4711, /usr/bin/python, train.py" ;;
esac"""


def test_devices_are_described_by_the_vendors_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "nvidia-smi", SMI)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert read_nvidia_reasons() == {"1f": 0x60, "2f": 2}
    seen = [SeenAccelerator(0, "NVIDIA H200", 5, "2f")]
    first, second = list_accelerators(seen)
    assert not first.usable
    assert first.persistence is False
    assert first.slowed == ("too hot",)
    assert first.processes == ("/usr/bin/python, train.py (process 4711)",)
    assert second.usable
    assert (second.memory, second.clock_max, second.clock_set, second.slowed) == (5, 1980, True, ())


def test_devices_of_other_vendors_are_those_that_torch_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "read_nvidia", list)
    (found,) = list_accelerators([SeenAccelerator(0, "Mine")])
    assert (found.name, found.usable, found.clock_max) == ("Mine", True, None)


def test_noise_is_told_as_shares_of_the_median() -> None:
    noise = summarize([1.0] * 90 + [1.5] * 10)
    assert (noise.repeats, noise.median, noise.p95) == (100, 0.0, 0.5)
    assert measure_noise(0.01).repeats >= 3
    assert 0 < clock_step() < 1e-3


def ticks(seconds: float, busy: int, stolen: int, processes: dict[int, tuple[str, int]]) -> Ticks:
    return Ticks(seconds, busy, stolen, busy + stolen + 1000, processes)


def test_load_is_what_others_used_and_the_busiest_are_named() -> None:
    before = ticks(10, 1000, 0, {1: ("init", 5), 7: ("us", 100), 9: ("cc1plus", 50)})
    after = ticks(11, 1180, 20, {1: ("init", 5), 7: ("us", 200), 9: ("cc1plus", 130)})
    load = compare_ticks(before, after, own=7, per_second=100)
    assert load.others == pytest.approx(0.8)
    assert load.busiest == ("cc1plus (process 9)",)
    assert load.stolen == pytest.approx(0.1)
    assert compare_ticks(None, after, own=7, per_second=100).others is None


def test_where_there_are_no_counters_of_time_there_is_no_load(tmp_path: Path) -> None:
    assert read_ticks(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "stat").write_text("cpu 1 2\n")
    assert read_ticks(tmp_path) is None


def test_this_process_is_among_those_seen() -> None:
    if not Path("/proc/stat").exists():
        pytest.skip("no /proc")
    found = read_ticks()
    assert found is None or os.getpid() in found.processes


def test_asking_never_raises(tmp_path: Path) -> None:
    assert ask(["/nowhere/program"]).code is None
    assert ask([str(tmp_path)]).code is None
    assert ask([program(tmp_path, "slow", "exec sleep 60")], timeout=0.1).err == "no answer within 0.1 s"
    assert ask(["cat"], given="text").out == "text"


def test_looking_at_a_machine_imports_no_torch() -> None:
    code = (
        "import sys; from torchstone.measure.doctor import inspection; inspection.SECONDS_OF_NOISE = 0.01; "
        "inspection.inspect_machine('/nowhere/python'); print('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "False"
