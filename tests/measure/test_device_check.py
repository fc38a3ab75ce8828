"""The doctor's look at one device: what torch and the device's tool say becomes findings, whatever is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from torchstone.api.inspecting.doctor import doctor
from torchstone.core.details.device_state import DeviceReading, DeviceState
from torchstone.core.errors import UsageError
from torchstone.measure.doctor.device_check import DeviceCheck, SeenDevice, check_device, diagnose_device
from torchstone.measure.doctor.diagnosis import Level

CUDA = SeenDevice(uuid="GPU-1", index=0, kind="cuda")
HEALTHY = DeviceState(
    source="nvml",
    name="NVIDIA H200",
    driver="570.1",
    power_limit_w=700.0,
    sm_clock_max_mhz=1980.0,
    persistence=True,
    ecc=True,
    mig=False,
    before=DeviceReading(1755.0, 3201.0, 431.0, 52.0),
)


def findings_of(check: DeviceCheck) -> list[tuple[Level, str]]:
    return [(each.level, each.what) for each in diagnose_device(check)]


def test_a_healthy_device_is_described_in_a_line() -> None:
    assert findings_of(DeviceCheck("cuda", CUDA, HEALTHY)) == [
        (Level.OK, "torch's profiler records cuda: cases have device times"),
        (
            Level.OK,
            "NVIDIA H200, driver 570.1, 700 W at most, persistence on, ECC on, MIG off; 1,755 MHz, 431 W, 52 \u00b0C, by nvml",
        ),
    ]


def test_a_device_that_is_throttled_shared_or_sliced_has_problems_and_notes() -> None:
    reading = DeviceReading(900.0, reasons=("power cap", "too hot"))
    state = HEALTHY.with_reading(reading, ("too hot",), ("python (process 7)",))
    levels = {what: level for level, what in findings_of(DeviceCheck("cuda", CUDA, state))}
    assert levels["it is throttled: too hot"] is Level.PROBLEM
    assert levels["it is in use by python (process 7)"] is Level.PROBLEM
    assert levels["it runs at its power limit"] is Level.NOTE


def test_without_a_tool_the_state_is_a_note_that_says_what_to_install() -> None:
    check = DeviceCheck("cuda", CUDA, why_unknown="the package nvidia-ml-py is not installed")
    note = diagnose_device(check)[-1]
    assert note.level is Level.NOTE
    assert note.what == "the state of cuda is not known: the package nvidia-ml-py is not installed"
    assert note.advice.startswith("pip install nvidia-ml-py")


def test_a_device_that_the_profiler_cannot_record_has_a_note() -> None:
    seen = SeenDevice(profiler="torch's profiler does not record mps devices here", kind="mps")
    assert findings_of(DeviceCheck("mps", seen, HEALTHY))[0] == (
        Level.NOTE,
        "torch's profiler does not record mps devices here",
    )


def test_a_device_that_is_not_there_is_a_problem_and_nothing_can_be_measured() -> None:
    torch = pytest.importorskip("torch")
    check = check_device("cuda", sys.executable)
    assert not check.can_measure
    ((level, what),) = findings_of(check)
    assert level is Level.PROBLEM
    assert what.startswith("no cuda device is available here")
    (finding,) = diagnose_device(check)
    assert finding.advice == check.seen.remedy != ""
    if torch.version.cuda is None and torch.version.hip is None:
        assert what.endswith(f": torch {torch.__version__} was built without cuda")
        assert finding.advice == "install a torch that was built for cuda"


def test_several_devices_are_not_checked_at_once() -> None:
    with pytest.raises(UsageError, match="--device cuda:all: one device is checked at a time") as raised:
        doctor("cuda:all")
    assert raised.value.advice == "--device cuda:0"


def test_a_python_without_torch_is_a_problem_and_not_a_traceback(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    check = check_device("cuda", str(bare))
    assert not check.can_measure
    assert check.seen.problem.startswith("torch cannot be asked: ModuleNotFoundError")
