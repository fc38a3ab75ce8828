"""Turns on a device: timed by how long it is busy, slowed down by work of its own, and looked at before the first."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fake_accelerator import MICROSECOND, FakeAccelerator
from probe_steps import Recorder, cautions_in

from torchstone.define.benchmarks import Work
from torchstone.worker.probes import turns
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time.device_intervals import DeviceActivity
from torchstone.worker.probes.device_time.device_times import Call
from torchstone.worker.probes.device_time.device_turns import DeviceTurns, slow_down_device
from torchstone.worker.probes.device_time.recording import NoDeviceActivityError
from torchstone.worker.probes.reply import PhaseClock, Result
from torchstone.worker.probes.subject import Target
from torchstone.worker.probes.turns import take_turns
from torchstone.worker.protocol.jobs import (
    NO_COMPILER,
    MakeCalls,
    Order,
    PairPart,
    decode_order,
    encode_order,
)
from torchstone.worker.protocol.replies import TurnReady, TurnTaken, decode_reply, encode_reply


def as_device(fake: FakeAccelerator) -> Device:
    found = SimpleNamespace(
        type="cuda", synchronize=fake.synchronize, current_index=lambda: 0, uuid=lambda: ""
    )
    return cast("Device", found)


def turns_of(fake: FakeAccelerator, call: Call) -> DeviceTurns:
    return DeviceTurns(call, as_device(fake), fake.record)


def launching(fake: FakeAccelerator, microseconds: int) -> Call:
    return lambda: fake.launch(microseconds * MICROSECOND)


def test_a_turn_takes_as_long_as_the_device_is_busy_in_a_call() -> None:
    fake = FakeAccelerator(launch_cost=200 * MICROSECOND)
    assert turns_of(fake, launching(fake, 30)).take(7) == 30 * MICROSECOND
    assert fake.sessions == 1


def test_a_turn_in_which_the_profiler_sees_nothing_is_an_error_and_not_a_time() -> None:
    fake = FakeAccelerator(shown=lambda _: DeviceActivity((), ()))
    with pytest.raises(NoDeviceActivityError, match="shows nothing that a call launches"):
        turns_of(fake, launching(fake, 30)).take(7)


def test_a_first_look_tells_busy_time_and_what_the_host_takes() -> None:
    fake = FakeAccelerator(launch_cost=50 * MICROSECOND)
    side = turns_of(fake, launching(fake, 30)).look()
    assert list(side.busy) == [30.0 * MICROSECOND]
    assert (side.launched, side.launches, side.waited) == (1, 1, 0)
    assert min(side.submit) >= 50 * MICROSECOND


def use_fake(monkeypatch: pytest.MonkeyPatch, fake: FakeAccelerator) -> None:
    monkeypatch.setattr(turns, "DeviceTurns", partial(DeviceTurns, record=fake.record))


def test_a_worker_says_how_long_the_device_is_busy_and_that_its_calls_are_host_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, result = FakeAccelerator(launch_cost=100 * MICROSECOND), Result()
    use_fake(monkeypatch, fake)
    busy = turns.look_at_device(launching(fake, 30), 120 * MICROSECOND, as_device(fake), result)
    assert busy == 30 * MICROSECOND
    (text,) = cautions_in(result)
    assert text.startswith("the compiled call is host-bound")


def test_a_worker_whose_device_tells_nothing_is_timed_by_the_wall_clock_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, result = FakeAccelerator(shown=lambda _: DeviceActivity((), ())), Result()
    use_fake(monkeypatch, fake)
    assert turns.look_at_device(launching(fake, 30), 1e6, as_device(fake), result) is None
    assert cautions_in(result)[0].startswith("device time is not available")


def test_the_parent_decides_for_each_turn_which_clock_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeAccelerator(launch_cost=300 * MICROSECOND)
    use_fake(monkeypatch, fake)
    orders: list[Order] = [MakeCalls(3, on_device=True), MakeCalls(3), MakeCalls(0)]
    told: list[TurnReady | TurnTaken] = []

    def exchange(reply: TurnReady | TurnTaken) -> Order:
        told.append(reply)
        return orders[len(told) - 1]

    turns._time_turns(launching(fake, 20), as_device(fake), exchange, TurnReady(1.0))
    on_device, by_wall = (cast("TurnTaken", each).took for each in told[1:])
    assert on_device == 20 * MICROSECOND
    assert by_wall >= 300 * MICROSECOND


def test_a_device_that_is_throttled_during_turns_is_a_caution_of_the_pair(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    smi = tmp_path / "nvidia-smi"
    facts = "GPU-1, NVIDIA H200, 570.1, 700, 1980, Enabled, Enabled, Disabled, 1980, 3201, 431, 52, 0x40"
    smi.write_text(f'#!/bin/sh\necho "{facts}"\n')
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    fake, result = FakeAccelerator(), Result()
    use_fake(monkeypatch, fake)
    device = as_device(fake)
    model = launching(fake, 30)
    target = Target(device, "inference", "float32", NO_COMPILER)
    clock = PhaseClock(Recorder(), result)
    take_turns(Work(lambda _: model(), (1,)), target, PairPart(), clock, result, lambda _: MakeCalls(0))
    assert result.details.device_state is not None
    assert any(text.startswith("the device was throttled") for text in cautions_in(result))


@pytest.mark.parametrize("order", [MakeCalls(5), MakeCalls(5, on_device=True)])
def test_the_clock_of_a_turn_arrives_at_the_worker(order: MakeCalls) -> None:
    assert decode_order(encode_order(order)) == order


def test_the_busy_time_of_a_call_arrives_at_the_parent() -> None:
    ready = TurnReady(7e6, busy=5e6)
    assert decode_reply(encode_reply(ready)) == ready


def test_a_slowdown_on_the_device_is_calibrated_to_a_share_of_the_calls_own_time() -> None:
    ran: list[str] = []

    def call() -> str:
        ran.append("call")
        return "result"

    def busy(each: Any) -> float:  # noqa: ANN401  (a call, or a bound method of a tensor)
        if each is call:
            return 1e6
        elements = int(each.__self__.numel())
        calibrated.append(elements)
        return 2_000.0 + elements * 0.01  # a kernel has a fixed cost

    calibrated: list[int] = []
    slowed = slow_down_device(call, 0.05, Device("cpu"), busy)
    assert slowed() == "result"
    assert ran == ["call"]
    assert abs((2_000.0 + calibrated[-1] * 0.01) / 50_000 - 1) < 0.02


def test_a_share_of_zero_leaves_the_call_as_it_is() -> None:
    def call() -> None:
        return

    assert slow_down_device(call, 0.0, Device("cpu"), lambda _: 1.0) is call
