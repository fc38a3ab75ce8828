"""Measure how long a device is busy in an eager and in a compiled call, in turns.

Also measure how long the host takes to submit them.

Both sides are profiled in one session, outside the timing by the wall clock. Each block of calls ends with the device idle; what the
device did is assigned to a block by when the host launched it, so every block is one sample.
"""

from __future__ import annotations

import gc
import math
import random
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from torchstone.worker.probes.device_time.busy_time import busy_time, split_by_window
from torchstone.worker.probes.device_time.device_intervals import DeviceActivity, DeviceInterval
from torchstone.worker.probes.device_time.recording import NoDeviceActivityError, record_activity
from torchstone.worker.probes.device_time.submit_time import time_submissions

Call = Callable[[], object]
Recorder = Callable[[Callable[[], None], str], DeviceActivity]
"""Runs a function, and returns what devices of this type did meanwhile."""

PAIRS = 24
FEWEST_PAIRS = 3
SETTLING = 1  # pairs at the start that do not count: the profiler allocates its buffers
BLOCK = 2_000_000  # nanoseconds of device work in a block, of short calls
MOST_CALLS = 50  # in a block
MOST_INTERVALS = 250_000  # in a session: the profiler keeps all of them in memory
PAUSE = 100_000  # nanoseconds between blocks, so that their edges are clear
MOST_OUTSIDE = 0.01  # the share of intervals that may lie outside the blocks
QUEUE = 900  # launches that a device's queue holds: the host waits before it submits more


class NothingLaunchedError(NoDeviceActivityError):
    """The calls gave the device nothing to do."""


@dataclass(frozen=True)
class SideTimes:
    """One side, in nanoseconds a call: the device's busy time of each block, and the host's submit time of each call.

    ``launched`` counts kernels, copies and fills of a call, ``launches`` the runtime calls that submitted them. ``waited`` is how
    long the host waits for the device within a call, which is part of its submit time.
    """

    busy: tuple[float, ...]
    submit: tuple[float, ...]
    calls: int
    launched: float
    launches: float
    waited: float

    @property
    def host_time(self) -> float:
        """Return the nanoseconds of the host alone in a call; NaN if it has to wait for the device's queue, too."""
        return max(0.0, median(self.submit) - self.waited) if self.launches <= QUEUE else math.nan


@dataclass(frozen=True)
class DeviceTimes:
    """Both sides; the i-th busy times belong to one pair of blocks."""

    eager: SideTimes
    compiled: SideTimes


@dataclass
class _Block:
    side: int
    start: int
    end: int
    intervals: list[DeviceInterval] = field(default_factory=list)
    waited: int = 0
    launches: int = 0


def measure_device_times(
    eager: Call,
    compiled: Call,
    device_type: str,
    synchronize: Callable[[], None],
    budget: float,
    *,
    index: int | None = None,
    record: Recorder = record_activity,
) -> DeviceTimes:
    """Return the device times of both calls, taken within about ``budget`` seconds; both calls are compiled and warm.

    ``index`` is the number of the device, if only that one counts. Raise NoDeviceActivityError if there are none, and
    NothingLaunchedError if a call gives the device nothing to do.
    """
    session = _Session((eager, compiled), device_type, synchronize, index, record)
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        began = time.monotonic()
        first = session.run(_in_turns(1), (1, 1))
        spent = time.monotonic() - began
        calls, pairs = _plan(first, budget, spent)
        blocks = session.run(_in_turns(pairs + SETTLING), calls)[2 * SETTLING :]
    finally:
        if collecting:
            gc.enable()
    submits = [time_submissions(call, synchronize) for call in (eager, compiled)]
    one, other = (
        _sum_up(
            [block for block in blocks if block.side == side],
            calls[side],
            submits[side],
            _waited(first, side),
        )
        for side in (0, 1)
    )
    return DeviceTimes(one, other)


def _in_turns(pairs: int) -> list[int]:
    """Return the sides of blocks, in random order within each pair."""
    order = random.Random(0)  # noqa: S311  (any order will do, as long as it is not always the same)
    return [side for _ in range(pairs) for side in ((0, 1) if order.random() < 0.5 else (1, 0))]


def _plan(first: Sequence[_Block], budget: float, spent: float) -> tuple[tuple[int, int], int]:
    """Return the calls per block of both sides, and the number of pairs, from a first pair of one call each."""
    calls, seconds, intervals = [], 0.0, 0
    for block in sorted(first, key=lambda block: block.side):
        each = max(1.0, busy_time(block.intervals))
        count = max(1, min(MOST_CALLS, round(BLOCK / each), MOST_INTERVALS // 100 // len(block.intervals)))
        calls.append(count)
        seconds += count * (block.end - block.start) / 1e9
        intervals += count * (len(block.intervals) + block.launches)
    fitting = min((budget - spent) / max(seconds, 1e-9), MOST_INTERVALS / max(intervals, 1))
    return (calls[0], calls[1]), max(FEWEST_PAIRS, min(PAIRS, int(fitting)))


class _Session:
    """Profiles blocks of calls of two sides."""

    def __init__(
        self,
        sides: tuple[Call, Call],
        device_type: str,
        synchronize: Callable[[], None],
        index: int | None,
        record: Recorder,
    ) -> None:
        self._sides = sides
        self._device_type = device_type
        self._synchronize = synchronize
        self._index = index
        self._record = record

    def run(self, order: Sequence[int], calls: tuple[int, int]) -> list[_Block]:
        """Return the blocks of one session, with what the device did in each."""
        blocks: list[_Block] = []

        def run_blocks() -> None:
            self._synchronize()
            for side in order:
                _pause()
                blocks.append(_run_block(side, self._sides[side], calls[side], self._synchronize))
            _pause()

        activity = self._record(run_blocks, self._device_type)
        if self._index is not None:
            activity = activity.on_device(self._index)
        _assign(activity, blocks)
        return blocks


def _run_block(side: int, call: Call, calls: int, synchronize: Callable[[], None]) -> _Block:
    start = time.time_ns()
    for _ in range(calls):
        call()
    synchronize()
    return _Block(side, start, time.time_ns())


def _pause() -> None:
    """Wait long enough for the clocks of host and profiler to agree on which block an event belongs to."""
    end = time.perf_counter_ns() + PAUSE
    while time.perf_counter_ns() < end:
        pass


def _assign(activity: DeviceActivity, blocks: Sequence[_Block]) -> None:
    """Give each block its intervals, its launches, and how long the host waited; raise NoDeviceActivityError if they cannot be assigned."""
    if not activity.intervals:
        launches = [call for call in activity.runtime_calls if call.launches]
        if launches:
            raise NoDeviceActivityError(
                f"torch's profiler saw the host launch work ({launches[0].name}), but no kernel on the device: "
                "another profiler may be attached, or this device or its partition does not allow it"
            )
        if activity.runtime_calls:
            raise NothingLaunchedError("neither an eager nor a compiled call launches anything on the device")
        raise NoDeviceActivityError(
            "torch's profiler saw no work on the device, and no call that launched any"
        )
    windows = [(block.start - PAUSE // 2, block.end + PAUSE // 2) for block in blocks]
    found, outside = split_by_window(activity, windows)
    if outside > MOST_OUTSIDE * len(activity.intervals):
        raise NoDeviceActivityError(
            f"{outside} of {len(activity.intervals)} events of torch's profiler lie outside the calls: its clock differs from the host's"
        )
    waits = [call for call in activity.runtime_calls if call.waits]
    starts = [call.start for call in waits]
    for block, (start, end), intervals in zip(blocks, windows, found, strict=True):
        block.intervals = intervals
        inside = waits[bisect_left(starts, start) : bisect_right(starts, end)]
        block.waited = sum(call.end - call.start for call in inside[:-1])  # the last one is ours
        block.launches = len({each.correlation for each in intervals})
    for side, name in enumerate(("an eager", "a compiled")):
        if not any(block.intervals for block in blocks if block.side == side):
            raise NothingLaunchedError(f"{name} call launches nothing on the device")


def _waited(blocks: Sequence[_Block], side: int) -> float:
    """Return how long the host waited for the device within a single call, as when submit times are taken."""
    return float(max(block.waited for block in blocks if block.side == side))


def _sum_up(blocks: Sequence[_Block], calls: int, submits: Sequence[float], waited: float) -> SideTimes:
    usual, _ = Counter(len(block.intervals) for block in blocks).most_common(1)[0]
    return SideTimes(
        tuple(busy_time(block.intervals) / calls for block in blocks),
        tuple(submits),
        calls,
        usual / calls,
        median(block.launches for block in blocks) / calls,
        waited,
    )
