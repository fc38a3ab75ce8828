"""Events that torch's profiler recorded on an H200 (benchmarks/device_time.py --record), and what is read from them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from torch._C._autograd import DeviceType

from torchstone.worker.probes.device_time.busy_time import busy_time
from torchstone.worker.probes.device_time.device_intervals import (
    DeviceActivity,
    DeviceInterval,
    read_activity,
)

RECORDED = Path(__file__).parent / "recorded_events.json"


@dataclass
class RecordedEvent:
    """An event with the interface of torch's own; that of torch 2.11 has no activity type."""

    text: str
    kind: str
    numbers: tuple[int, ...]

    def name(self) -> str:
        return self.text

    def device_type(self) -> DeviceType:
        return DeviceType.__members__[self.kind]

    def start_ns(self) -> int:
        return self.numbers[0]

    def duration_ns(self) -> int:
        return self.numbers[1]

    def device_index(self) -> int:
        return self.numbers[2]

    def device_resource_id(self) -> int:
        return self.numbers[3]

    def correlation_id(self) -> int:
        return self.numbers[4]

    def linked_correlation_id(self) -> int:
        return self.numbers[5]


@cache
def activity_of(call: str) -> DeviceActivity:
    recorded = json.loads(RECORDED.read_text())["calls"][call]
    names = recorded["names"]
    return read_activity(
        RecordedEvent(names[row[0]][0], names[row[0]][1], tuple(row[1:])) for row in recorded["events"]
    )


def total(intervals: tuple[DeviceInterval, ...]) -> int:
    return sum(each.end - each.start for each in intervals)


def test_the_recording_is_small() -> None:
    assert RECORDED.stat().st_size < 200_000


@pytest.mark.parametrize("call", ["eager", "compiled", "cuda_graph"])
def test_three_calls_of_a_layer_are_three_times_the_same_kernels(call: str) -> None:
    kernels = [each.name for each in activity_of(call).intervals if each.kind == "kernel"]
    layer = [name for name in kernels if "multi_tensor" not in name]  # copies the inputs of a graph
    assert len(layer) % 3 == 0
    assert layer[: len(layer) // 3] * 3 == layer


def test_no_event_of_the_profiler_itself_counts_as_work_or_as_a_call() -> None:
    names = {
        each.name
        for call in ("eager", "compiled", "cuda_graph", "waits", "nothing")
        for part in (activity_of(call).intervals, activity_of(call).runtime_calls)
        for each in part
    }
    assert "Activity Buffer Request" not in names
    assert "cudaDeviceSynchronize" in names


def test_every_kernel_was_launched_by_a_runtime_call_before_it_began() -> None:
    activity = activity_of("eager")
    launches = {call.correlation: call for call in activity.runtime_calls if call.launches}
    for each in activity.intervals:
        assert launches[each.correlation].start < each.start


def test_a_cuda_graph_is_one_launch_of_many_kernels() -> None:
    activity = activity_of("cuda_graph")
    replays = {call.correlation for call in activity.runtime_calls if call.name == "cudaGraphLaunch"}
    assert len(replays) == 3
    for replay in replays:
        assert sum(each.correlation == replay for each in activity.intervals) > 5


def test_kernels_of_two_streams_are_on_two_streams_and_overlap_counts_once() -> None:
    intervals = activity_of("two_streams").intervals
    assert len({each.stream for each in intervals}) == 2
    assert busy_time(intervals) <= total(intervals)


def test_kernels_of_one_stream_do_not_overlap() -> None:
    intervals = activity_of("waits").intervals
    assert len({each.stream for each in intervals}) == 1
    assert busy_time(intervals) == total(intervals)


def test_copies_and_fills_are_told_from_kernels() -> None:
    kinds = [each.kind for each in activity_of("copies").intervals]
    assert kinds.count("copy") == 2
    assert "fill" in [each.kind for each in activity_of("eager").intervals]


def test_waits_within_a_call_are_found() -> None:
    waits = [call.name for call in activity_of("waits").runtime_calls if call.waits]
    own, of_the_profiler = "cudaDeviceSynchronize", "cudaDeviceSynchronize"
    assert waits == [*["cudaStreamSynchronize"] * 3, own, of_the_profiler]


def test_a_call_that_launches_nothing_has_no_intervals_and_no_launches() -> None:
    activity = activity_of("nothing")
    assert activity.intervals == ()
    assert not any(call.launches for call in activity.runtime_calls)
