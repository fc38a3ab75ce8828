"""A smoke network whose work can be increased: GATE_NOISE_EXTRA=0.3 adds 30 % of real work. ``gate_noise.py`` measures it."""

import os
from collections.abc import Callable

import torch

import torchstone
from torchstone.suites.smoke.networks import build

PASSES = 10
BATCH_SIZE = 64


class Repeated(torch.nn.Module):
    """A network, applied several times to different inputs, so that no pass can be left out."""

    def __init__(self, network: Callable[[torch.Tensor], torch.Tensor], passes: int) -> None:
        super().__init__()
        self.network = network
        self.passes = passes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of all passes."""
        total: torch.Tensor = self.network(x)
        for number in range(1, self.passes):
            total = total + self.network(x + number)
        return total


@torchstone.benchmark(batch_size=BATCH_SIZE)
def slowed_mlp() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return ten passes of the smoke suite's ``mlp``, and as many more as were asked for."""
    work = build("mlp", BATCH_SIZE)
    extra = round(PASSES * float(os.environ.get("GATE_NOISE_EXTRA") or 0))
    return Repeated(work.model, PASSES + extra), work.args
