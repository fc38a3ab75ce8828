"""The whole performance probe on an accelerator that is none: device metrics, cautions, and what becomes of them when something is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from fake_accelerator import MICROSECOND, FakeAccelerator
from probe_steps import Recorder, cautions_in

from torchstone.core.vocabulary import DEVICE_METRICS
from torchstone.define.benchmarks import Work
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time import device_results
from torchstone.worker.probes.device_time.device_intervals import DeviceActivity
from torchstone.worker.probes.device_time.device_times import measure_device_times
from torchstone.worker.probes.performance import measure_performance
from torchstone.worker.probes.reply import PhaseClock, Result
from torchstone.worker.probes.subject import Target
from torchstone.worker.probes.timing import StopRule
from torchstone.worker.protocol.jobs import NO_COMPILER


class DeviceOfFake(Device):
    """A device whose tensors are on the CPU, and whose kernels are those of a fake accelerator."""

    def __init__(self, fake: FakeAccelerator) -> None:
        super().__init__("cpu")
        self.type = "cuda"
        self._fake = fake

    def current_index(self) -> int | None:
        return 0

    def uuid(self) -> str:
        return ""

    def reset_peak(self) -> bool:
        return False

    def peak_bytes(self) -> int | None:
        return None

    @property
    def synchronize(self) -> Callable[[], None]:
        return self._fake.synchronize


@pytest.fixture(autouse=True)
def no_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tool and no library tells the state of a device."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", None)


def measure(fake: FakeAccelerator, monkeypatch: pytest.MonkeyPatch, *microseconds: int) -> Result:
    monkeypatch.setattr(
        device_results, "measure_device_times", partial(measure_device_times, record=fake.record)
    )
    result = Result()

    def model(tensor: torch.Tensor) -> torch.Tensor:
        for each in microseconds:
            fake.launch(each * MICROSECOND)
        return tensor

    work = Work(model, (torch.ones(2),))
    target = Target(DeviceOfFake(fake), "inference", "float32", NO_COMPILER)
    measure_performance(
        work, target, StopRule(repeat=20, budget=0.5), PhaseClock(Recorder(), result), result, {}
    )
    return result


def metrics_of(result: Result) -> set[str]:
    return {each.metric for each in result.measurements}


def test_every_case_on_an_accelerator_has_the_device_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    result = measure(FakeAccelerator(), monkeypatch, 200, 100)
    assert set(DEVICE_METRICS) <= metrics_of(result)
    busy = next(each for each in result.measurements if each.metric == "device_latency")
    assert set(busy.samples) == {0.3}
    assert "device_latency" not in (result.details.left_out or {})


def test_a_profiler_without_kernels_leaves_the_device_metrics_out_and_keeps_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeAccelerator(shown=lambda activity: DeviceActivity((), activity.runtime_calls))
    result = measure(fake, monkeypatch, 200)
    assert not set(DEVICE_METRICS) & metrics_of(result)
    assert {"speedup", "abs_latency"} <= metrics_of(result)
    assert set(result.details.left_out or {}) >= set(DEVICE_METRICS)
    assert any(text.startswith("device time is not available") for text in cautions_in(result))


@pytest.mark.slow
def test_a_model_that_launches_nothing_has_a_caution_and_no_device_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = measure(FakeAccelerator(), monkeypatch)
    assert not set(DEVICE_METRICS) & metrics_of(result)
    assert any(
        "launches anything on the device, so it has no device time" in text for text in cautions_in(result)
    )


@pytest.mark.slow
def test_a_device_whose_state_nothing_tells_has_a_caution_and_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = measure(FakeAccelerator(), monkeypatch, 200)
    assert "speedup" in metrics_of(result)
    assert any(
        text.startswith("the state of the device is not known: the package") for text in cautions_in(result)
    )


def test_throttling_while_device_times_are_taken_is_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The device gets too hot when it is profiled for the first time."""
    reasons = tmp_path / "reasons"
    reasons.write_text("0x0")
    smi = tmp_path / "nvidia-smi"
    facts = "GPU-1, NVIDIA H200, 570.1, 700, 1980, Enabled, Enabled, Disabled, 1980, 3201, 431, 52"
    smi.write_text(f'#!/bin/sh\nread reasons < {reasons}\necho "{facts}, $reasons"\n')
    smi.chmod(0o755)
    fake = FakeAccelerator()
    record = fake.record

    def profile(run: Callable[[], None], kind: str) -> DeviceActivity:
        reasons.write_text("0x40")
        return record(run, kind)

    monkeypatch.setattr(fake, "record", profile)
    result = measure(fake, monkeypatch, 200)
    assert any(text.startswith("the device was throttled") for text in cautions_in(result))


@pytest.mark.slow
def test_a_host_bound_case_has_a_wall_interval_that_reaches_to_the_device_speedup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = measure(FakeAccelerator(launch_cost=300 * MICROSECOND), monkeypatch, 20)
    assert sum("host-bound" in text for text in cautions_in(result)) == 2
    by_wall, on_device = (
        next(each.extra for each in result.measurements if each.metric == metric)
        for metric in ("speedup", "device_speedup")
    )
    assert by_wall is not None
    assert on_device is not None
    assert by_wall.interval is not None
    assert on_device.interval is not None
    assert by_wall.interval[0] <= on_device.interval[0]
    assert by_wall.interval[1] >= on_device.interval[1]
    assert "extended to device_speedup" in (by_wall.method or "")
