"""Benchmarks whose second rank gets into trouble, or which cannot be trained."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import torch

import torchstone

CALLS_BEFORE = 11  # one to look for unused parameters, five to warm up, and five of those that are timed


def fail() -> None:
    raise ValueError("no good")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(1000)


def leave() -> None:
    os._exit(7)


def exhaust() -> None:
    raise torch.OutOfMemoryError("out of memory, says the test")


TROUBLES = {each.__name__: each for each in (fail, die, hang, leave, exhaust)}


class Trouble(torch.nn.Module):
    def __init__(self, trouble: Callable[[], None]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.trouble = trouble
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls > CALLS_BEFORE and os.environ.get("RANK") == "1":
            self.trouble()
        out: torch.Tensor = self.layer(x)
        return out


@torchstone.benchmark(batch_size=4, parameters={"trouble": list(TROUBLES)})
def troubled(trouble: str, batch_size: int) -> object:
    return Trouble(TROUBLES[trouble]), (torch.randn(batch_size, 16),)


@torchstone.benchmark
def frozen() -> object:
    return torch.nn.Linear(4, 4).requires_grad_(False), (torch.randn(2, 4),)


@torchstone.benchmark
def function() -> object:
    weight = torch.randn(4, 4, requires_grad=True)
    return (lambda x: x @ weight), (torch.randn(2, 4),)


@torchstone.benchmark(modes=["inference"])
def untrained() -> object:
    return torch.nn.Linear(4, 4), (torch.randn(2, 4),)


class Unused(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = torch.nn.Linear(64, 64), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if os.environ.get("RANK") == "1":
            until = time.perf_counter() + 0.05
            while time.perf_counter() < until:
                pass
        out: torch.Tensor = self.used(x)
        return out


@torchstone.benchmark(batch_size=4)
def straggling(batch_size: int) -> object:
    return Unused(), (torch.randn(batch_size, 64),)
