"""Benchmarks for pairs of workers: steps that take as long as the environment says, and ways to fail."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch

import torchstone

Built = tuple[Callable[[torch.Tensor], torch.Tensor], tuple[torch.Tensor]]
STEPS = int(os.environ.get("STEPS", "200"))


def work(steps: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A call that does so much."""

    def call(x: torch.Tensor) -> torch.Tensor:
        for _ in range(steps):
            x = torch.sin(x)
        return x

    return call


@torchstone.benchmark
def steps() -> Built:
    return work(STEPS), (torch.ones(64),)


@torchstone.benchmark
def fails() -> Built:
    if "FAIL" in os.environ:
        raise ValueError("it fails on this side")
    return work(10), (torch.ones(64),)


@torchstone.benchmark
def dies() -> Built:
    calls = []

    def call(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        if "FAIL" in os.environ and len(calls) > 15:
            os._exit(7)
        time.sleep(0.001)
        return x

    return call, (torch.ones(4),)
