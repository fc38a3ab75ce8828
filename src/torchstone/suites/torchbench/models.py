"""Build a model of pytorch/benchmark. Imports torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from torchstone.define.benchmarks import Work


def build(module: str, batch_size: int | None, mode: str, device: str) -> Work:
    """Return the network of a model with its own inputs. A model with a fixed batch size keeps it."""
    model_class: Any = import_module(module).Model
    if getattr(model_class, "ALLOW_CUSTOMIZE_BSIZE", True) is False:
        batch_size = None
    with same_seeding():
        test = "train" if mode == "training" else "eval"
        network, inputs = model_class(test=test, device=device, batch_size=batch_size).get_module()
    if isinstance(inputs, Mapping):
        return Work(network, (), dict(inputs), sum_of_means)
    return Work(network, tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,), {}, sum_of_means)


@contextmanager
def same_seeding() -> Iterator[None]:
    """Restore ``torch.manual_seed``, which models of the package replace by one with a fixed seed."""
    seed = torch.manual_seed
    try:
        yield
    finally:
        torch.manual_seed = seed


def sum_of_means(output: object) -> Tensor:
    """Return the loss: the network's own, or the sum of means of its outputs, which may be nested."""
    loss = getattr(output, "loss", None)
    if isinstance(loss, Tensor):
        return loss
    means = [
        leaf.to(torch.promote_types(leaf.dtype, torch.float32)).mean()
        for leaf in pytree.tree_leaves(output)
        if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.requires_grad
    ]
    if not means:
        raise NotImplementedError("nothing in the model's output can be trained on")
    return torch.stack(means).sum()
