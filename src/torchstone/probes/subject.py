"""A benchmark made ready for one variant: on its device, in its dtype, as the one call that is measured."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from torchstone.define import Benchmark, Work
from torchstone.probes.device import Device

SEED = 1337
NO_COMPILER = "none"
"""The backend that compiles nothing: both sides are eager, which shows how noisy the measurement itself is."""


class NotMeasurableError(Exception):
    """The benchmark cannot be measured in this way; the message says why."""


@dataclass(frozen=True)
class Target:
    """How a benchmark is to be measured: the axes of a case, and what ``torch.compile`` is told."""

    device: Device
    mode: str
    dtype: str
    backend: str
    dynamic: bool | None = None
    compile_mode: str | None = None
    fullgraph: bool = False
    options: Mapping[str, Any] | None = None

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, compiled as asked."""
        if self.backend == NO_COMPILER:
            return function
        compiled: Callable[..., Any] = torch.compile(
            function,
            backend=self.backend,
            dynamic=self.dynamic,
            fullgraph=self.fullgraph,
            mode=self.compile_mode,
            options=cast("dict[str, str | int | bool | Callable[..., Any]]", dict(self.options))
            if self.options
            else None,
        )
        return compiled

    def autocast(self) -> contextlib.AbstractContextManager[None]:
        """Automatic mixed precision in the device's own half precision, where the dtype is amp."""
        if self.dtype != "amp":
            return contextlib.nullcontext()
        return cast("contextlib.AbstractContextManager[None]", torch.autocast(self.device.type))


def seed_everything(seed: int = SEED) -> None:
    """The same random numbers from here on, in Python, torch and, if it is loaded, numpy."""
    import random  # noqa: PLC0415
    import sys  # noqa: PLC0415

    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def build(benchmark: Benchmark, target: Target, batch_size: int | None, size: str) -> Work:
    """Build the model and its inputs, and move both to the device in the dtype asked for."""
    seed_everything()
    work = benchmark.make(
        batch_size=batch_size,
        mode=target.mode,
        dtype=target.dtype,
        device=str(target.device.device),
        size=size,
    )
    dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(target.dtype)
    return place(work, target.device.device, dtype, target.mode)


def place(work: Work, device: torch.device, dtype: torch.dtype | None, mode: str) -> Work:
    """Work on a device; floating-point parameters and inputs in ``dtype`` if one is given; the module in the right mode."""
    model = work.model
    if isinstance(model, torch.nn.Module):
        model = model.to(device) if dtype is None else model.to(device, dtype)
        model.train(mode == "training")
    move = functools.partial(_place_leaf, device=device, dtype=dtype)
    args, kwargs = pytree.tree_map(move, (work.args, dict(work.kwargs)))
    return replace(work, model=model, args=args, kwargs=kwargs)


def _place_leaf(value: object, device: torch.device, dtype: torch.dtype | None) -> object:
    if isinstance(value, torch.nn.Module):
        return value.to(device) if dtype is None else value.to(device, dtype)
    if not isinstance(value, torch.Tensor):
        return value
    moved = value.detach().to(device)
    if dtype is not None and moved.is_floating_point():
        moved = moved.to(dtype)
    return moved.requires_grad_(value.requires_grad)


def clone(work: Work) -> Work:
    """An independent copy: training one leaves the other as it was."""
    memo: dict[int, Any] = {}
    model = copy.deepcopy(work.model, memo) if isinstance(work.model, torch.nn.Module) else work.model
    args, kwargs = pytree.tree_map(_clone_leaf, (work.args, dict(work.kwargs)))
    return replace(work, model=model, args=args, kwargs=kwargs)


def _clone_leaf(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return copy.deepcopy(value)


def make_call(work: Work, target: Target, model: Callable[..., Any]) -> Callable[[], Any]:
    """One step of the work with ``model`` in the place of the work's own: a forward call, and backward in training."""
    forward = functools.partial(model, *work.args, **work.kwargs)
    if target.mode == "inference":
        return forward if target.dtype != "amp" else _with_autocast(forward, target)
    zero = _gradient_cleaner(work)
    loss = work.loss or default_loss

    def step() -> Any:  # noqa: ANN401  (whatever the model returns)
        zero()
        with target.autocast():
            value = loss(forward())
        value.backward()
        return value

    return step


def _with_autocast(forward: Callable[[], Any], target: Target) -> Callable[[], Any]:
    """Enter and leave autocast with every call: held open it would keep the cast weights from call to call."""

    def call() -> Any:  # noqa: ANN401
        with target.autocast():
            return forward()

    return call


def _gradient_cleaner(work: Work) -> Callable[[], None]:
    """Drops the gradients of parameters and inputs, as every training loop does before a step."""
    leaves = [leaf for leaf in pytree.tree_leaves((work.args, dict(work.kwargs))) if _has_gradient(leaf)]
    module = work.model if isinstance(work.model, torch.nn.Module) else None

    def zero() -> None:
        if module is not None:
            module.zero_grad(set_to_none=True)
        for leaf in leaves:
            leaf.grad = None

    return zero


def _has_gradient(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


@contextlib.contextmanager
def gradient_mode(mode: str) -> Iterator[None]:
    """No gradients in inference."""
    with torch.set_grad_enabled(mode == "training"):
        yield


def default_loss(output: object) -> torch.Tensor:
    """A scalar that every floating-point output has a part in: the output's own loss, or the sum of their means."""
    own = getattr(output, "loss", None)
    if isinstance(own, torch.Tensor) and own.ndim == 0:
        return own
    tensors = [leaf for leaf in pytree.tree_leaves(output) if _has_gradient(leaf)]
    if not tensors:
        raise NotMeasurableError(
            "nothing to train: no output depends on a parameter or an input that requires a gradient"
        )
    total: torch.Tensor = tensors[0].float().mean()
    for tensor in tensors[1:]:
        total = total + tensor.float().mean()
    return total
