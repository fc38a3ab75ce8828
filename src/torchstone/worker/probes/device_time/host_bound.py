"""Find the sides of a case whose wall time measures the host: it submits work about as slowly as the device does it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

from torchstone.worker.probes.device_time.device_times import SideTimes

SUBMITTING = 0.9
"""A call is host-bound if submitting takes at least this share of the time the device is busy."""
IDLE = 0.2
"""A call is host-bound if the device is idle for more than this share of it."""


@dataclass(frozen=True)
class HostShare:
    """The host's part in a call: submit time per busy time (NaN if unclear), and the share of the call in which the device is idle."""

    submitting: float
    idle: float

    @property
    def is_host_bound(self) -> bool:
        """Return whether the wall time of the call depends on how fast the host is."""
        return self.submitting >= SUBMITTING or self.idle > IDLE


def find_host_share(side: SideTimes, wall: float) -> HostShare:
    """Return the host's part in the calls of one side; ``wall`` are nanoseconds of a call by the wall clock."""
    busy = median(side.busy)
    submitting = side.host_time / busy if busy > 0 else math.nan
    return HostShare(submitting, max(0.0, 1 - busy / wall) if wall > 0 else 0.0)
