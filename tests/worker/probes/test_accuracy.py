"""The accuracy probe on whole models: references, what training compares, and models, inputs and outputs of every kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_steps import (
    TORCH_WARNINGS,
    changing,
    linear,
    measure,
    only,
    passes,
    trained_values,
    wrong_gradients,
)
from torch import Tensor, nn
from torch.nn import functional

from torchstone.define.benchmarks import Check, Work
from torchstone.worker.machine.strain import Strain, StrainWatch

pytestmark = TORCH_WARNINGS


# The reference


class OnlyFloat32(nn.Module):
    """Refuses to work in any other type."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            raise TypeError(f"not in {x.dtype}")
        return x * 2


def test_missing_float64_reference_is_recorded_and_cautioned_about() -> None:
    ended = measure(only(OnlyFloat32(), torch.ones(3)))
    assert ended.status == "pass"
    assert ended.told == {
        "tolerance": 1e-4,
        "cosine": True,
        "reference": "none",
        "why_cosine": "no float64 reference: TypeError: not in torch.float64",
    }
    assert ended.cautions == [
        "compared by cosine similarity only: no float64 reference (TypeError: not in torch.float64)"
    ]


def test_without_a_reference_another_direction_still_fails() -> None:
    wrong = changing(lambda x: x * torch.tensor([1.0, -1.0, 1.0]))
    ended = measure(only(OnlyFloat32(), torch.ones(3)), backend=wrong)
    assert ended.status == "fail_accuracy"
    assert "cosine similarity is 0.3333" in ended.message


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "amp"])
def test_float64_run_that_computes_something_else_is_no_reference(dtype: str) -> None:
    """Random numbers depend on the dtype; with such a reference nothing could be wrong enough to be noticed."""

    def noisy(x: Tensor) -> Tensor:
        return x + torch.randn_like(x)

    ended = measure(only(noisy, torch.zeros(1000)), dtype=dtype)
    assert ended.status == "pass"
    assert ended.told["reference"] == "none"
    assert "which rounding cannot explain" in ended.cautions[0]
    for wrong in (torch.neg, torch.zeros_like):
        ended = measure(only(noisy, torch.zeros(1000)), backend=changing(wrong), dtype=dtype)
        assert ended.status == "fail_accuracy"


def test_dropout_is_the_same_in_every_run() -> None:
    passes(lambda: (nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), (torch.randn(16, 8),)), mode="training")


def test_cosine_that_was_asked_for_is_no_fallback() -> None:
    ended = measure(linear, check=Check(cosine=True))
    assert (ended.told["cosine"], ended.told["reference"], ended.cautions) == (True, "float64", [])
    assert "why_cosine" not in ended.told


def test_settings_of_torch_are_as_before_afterwards() -> None:
    import torch._inductor.config as inductor  # noqa: PLC0415

    def settings() -> tuple[object, ...]:
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            inductor.fallback_random,
            torch.is_grad_enabled(),
        )

    seen: list[tuple[object, ...]] = []

    def model(x: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            seen.append(settings())
        return x + 1

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        before = settings()
        assert measure(only(model, torch.ones(2)), backend="none").status == "pass"
        assert measure(only(model, torch.ones(2)), backend="refusing").status == "fail_to_run"
        assert settings() == before
    finally:
        torch.use_deterministic_algorithms(False)
    assert set(seen) == {(True, True, "highest", False, True, False)}


def test_precision_that_was_set_in_torch_s_new_way_is_set_and_put_back_in_that_way() -> None:
    backends: Any = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch knows only the old way")
    before = backends.cuda.matmul.fp32_precision
    seen: set[str] = set()

    def model(x: Tensor) -> Tensor:
        seen.add(backends.cuda.matmul.fp32_precision)
        return x + 1

    try:
        backends.cuda.matmul.fp32_precision = "tf32"
        with pytest.raises(RuntimeError, match="mix"):
            torch.get_float32_matmul_precision()
        assert measure(only(model, torch.ones(2)), backend="none").status == "pass"
        assert backends.cuda.matmul.fp32_precision == "tf32"
    finally:
        backends.cuda.matmul.fp32_precision = before
    assert seen == {"ieee"}
    assert torch.get_float32_matmul_precision() == "highest"


# What training compares


class Trained(nn.Module):
    """A weight, a weight that is not used, a frozen one, and a buffer that every call changes."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.unused = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.weight + self.frozen


def test_training_compares_loss_gradients_parameters_buffers_and_input_gradients() -> None:
    def build() -> tuple[nn.Module, tuple[Tensor]]:
        return Trained(), (torch.tensor([1.0, 2.0, 3.0], requires_grad=True),)

    values = {name: value.tolist() for name, value in trained_values(build, Check(optimizer="sgd")).items()}
    # The loss is the mean of x * weight + 1: the gradient of weight is x / 3, and two steps of 0.01 go against it.
    assert values == {
        "loss": pytest.approx(3 - 0.01 * (1 + 4 + 9) / 9),
        "gradient of weight": pytest.approx([1 / 3, 2 / 3, 1]),
        "gradient of unused": [0, 0],
        "gradient of input 0": pytest.approx([(1 - 0.01 * x / 3) / 3 for x in (1, 2, 3)]),
        "weight after the steps": pytest.approx([1 - 2 * 0.01 * x / 3 for x in (1, 2, 3)]),
        "unused after the steps": [1, 1],
        "frozen after the steps": [1, 1, 1],
        "calls after the steps": 2,
    }


@pytest.mark.parametrize(
    ("optimizer", "weight"), [("sgd", 1 - 2 * 0.01 / 3), ("adam", 1 - 2 * 0.01), ("", 1.0)]
)
def test_optimizer_takes_the_steps(optimizer: str, weight: float) -> None:
    values = trained_values(only(Trained(), torch.ones(3)), Check(optimizer=optimizer))
    assert values["weight after the steps"].tolist() == pytest.approx([weight] * 3, abs=1e-6)


def test_parameters_are_trained_by_default() -> None:
    assert trained_values(only(Trained(), torch.ones(3)))["weight after the steps"].tolist() != [1, 1, 1]


def test_wrong_gradients_fail_though_the_loss_is_right() -> None:
    def build() -> Work:
        # Two equal inputs of opposite sign: the loss stays zero whatever the weight is.
        return Work(nn.Linear(2, 1, bias=False), (torch.tensor([[1.0, 2.0], [-1.0, -2.0]]),), loss=squares)

    ended = measure(build, mode="training", backend=wrong_gradients, check=Check(optimizer=""))
    assert ended.status == "fail_accuracy"
    assert ended.message.startswith("gradient of weight: ")
    assert measure(build, mode="inference", backend=wrong_gradients).status == "pass"


def squares(output: Tensor) -> Tensor:
    return output.square().sum()


def test_prediction_is_not_compared_in_training() -> None:
    """Only what it comes to: here the loss takes only one of two outputs, and only the other is wrong."""

    def wrong(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        return lambda *args: tuple(each + number for number, each in enumerate(graph(*args)))

    def build() -> Work:
        net = nn.Linear(2, 2)
        return Work(TwoOutputs(net), (torch.ones(1, 2),), loss=first_sum)

    assert measure(build, mode="training", backend=wrong).status == "pass"
    assert measure(build, backend=wrong).status == "fail_accuracy"


class TwoOutputs(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        result: Tensor = self.net(x)
        return result, result * 2


def first_sum(outputs: tuple[Tensor, Tensor]) -> Tensor:
    return outputs[0].sum()


def test_batch_norm_is_trained_and_its_statistics_are_compared() -> None:
    def build() -> tuple[nn.Module, tuple[Tensor]]:
        return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), (torch.randn(8, 4),)

    values = trained_values(build)
    assert values["1.num_batches_tracked after the steps"] == 2
    assert (values["1.running_mean after the steps"] != 0).all()
    passes(build, mode="training")
    passes(build, mode="inference")


class Tied(nn.Module):
    """Decodes with the transposed weight it encodes with, and shares a second one outright."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(4, 4, bias=False)
        self.decode = nn.Linear(4, 4, bias=False)
        self.decode.weight = self.encode.weight

    def forward(self, x: Tensor) -> Tensor:
        assert self.decode.weight is self.encode.weight
        hidden: Tensor = self.encode(x)
        return functional.linear(torch.tanh(hidden), self.decode.weight.t())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tied_weights_stay_tied_in_every_copy(dtype: str) -> None:
    def build() -> tuple[nn.Module, tuple[Tensor]]:
        return Tied(), (torch.randn(2, 4),)

    passes(build, mode="training", dtype=dtype)
    assert [name for name in trained_values(build) if "gradient" in name] == ["gradient of encode.weight"]


def test_model_with_nothing_to_train_says_so() -> None:
    ended = measure(only(nn.Identity(), torch.ones(3)), mode="training")
    assert ended.status == "eager_1st_run_fail"
    assert "nothing to train" in str(ended.error)


def test_sparse_gradients_are_compared() -> None:
    def build() -> tuple[nn.Module, tuple[Tensor]]:
        return nn.Embedding(10, 3, sparse=True), (torch.tensor([1, 2, 2]),)

    values = trained_values(build)
    assert values["gradient of weight"].shape == (10, 3)


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "amp"])
def test_lower_precision_is_judged_by_float64_too(mode: str, dtype: str) -> None:
    def build() -> tuple[nn.Module, tuple[Tensor]]:
        return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)), (torch.randn(8, 16),)

    passes(build, mode=mode, dtype=dtype)
    assert measure(build, mode=mode, dtype=dtype, backend="wrong_by_one").status == "fail_accuracy"


def test_backend_none_compares_eager_with_itself_and_captures_nothing() -> None:
    ended = passes(linear, backend="none")
    assert ended.metrics == []


def test_capture_is_measured_too() -> None:
    ended = measure(linear, identity={"start": "fork"})
    assert ended.value("unique_graphs") == 1
    assert ended.value("graph_breaks") == 0
    assert 0 < ended.value("compile_seconds") < 60
    assert ended.extra_of("compile_seconds") == {"start": "fork"}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_backends_of_torch_itself_pass(backend: str, mode: str) -> None:
    passes(linear, backend=backend, mode=mode)


def test_other_work_while_it_was_compiled_is_a_caution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StrainWatch, "read", lambda _: Strain(2.0, 280, 0.9))
    (caution,) = measure(linear).cautions
    assert caution.startswith("other work took the processor away for 45% of the time it was compiled")
