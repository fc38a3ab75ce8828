"""Benchmarks that note, from inside, when they are loaded and when they are timed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import torch

import torchstone
from torchstone.worker.probes.warm_up import WARM_UP_CALLS

Built = tuple[Callable[[torch.Tensor], torch.Tensor], tuple[torch.Tensor]]
NOTES = Path(os.environ["TORCHSTONE_TEST_NOTES"])


def note(what: str, start: float) -> None:
    """One interval on the clock that all processes share; a short line is written whole."""
    line = f"{what} {start} {time.monotonic()}\n".encode()
    descriptor = os.open(NOTES, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line)
    os.close(descriptor)


@torchstone.benchmark(parameters={"number": list(range(6))})
def noting(number: int) -> Built:
    started = time.monotonic()
    time.sleep(1)
    note(f"load:{number}", started)
    return timed_model(number, time.sleep)


@torchstone.benchmark(parameters={"number": [0, 1, 2, 3]})
def roomy(number: int) -> Built:
    """Needs all the room there is: out of memory while another such is at work."""
    room = os.open(f"{NOTES}.room", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(room, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until the process ends
    except BlockingIOError:
        note(f"no-room:{number}", time.monotonic())
        raise MemoryError from None
    time.sleep(2)
    return lambda x: x + number, (torch.ones(4),)


@torchstone.benchmark
def hanging() -> Built:
    return timed_model(-1, lambda _: time.sleep(1000))


def timed_model(number: int, wait: Callable[[float], object]) -> Built:
    """A model that does something else from the moment on in which it is timed: after the warm-ups of both sides."""
    calls = 0

    def model(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls > 2 * WARM_UP_CALLS:
            started = time.monotonic()
            wait(0.002)
            note(f"timed:{number}", started)
        return x + 1

    return model, (torch.ones(4),)
