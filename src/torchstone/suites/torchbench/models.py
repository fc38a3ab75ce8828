"""Build a model of pytorch/benchmark, with random weights.

Imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from torchstone.define.benchmarks import Work
from torchstone.define.unavailable import NotAvailableError
from torchstone.suites.torchbench.random_weights import (
    find_missing,
    random_library_weights,
    random_weights,
)

_OF_ACCELERATORS = re.compile(r"\b(cuda|gpus?|nccl|nvidia)\b", re.IGNORECASE)


def build(module: str, batch_size: int | None, mode: str, device: str, *, on_accelerator: bool) -> Work:
    """Return the network of a model with its own inputs. A model with a fixed batch size keeps it.

    ``on_accelerator`` says that the model is known to need one. Raise NotAvailableError if the model needs a device
    or files that are not here.
    """
    kind = device.partition(":")[0]  # models compare it with "cuda"; the worker has chosen which one that is
    try:
        network, inputs = _construct(module, batch_size, mode, kind)
    except Exception as error:
        if missing := find_missing(error):
            raise NotAvailableError(
                f"it needs {missing}, which is not on this machine, and nothing is downloaded"
            ) from error
        if kind == "cpu" and (on_accelerator or _asks_for_accelerator(error)):
            raise NotAvailableError(f"it needs an accelerator: {type(error).__name__}: {error}") from error
        raise
    if isinstance(inputs, Mapping):
        return Work(network, (), dict(inputs), sum_of_means)
    return Work(network, tuple(inputs) if isinstance(inputs, list | tuple) else (inputs,), {}, sum_of_means)


def _construct(module: str, batch_size: int | None, mode: str, device: str) -> tuple[Any, Any]:
    with random_weights():
        model_class: Any = import_module(module).Model
        if getattr(model_class, "ALLOW_CUSTOMIZE_BSIZE", True) is False:
            batch_size = None
        test = "train" if mode == "training" else "eval"
        with same_seeding(), random_library_weights():
            network, inputs = model_class(test=test, device=device, batch_size=batch_size).get_module()
    return network, inputs


def _asks_for_accelerator(error: Exception) -> bool:
    """Return whether a model refuses a CPU, as models do that use a library of one vendor."""
    return isinstance(error, NotImplementedError) and _OF_ACCELERATORS.search(str(error)) is not None


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
