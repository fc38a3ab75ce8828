"""Prepare a benchmark for one variant: on its device, in its dtype, as the call to measure."""

from __future__ import annotations

import contextlib
import copy
import functools
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import torch

from torchstone.define.benchmarks import Benchmark, Work
from torchstone.worker.failures import is_out_of_memory
from torchstone.worker.probes.captured_state import Captured, closes_over_state, find_captured
from torchstone.worker.probes.device import Device
from torchstone.worker.probes.outputs.values import NotMeasurableError, map_parts, modules_in, tensors_in
from torchstone.worker.probes.reply import tell
from torchstone.worker.protocol.jobs import NO_COMPILER, CaseAxes

SEED = 1337


@dataclass(frozen=True)
class Target:
    """Settings for measuring a benchmark: the axes of a case, and the options of ``torch.compile``."""

    device: Device
    mode: str
    dtype: str
    backend: str
    dynamic: bool | None = None
    compile_mode: str | None = None
    fullgraph: bool = False
    options: Mapping[str, Any] | None = None

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Compile a function with the options."""
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
        """Return autocast with the device's half precision if the dtype is amp; else a null context."""
        if self.dtype != "amp":
            return contextlib.nullcontext()
        return cast("contextlib.AbstractContextManager[None]", torch.autocast(self.device.type))


def read_target(axes: CaseAxes) -> Target:
    """Convert the axes of a case for the probes."""
    return Target(
        Device(axes.device),
        axes.mode,
        axes.dtype,
        axes.backend,
        axes.dynamic,
        axes.compile_mode,
        axes.fullgraph,
        axes.options,
    )


def seed_everything(seed: int = SEED) -> None:
    """Seed Python, torch and, if it is loaded, numpy."""
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def read_random_state(device: torch.device) -> list[torch.Tensor]:
    """Return torch's random state, of the CPU and the device; it changes with every draw."""
    states = [torch.get_rng_state()]
    if device.type != "cpu" and hasattr(module := torch.get_device_module(device), "get_rng_state"):
        states.append(module.get_rng_state(device))
    return states


def build(
    benchmark: Benchmark, target: Target, batch_size: int | None, size: str, labels: bool = False
) -> Work:
    """Build model and inputs, and move both to the device and dtype. With ``labels``, a model gets them in inference, too."""
    seed_everything()
    work = benchmark.make(
        batch_size=batch_size,
        mode=target.mode,
        dtype=target.dtype,
        device=str(target.device.device),
        size=size,
        labels=labels or None,
    )
    dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16}.get(target.dtype)
    return place(work, target.device.device, dtype, target.mode)


def place(work: Work, device: torch.device, dtype: torch.dtype | None, mode: str) -> Work:
    """Move work to a device; convert floating-point parameters and inputs to ``dtype`` if given; set the mode.

    Tensors that are passed twice, or are the model's own parameters, stay shared.
    """
    convert = functools.partial(_convert, device=device, dtype=dtype)
    captured = find_captured_by_work(work)
    for held in captured.values():
        if isinstance(held, torch.nn.Module):
            _convert_module(held, device, dtype)
            held.train(mode == "training")
        elif (converted := convert(held.data)) is not held.data:
            held.data = converted
    moved: dict[int, Any] = {id(each): each for each in _owned(captured)}

    def move(value: Any) -> Any:  # noqa: ANN401  (a tensor, or a module that has been moved above)
        if id(value) not in moved:
            moved[id(value)] = convert(value.detach()).requires_grad_(value.requires_grad)
        return moved[id(value)]

    args, kwargs = map_parts(move, (work.args, dict(work.kwargs)))
    return replace(work, args=args, kwargs=kwargs)


def find_captured_by_work(work: Work) -> dict[str, Captured]:
    """Return everything the work computes with besides input tensors, by name.

    That is what model and loss capture, and modules among the inputs.
    """
    inputs = enumerate(modules_in((work.args, dict(work.kwargs))))
    named = [
        *find_captured(work.model).items(),
        *((f"loss.{name}", each) for name, each in (find_captured(work.loss) if work.loss else {}).items()),
        *((f"input module {number}", each) for number, each in inputs),
    ]
    first = {id(each): name for name, each in reversed(named)}
    return {name: each for name, each in named if first[id(each)] == name}


def _owned(captured: Mapping[str, Captured]) -> Iterator[Captured]:
    for held in captured.values():
        yield held
        if isinstance(held, torch.nn.Module):
            yield from held.modules()
            yield from held.parameters()
            yield from held.buffers()


def _convert_module(module: torch.nn.Module, device: torch.device, dtype: torch.dtype | None) -> None:
    """Move a module; by hand if it has complex numbers, of which ``Module.to`` would keep the real part only."""
    tensors = (*module.parameters(), *module.buffers())
    if dtype is None:
        module.to(device)
    elif any(tensor.is_complex() for tensor in tensors):
        module._apply(  # type: ignore[no-untyped-call]
            functools.partial(_convert, device=device, dtype=dtype)
        )
    else:
        module.to(device, dtype)


def _convert(tensor: torch.Tensor, device: torch.device, dtype: torch.dtype | None) -> torch.Tensor:
    """Move a tensor, and convert it: floating point to ``dtype``, complex to the complex type of the same width."""
    if dtype is None or not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor.to(device)
    if not tensor.is_complex():
        return tensor.to(device, dtype)
    return tensor.to(device, torch.complex128 if dtype == torch.float64 else tensor.dtype)


class Origin:
    """Provide every run with its own copy of the work, so that none sees another's changes.

    Work is deep-copied. If that is impossible (a function with its own variables, a model with a lock or
    handle), it is rebuilt from the same seed, and ``rebuilt`` says why.
    """

    def __init__(self, work: Work, rebuild: Callable[[], Work] | None = None) -> None:
        self.work = work
        self.rebuilt = ""
        self._rebuild = rebuild
        if closes_over_state(work.model) or closes_over_state(work.loss):
            self.rebuilt = "a function with variables of its own cannot be copied"

    def copy(self) -> Work:
        """Return work that nobody else uses."""
        if not self.rebuilt:
            try:
                return clone(self.work)
            except Exception as error:
                if is_out_of_memory(error):
                    raise
                self.rebuilt = f"it cannot be copied: {tell(error)}"
        if self._rebuild is None:
            raise NotMeasurableError(self.rebuilt)
        return _with_own_inputs(self._rebuild())

    def copy_apart(self) -> Work:
        """Return work that may be changed entirely, even in type; refuse if every build returns the same model."""
        own = self.copy()
        mine = {id(each) for each in find_captured_by_work(self.work).values()}
        if any(id(each) in mine for each in find_captured_by_work(own).values()):
            raise NotMeasurableError("the function that builds it returns the same model every time")
        return own


def clone(work: Work) -> Work:
    """Return an independent copy; sharing within the work is preserved."""
    model, args, kwargs, loss = copy.deepcopy((work.model, work.args, dict(work.kwargs), work.loss))
    return Work(model, args, kwargs, loss)


def _with_own_inputs(work: Work) -> Work:
    """Copy the inputs, if possible: a builder may return the same tensors every time."""
    memo: dict[int, Any] = {id(each): each for each in _owned(find_captured_by_work(work))}
    with contextlib.suppress(Exception):
        args, kwargs = copy.deepcopy((work.args, dict(work.kwargs)), memo)
        return replace(work, args=args, kwargs=kwargs)
    return work


def make_call(work: Work, target: Target, model: Callable[..., Any]) -> Callable[[], Any]:
    """Return one step of the work with ``model`` in place of its own: forward, and backward in training."""
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
    """Enter and leave autocast with every call: left open, it would cache the cast weights."""

    def call() -> Any:  # noqa: ANN401  (a model returns anything)
        with target.autocast():
            return forward()

    return call


def _gradient_cleaner(work: Work) -> Callable[[], None]:
    """Return a function that drops all gradients, as training loops do before a step."""
    leaves = list(find_trained(work).values())

    def zero() -> None:
        for leaf in leaves:
            leaf.grad = None

    return zero


def find_trained(work: Work) -> dict[str, torch.Tensor]:
    """Return everything that gets a gradient, by name: parameters, captured tensors and inputs."""
    found = {name: each for name, each in find_state(work).items() if each.requires_grad}
    known = {id(each) for each in found.values()}
    for number, leaf in enumerate(tensors_in((work.args, dict(work.kwargs)))):
        if leaf.requires_grad and id(leaf) not in known:
            known.add(id(leaf))
            found[f"input {number}"] = leaf
    return found


def find_state(work: Work, buffers: bool = False) -> dict[str, torch.Tensor]:
    """Return parameters and captured tensors by name; with buffers if asked for."""
    found: dict[str, torch.Tensor] = {}
    for name, held in find_captured_by_work(work).items():
        if isinstance(held, torch.Tensor):
            found[name] = held
            continue
        before = f"{name}." if name else ""
        named = (*held.named_parameters(), *(held.named_buffers() if buffers else ()))
        found |= {before + own: each for own, each in named}
    return found


@contextlib.contextmanager
def gradient_mode(mode: str) -> Iterator[None]:
    """Disable gradients in inference."""
    with torch.set_grad_enabled(mode == "training"):
        yield


def default_loss(output: object) -> torch.Tensor:
    """Return a scalar that depends on every floating-point output: the output's own loss, or the sum of means."""
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor) and own.ndim == 0 and own.requires_grad:
        return own
    tensors = [leaf for leaf in tensors_in(output) if leaf.requires_grad and leaf.numel()]
    if not tensors:
        raise NotMeasurableError(
            "nothing to train: no output depends on a parameter or an input that requires a gradient"
        )
    total = _mean(tensors[0])
    for tensor in tensors[1:]:
        total = total + _mean(tensor)
    return total


def _mean(tensor: torch.Tensor) -> torch.Tensor:
    """Return the mean, of absolute values if complex, in float32 or wider: half precision loses sums."""
    real = tensor.abs() if tensor.is_complex() else tensor
    return real.to(torch.promote_types(real.dtype, torch.float32)).mean()
