"""Time the first calls of each side, and decide whether their difference measures compiling."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchstone.worker.probes.device import Device
from torchstone.worker.probes.reply import PhaseClock

WARM_UP_CALLS = 5
STANDARD_ERRORS = 5  # standard errors by which a difference must exceed zero
# Index of the first steady call: the second compiled one may compile again.
_SETTLED_EAGER, _SETTLED_COMPILED = 1, 2


@dataclass(frozen=True)
class WarmUp:
    """Seconds of each of the first calls, and their peak memory if known."""

    times: tuple[float, ...]
    peak_bytes: int | None

    @property
    def seconds(self) -> float:
        """Return the total."""
        return math.fsum(self.times)


@dataclass(frozen=True)
class WarmUpDifference:
    """Five compiled calls minus five eager ones, in seconds.

    ``scatter`` is five standard errors, from the variation of steady calls on either side; ``faster`` is the
    part that comes from steady compiled calls being faster or slower than eager ones.
    """

    seconds: float
    scatter: float
    faster: float
    eager_seconds: float

    @property
    def is_clear(self) -> bool:
        """Return whether it exceeds the contribution of running the model."""
        return self.seconds > 0 and self.seconds > self.scatter + self.faster

    def describe(self) -> str:
        """Say why it does not measure compiling."""
        return (
            f"five compiled calls minus five eager calls is {self.seconds:.3g} s, of which up to "
            f"{self.scatter + self.faster:.3g} s is run-to-run variation (calls of {self.eager_seconds:.3g} s scatter: {self.scatter:.3g} s; "
            f"compiled ones are faster or slower: {self.faster:.3g} s)"
        )


def warm_up(call: Callable[[], Any], device: Device, clock: PhaseClock) -> WarmUp:
    """Make the first calls, as many on both sides, so that their difference is the cost of compiling.

    Waiting for the device is not counted.
    """
    knows_peak = device.reset_peak()
    times = []
    device.synchronize()
    for _ in range(WARM_UP_CALLS):
        start, waited = time.perf_counter(), clock.waited
        call()
        device.synchronize()
        times.append(time.perf_counter() - start - (clock.waited - waited))
    return WarmUp(tuple(times), device.peak_bytes() if knows_peak else None)


def compare_warm_ups(eager: WarmUp, compiled: WarmUp) -> WarmUpDifference:
    """Return the runner's compilation latency, with the contribution of running the model."""
    steady = eager.times[_SETTLED_EAGER:], compiled.times[_SETTLED_COMPILED:]
    variance = math.fsum(
        len(warmed.times) * statistics.variance(calls)
        for warmed, calls in zip((eager, compiled), steady, strict=True)
    )
    middles = [statistics.median(calls) for calls in steady]
    return WarmUpDifference(
        compiled.seconds - eager.seconds,
        STANDARD_ERRORS * math.sqrt(variance),
        len(eager.times) * abs(middles[0] - middles[1]),
        middles[0],
    )
