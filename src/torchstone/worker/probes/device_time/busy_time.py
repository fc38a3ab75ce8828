"""How long a device was busy: the union of its intervals, in all and in each of several windows of time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from torchstone.worker.probes.device_time.device_intervals import DeviceActivity, DeviceInterval

Span = tuple[float, float]
"""Start and end, in any one unit."""


def union(spans: Iterable[Span]) -> float:
    """Return the total time covered by at least one span.

    >>> union([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def busy_time(intervals: Iterable[DeviceInterval]) -> float:
    """Return the nanoseconds in which at least one of the intervals ran: streams that overlap count once."""
    return union((each.start, each.end) for each in intervals)


def split_by_window(
    activity: DeviceActivity, windows: Sequence[tuple[int, int]]
) -> tuple[list[list[DeviceInterval]], int]:
    """Return the intervals that were launched in each window, and how many were launched in none.

    ``windows`` are in order and do not overlap. An interval whose launch was not recorded counts by its own start: device and host
    were waited for each other at the end of each window.
    """
    found: list[list[DeviceInterval]] = [[] for _ in windows]
    launched = {call.correlation: call.start for call in activity.runtime_calls}
    starts = [start for start, _ in windows]
    outside = 0
    for each in activity.intervals:
        at = launched.get(each.correlation, each.start)
        place = bisect_right(starts, at) - 1
        if place >= 0 and at <= windows[place][1]:
            found[place].append(each)
        else:
            outside += 1
    return found, outside
