"""The accuracy probe on models of every kind: functions, methods, objects, and what cannot be copied."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_steps import TORCH_WARNINGS, ModelOutput, measure, passes, trained_values, wrong_gradients
from torch import Tensor, nn

from torchstone.define.benchmarks import Check, Work

pytestmark = TORCH_WARNINGS


def test_hooks_of_a_module_are_run() -> None:
    def double(module: nn.Module, args: Any, output: Tensor) -> Tensor:  # noqa: ANN401
        return output * 2

    def build() -> tuple[nn.Module, tuple[Tensor]]:
        model = nn.Linear(3, 2)
        model.register_forward_hook(double)
        return model, (torch.ones(2, 3),)

    passes(build)
    passes(build, mode="training")


class Unique(nn.Module):
    """Cannot be copied: there is a lock in it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 2)
        self.lock = threading.Lock()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.net(x)
        return result


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_model_that_cannot_be_copied_is_built_anew_for_every_run(mode: str) -> None:
    ended = passes(lambda: (Unique(), (torch.randn(2, 3),)), mode=mode)
    assert ended.told["rebuilt"].startswith("it cannot be copied: TypeError: cannot pickle")


def test_model_that_can_neither_be_copied_nor_be_built_the_same_again_says_so() -> None:
    def build() -> tuple[nn.Module, tuple[Tensor]]:
        torch.seed()
        return Unique(), (torch.ones(2, 3),)

    ended = measure(build)
    assert ended.status == "eager_two_runs_differ"
    assert "each run was built anew: it cannot be copied" in ended.message


def closing_over_a_module() -> tuple[Any, tuple[Tensor]]:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    return (lambda x: net(x) * 2), (torch.randn(4, 3),)


def closing_over_a_tensor() -> tuple[Any, tuple[Tensor]]:
    weight = torch.randn(3, 2, requires_grad=True)
    return (lambda x: x @ weight), (torch.randn(4, 3),)


def closing_over_deeply() -> tuple[Any, tuple[Tensor]]:
    nets = {"layers": [nn.Linear(3, 3), nn.Linear(3, 3)]}

    def inner(x: Tensor) -> Tensor:
        for net in nets["layers"]:
            x = net(x)
        return x

    return (lambda x: inner(x) + 0), (torch.randn(4, 3),)


def a_method() -> tuple[Any, tuple[Tensor]]:
    return nn.Linear(3, 2).forward, (torch.randn(4, 3),)


def a_partial() -> tuple[Any, tuple[Tensor]]:
    return functools.partial(apply, nn.Linear(3, 2)), (torch.randn(4, 3),)


def apply(net: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = net(x)
    return result


class Pipeline:
    """A class of somebody's own that can be called."""

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 2)

    def __call__(self, x: Tensor) -> Tensor:
        return self.run(x)

    def run(self, x: Tensor) -> Tensor:
        result: Tensor = self.second(self.first(x))
        return result


def an_object() -> tuple[Any, tuple[Tensor]]:
    return Pipeline(), (torch.randn(4, 3),)


def a_method_of_an_object() -> tuple[Any, tuple[Tensor]]:
    return Pipeline().run, (torch.randn(4, 3),)


@pytest.mark.parametrize(
    "build",
    [
        closing_over_a_module,
        closing_over_a_tensor,
        closing_over_deeply,
        a_method,
        a_partial,
        an_object,
        a_method_of_an_object,
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_a_function_computes_with_is_moved_trained_and_compared(
    build: Callable[..., Any], dtype: str
) -> None:
    passes(build, dtype=dtype)
    passes(build, dtype=dtype, mode="training")
    assert any(name.startswith("gradient of") for name in trained_values(build))
    wrong = measure(build, mode="training", backend=wrong_gradients, check=Check(optimizer=""))
    assert wrong.status == "fail_accuracy"


def test_loss_goes_where_the_model_goes() -> None:
    def build() -> Work:
        target = torch.ones(4, 2)
        return Work(
            nn.Linear(3, 2), (torch.randn(4, 3),), loss=lambda output: (output - target).square().mean()
        )

    for dtype in ("float32", "bfloat16"):
        passes(build, mode="training", dtype=dtype)


def test_loss_that_is_a_method_of_the_model_is_that_of_the_copy() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.scale = nn.Linear(3, 2), nn.Parameter(torch.ones(()))

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.net(x)
            return result

        def loss(self, output: Tensor) -> Tensor:
            return (output * self.scale).sum()

    def build() -> Work:
        model = Own()
        return Work(model, (torch.ones(2, 3),), loss=model.loss)

    values = trained_values(build)
    assert values["gradient of scale"].item() != 0


def test_function_that_always_computes_with_the_same_module_has_no_reference() -> None:
    shared = nn.Linear(3, 3)

    def build() -> tuple[Any, tuple[Tensor]]:
        net = shared
        return (lambda x: net(x) + 0), (torch.ones(2, 3),)

    ended = measure(build)
    assert ended.status == "pass"
    assert "returns the same model every time" in ended.cautions[0]
    assert shared.weight.dtype == torch.float32


def test_output_that_is_the_loss_is_trained_as_it_is() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> ModelOutput:
            logits = self.net(x)
            return ModelOutput(loss=logits.square().sum(), logits=logits)

    values = trained_values(lambda: (Own(), (torch.ones(1, 3),)), Check(optimizer=""))
    torch.manual_seed(1337)
    assert values["loss"].item() == pytest.approx(nn.Linear(3, 2)(torch.ones(1, 3)).square().sum().item())
