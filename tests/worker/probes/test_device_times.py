"""Device times: what the device did in each block of calls, whatever the host did; host-bound cases; and devices that tell nothing."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest
from fake_accelerator import MICROSECOND, FakeAccelerator
from hypothesis import given
from hypothesis import strategies as st
from probe_steps import cautions_in

from torchstone.worker.probes.device import Device
from torchstone.worker.probes.device_time.busy_time import busy_time, split_by_window
from torchstone.worker.probes.device_time.device_intervals import DeviceActivity, DeviceInterval
from torchstone.worker.probes.device_time.device_results import (
    add_device_times,
    note_no_device_time,
    take_device_times,
)
from torchstone.worker.probes.device_time.device_times import (
    PAIRS,
    DeviceTimes,
    NothingLaunchedError,
    SideTimes,
    measure_device_times,
)
from torchstone.worker.probes.device_time.host_bound import find_host_share
from torchstone.worker.probes.device_time.recording import NoDeviceActivityError, find_profiler_problem
from torchstone.worker.probes.reply import Result

Call = Callable[[], None]


def interval(start: int, end: int, stream: int = 7, device: int = 0) -> DeviceInterval:
    return DeviceInterval("kernel", "kernel", start, end, device, stream, 0, 0)


def kernels(device: FakeAccelerator, *microseconds: int) -> Call:
    def call() -> None:
        for each in microseconds:
            device.launch(each * MICROSECOND)

    return call


def times_of(device: FakeAccelerator, eager: Call, compiled: Call, **options: int) -> DeviceTimes:
    return measure_device_times(
        eager, compiled, "cuda", device.synchronize, 2.0, record=device.record, **options
    )


def side(
    busy: float, submit: float, *, waited: float = 0, launches: float = 10, blocks: int = PAIRS
) -> SideTimes:
    return SideTimes((busy,) * blocks, (submit,) * 5, 1, 10, launches, waited)


def result_of(eager: SideTimes, compiled: SideTimes, walls: tuple[float, float]) -> Result:
    result = Result()
    add_device_times(result, DeviceTimes(eager, compiled), walls)
    return result


def value(result: Result, metric: str) -> float:
    return median(next(each.samples for each in result.measurements if each.metric == metric))


def test_overlapping_streams_count_once_and_gaps_do_not_count() -> None:
    assert busy_time([interval(0, 10), interval(5, 15, stream=8), interval(20, 30)]) == 25


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 100)), max_size=30))
def test_busy_time_is_the_number_of_nanoseconds_in_which_anything_ran(spans: list[tuple[int, int]]) -> None:
    covered = {moment for start, length in spans for moment in range(start, start + length)}
    assert busy_time([interval(start, start + length) for start, length in spans]) == len(covered)


def test_intervals_belong_to_the_window_they_start_in_and_others_are_strays() -> None:
    activity = DeviceActivity((interval(1, 4), interval(3, 12), interval(11, 12), interval(50, 60)), ())
    found, outside = split_by_window(activity, [(0, 5), (10, 20)])
    assert [len(each) for each in found] == [2, 1]
    assert outside == 1


def test_every_block_has_the_time_of_its_kernels_however_slowly_the_host_launches_them() -> None:
    device = FakeAccelerator(launch_cost=100 * MICROSECOND)
    times = times_of(device, kernels(device, 30, 20, 10), kernels(device, 20, 10))
    assert set(times.eager.busy) == {60.0 * MICROSECOND}
    assert set(times.compiled.busy) == {30.0 * MICROSECOND}
    assert (times.eager.launched, times.compiled.launched) == (3, 2)
    assert min(times.eager.submit) >= 300 * MICROSECOND


@pytest.mark.slow
def test_device_speedup_does_not_depend_on_the_host() -> None:
    for cost in (1 * MICROSECOND, 200 * MICROSECOND):
        device = FakeAccelerator(launch_cost=cost)
        times = times_of(device, kernels(device, 30, 30), kernels(device, 20, 20))
        result = Result()
        add_device_times(result, times, (1e6, 1e6))
        assert value(result, "device_speedup") == pytest.approx(1.5)


def test_a_graph_replay_is_one_launch_with_the_time_of_all_its_kernels() -> None:
    device = FakeAccelerator()
    times = times_of(
        device, kernels(device, 10, 10), lambda: device.launch_graph([5 * MICROSECOND] * 4, name="node")
    )
    assert set(times.compiled.busy) == {20.0 * MICROSECOND}
    assert (times.compiled.launched, times.compiled.launches) == (4, 1)


def test_kernels_are_assigned_by_their_launch_even_if_the_device_has_another_clock() -> None:
    device = FakeAccelerator(clock_offset=3_000_000_000)
    times = times_of(device, kernels(device, 30), kernels(device, 10))
    assert set(times.eager.busy) == {30.0 * MICROSECOND}


def test_without_launches_another_clock_is_an_error_that_says_so() -> None:
    device = FakeAccelerator(
        clock_offset=3_000_000_000, shown=lambda activity: DeviceActivity(activity.intervals, ())
    )
    with pytest.raises(NoDeviceActivityError, match="its clock differs from the host's"):
        times_of(device, kernels(device, 30), kernels(device, 10))


def test_a_profiler_that_returns_no_kernels_is_an_error_that_names_the_launch() -> None:
    device = FakeAccelerator(shown=lambda activity: DeviceActivity((), activity.runtime_calls))
    with pytest.raises(
        NoDeviceActivityError, match=r"saw the host launch work \(cudaLaunchKernel\), but no kernel"
    ):
        times_of(device, kernels(device, 30), kernels(device, 10))


def test_a_profiler_that_sees_nothing_at_all_is_an_error() -> None:
    device = FakeAccelerator(shown=lambda _: DeviceActivity((), ()))
    with pytest.raises(NoDeviceActivityError, match="saw no work on the device"):
        times_of(device, kernels(device, 30), kernels(device, 10))


def test_a_call_that_launches_nothing_is_an_error_and_not_a_time_of_zero() -> None:
    device = FakeAccelerator()
    with pytest.raises(NothingLaunchedError, match="a compiled call launches nothing"):
        times_of(device, kernels(device, 30), lambda: None)


def test_only_the_device_that_is_measured_counts() -> None:
    def elsewhere(activity: DeviceActivity) -> DeviceActivity:
        other = tuple(interval(each.start, each.end + 1000, device=1) for each in activity.intervals)
        return DeviceActivity((*activity.intervals, *other), activity.runtime_calls)

    device = FakeAccelerator(shown=elsewhere)
    times = times_of(device, kernels(device, 30), kernels(device, 10), index=0)
    assert set(times.compiled.busy) == {10.0 * MICROSECOND}


def test_an_exception_of_the_model_while_it_is_profiled_passes() -> None:
    device = FakeAccelerator()

    def fail() -> None:
        raise RuntimeError("CUDA error: unspecified launch failure")

    with pytest.raises(RuntimeError, match="launch failure"):
        times_of(device, kernels(device, 30), fail)


def test_waiting_for_the_device_within_a_call_is_not_time_of_the_host() -> None:
    device = FakeAccelerator()

    waited: list[int] = []

    def wait() -> None:
        device.launch(300 * MICROSECOND)
        device.synchronize()
        waited.append(device.calls[-1].end - device.calls[-1].start)

    times = times_of(device, kernels(device, 30), wait)
    assert times.eager.waited == 0
    assert times.compiled.waited == waited[0]
    assert side(9e6, 9e6, waited=6e6).host_time == 3e6


@pytest.mark.parametrize(
    ("busy", "submit", "wall", "is_host_bound"),
    [
        (1e6, 0.2e6, 1.02e6, False),
        (1e6, 0.95e6, 1.05e6, True),  # one slow minute of the host, and it waits for it
        (1e6, 0.5e6, 1.3e6, True),  # idle for a quarter of the call
        (1e6, 3e6, 3.1e6, True),
    ],
)
def test_a_call_is_host_bound_if_the_host_submits_as_slowly_as_the_device_works_or_lets_it_idle(
    busy: float, submit: float, wall: float, *, is_host_bound: bool
) -> None:
    assert find_host_share(side(busy, submit), wall).is_host_bound == is_host_bound


def test_a_full_queue_or_a_wait_does_not_make_a_busy_device_host_bound() -> None:
    assert not find_host_share(side(9e6, 9e6, launches=5000), 9.1e6).is_host_bound
    assert not find_host_share(side(9e6, 9e6, waited=6e6), 9.1e6).is_host_bound
    assert find_host_share(side(9e6, 9e6, waited=0.1e6), 9.1e6).is_host_bound


def test_host_bound_is_a_caution_with_its_numbers_and_what_to_do() -> None:
    result = result_of(side(1e6, 3e6), side(0.5e6, 0.1e6), (3.1e6, 0.55e6))
    (text,) = cautions_in(result)
    assert text == (
        "the eager call is host-bound: submitting takes 3 ms, the device is busy for 1 ms and idle for 68% of the call, so its wall "
        "time measures the host; judge it by device_latency and device_speedup; CUDA graphs (--compile-mode reduce-overhead) or a "
        "larger batch keep the device busy"
    )


def test_device_metrics_have_samples_intervals_and_the_share_of_the_call() -> None:
    result = result_of(side(6e6, 2e6), side(4e6, 1e6), (6.2e6, 5e6))
    assert value(result, "device_speedup") == pytest.approx(1.5)
    assert value(result, "device_latency") == 4
    assert value(result, "eager_device_latency") == 6
    assert value(result, "host_latency") == 1
    assert value(result, "eager_host_latency") == 2
    assert value(result, "device_share") == pytest.approx(80)
    stated = next(each.extra for each in result.measurements if each.metric == "device_speedup")
    assert stated is not None
    assert stated.interval is not None
    low, high = stated.interval
    assert 1.5 / 1.02 < low < 1.5 / 1.005 < 1.5 * 1.005 < high < 1.5 * 1.02  # what other processes may show


def test_a_device_without_device_time_is_said_to_have_none_and_has_no_zeros() -> None:
    result = Result()
    note_no_device_time(result, NoDeviceActivityError("torch's profiler does not record mps devices here"))
    assert result.measurements == []
    assert cautions_in(result) == [
        "device time is not available: torch's profiler does not record mps devices here"
    ]
    assert (result.details.left_out or {})["device_latency"].startswith("torch's profiler")


def test_nothing_is_profiled_on_a_cpu() -> None:
    def never() -> None:
        raise AssertionError

    result = Result()
    assert take_device_times(never, never, Device("cpu"), 1.0, result, 0.1) is None
    assert result == Result()


@pytest.mark.parametrize("kind", ["mps", "meta", "hip"])
def test_devices_that_the_profiler_does_not_know_are_named(kind: str) -> None:
    assert find_profiler_problem(kind) == f"torch's profiler does not record {kind} devices here"


def test_calls_that_are_too_long_to_be_profiled_are_not_and_the_result_says_so() -> None:
    def never() -> None:
        raise AssertionError

    result = Result()
    device = Device("cpu")
    device.type = "cuda"
    assert take_device_times(never, never, device, 1.0, result, 60.0) is None
    assert cautions_in(result) == [
        "device time is not available: an eager and a compiled call take 60 s, too long to be profiled"
    ]
