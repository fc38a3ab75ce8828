"""Benchmark ahead-of-time autograd: tracing forward and backward, tensor subclasses, graph partitioning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torchstone.define.counted import Counted
from torchstone.suites.compile_time.base import Compiled, seeded

if TYPE_CHECKING:
    from torch import Tensor

BACKEND = "aot_eager_decomp_partition"


class Dispatcher(Compiled):
    """Compile a function of a hundred inputs and outputs."""

    category = "aotdispatcher"
    description = "100 inputs and 100 outputs, each input doubled"
    backend = BACKEND
    subclass = False
    """Whether inputs are a tensor subclass, which must be unwrapped and wrapped again."""

    def prepare_once(self) -> None:
        """Create a hundred vectors."""
        self.inputs = [self._input() for _ in range(100)]

    def _input(self) -> Tensor:
        import torch

        training = self.mode == "training"
        plain = torch.ones(100, device=self.device, requires_grad=training)
        if not self.subclass:
            return plain
        from torch.testing._internal.two_tensor import TwoTensor

        pair: Any = TwoTensor
        twin = plain.detach().clone().requires_grad_(training)
        result: Tensor = pair(plain, twin)
        return result

    def run(self) -> None:
        """Compile."""
        import torch

        torch.compile(double_each, backend=self.backend, fullgraph=True)(*self.inputs)


def double_each(*inputs: Tensor) -> list[Tensor]:
    """Return as many outputs as inputs."""
    return [each.add(each) for each in inputs]


class DeepCut(Compiled):
    """Partition a hundred layers: choose what to save and what to recompute."""

    category = "aotdispatcher_partitioner"
    description = (
        "forward cut from backward: one input, 100 weights, products to keep between sines to compute again"
    )
    backend = BACKEND

    def prepare_once(self) -> None:
        """Create an input and the weights."""
        import torch

        source = seeded()
        self.start = torch.randn(16, 16, generator=source)
        self.weights = [torch.randn(16, 16, generator=source).requires_grad_() for _ in range(100)]

    def run(self) -> None:
        """Compile."""
        import torch

        torch.compile(sine_layers, backend=self.backend, fullgraph=True)(self.start, *self.weights)


def sine_layers(value: Tensor, *weights: Tensor) -> Tensor:
    """Compute a product and two sines for each weight."""
    for weight in weights:
        value = weight.matmul(value).sin().sin()
    return value


class WideCut(Compiled):
    """Partition many parallel chains that all use each other."""

    category = "aotdispatcher_partitioner"
    description = "forward cut from backward: 16 parallel chains that use each other (pytorch issue 145081)"
    backend = BACKEND

    def prepare_once(self) -> None:
        """Create a small matrix."""
        import torch

        self.start = torch.ones(4, 4, requires_grad=True)

    def run(self) -> None:
        """Compile."""
        import torch

        torch.compile(crossing_chains, backend=self.backend, fullgraph=True)(self.start)


def crossing_chains(start: Tensor) -> Tensor:
    """Subtract each chain from the next three."""
    chains = [start + number for number in range(16)]
    chains = [start + each for each in chains]
    for place in range(len(chains) - 4):
        value = chains[place].sin().mul(chains[place])
        chains[place] = value
        for further in (1, 2, 3):
            chains[place + further] -= value
    total: Any = sum(chains)
    result: Tensor = total
    return result


def collect() -> Sequence[Counted]:
    """Return the benchmarks of this module."""
    return [
        Dispatcher("aotdispatcher_inference_nosubclass_cpu", mode="inference"),
        Dispatcher("aotdispatcher_inference_subclass_cpu", mode="inference", subclass=True),
        Dispatcher("aotdispatcher_training_nosubclass_cpu", mode="training"),
        Dispatcher("aotdispatcher_training_subclass_cpu", mode="training", subclass=True),
        DeepCut("aotdispatcher_partitioner_cpu"),
        WideCut("aotdispatcher_partitioner_cpu2"),
    ]
