"""The accuracy probe on whole models: references, what training compares, and models, inputs and outputs of every kind."""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from probe_steps import TORCH_WARNINGS, Ended, changing, linear, measure, only
from torch import Tensor, nn
from torch.nn import functional

from torchstone.define import Check, Work
from torchstone.probes import accuracy

pytestmark = TORCH_WARNINGS


def passes(build: Callable[..., Any], **axes: Any) -> Ended:  # noqa: ANN401  (axes differ in type)
    """Measured, passed, with a float64 reference, and without a caution; wrong by one it would not have."""
    ended = measure(build, **axes)
    assert (ended.status, ended.message, ended.error) == ("pass", "", None)
    assert ended.told["reference"] == "float64"
    assert ended.cautions == []
    return ended


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


def test_float64_run_that_computes_something_else_is_no_reference() -> None:
    """Random numbers depend on the dtype; with such a reference nothing could be wrong enough to be noticed."""

    def noisy(x: Tensor) -> Tensor:
        return x + torch.randn_like(x)

    ended = measure(only(noisy, torch.zeros(1000)))
    assert ended.status == "pass"
    assert ended.told["reference"] == "none"
    assert "which is no rounding" in ended.cautions[0]
    assert measure(only(noisy, torch.zeros(1000)), backend=changing(torch.neg)).status == "fail_accuracy"


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


def trained_values(build: Callable[..., Any], check: Check | None = None, **axes: Any) -> dict[str, Any]:  # noqa: ANN401
    """What training compares of a model, by name."""
    kept: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        judge = accuracy._judge

        def keep_and_judge(comparison: Any, eager: dict[str, Any], *others: Any) -> None:  # noqa: ANN401
            kept.append(eager)
            judge(comparison, eager, *others)

        patch.setattr(accuracy, "_judge", keep_and_judge)
        assert measure(build, mode="training", check=check, **axes).status == "pass"
    return kept[0]


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


def wrong_gradients(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    """A backend with right results and gradients that are off by half."""
    turn: Callable[[Tensor], Tensor] = Wrong.apply

    def run(*args: Any) -> Any:  # noqa: ANN401
        return tuple(turn(each) if each.requires_grad else each for each in graph(*args))

    return run


class Wrong(torch.autograd.Function):
    """Nothing forward, one and a half times too much backward."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:  # noqa: ANN401
        return x.clone()

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> Tensor:  # noqa: ANN401
        return gradients[0] * 1.5


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


# Outputs of every kind


@dataclasses.dataclass
class Prediction:
    logits: Tensor
    note: str = "a note"
    nothing: None = None


class Pair(NamedTuple):
    left: Tensor
    right: dict[str, Tensor]


class ModelOutput(collections.OrderedDict[str, Any]):
    """As transformers has them: a dict whose values are attributes too, and torch does not know how to take it apart."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name in self:
            return self[name]
        raise AttributeError(name)


class Cache:
    """An object with tensors in it, as models return their keys and values."""

    def __init__(self, tensor: Tensor) -> None:
        self.layers = [tensor, tensor * 2]
        self.dtype = tensor.dtype
        self._own = object()


OUTPUTS: dict[str, Callable[[Tensor], Any]] = {
    "dict": lambda x: {"a": x + 1, 3: [x, (x, x)]},
    "dataclass": lambda x: Prediction(x + 1),
    "namedtuple": lambda x: Pair(x + 1, {"c": x}),
    "like transformers": lambda x: ModelOutput(loss=x.sum(), logits=x + 1),
    "object": lambda x: Cache(x + 1),
    "nested": lambda x: [{"a": [Prediction(x + 1)]}, collections.deque([x])],
    "number": lambda x: (x + 1, 3, 2.5, True),
    "nothing in it": lambda x: (x + 1, None, [], {}),
    "text": lambda x: (x + 1, "text"),
    "types": lambda x: (x + 1, x.dtype, x.device, x.shape),
    "set": lambda x: (x + 1, {"b", "a"}),
    "whole numbers": lambda x: (x + 1).long(),
    "mask": lambda x: x + 1 > 0,
    "complex": lambda x: torch.fft.fft(x + 1),
    "sparse": lambda x: (x + 1).to_sparse(),
    "expanded": lambda x: (x + 1)[:, None].expand(-1, 3),
}


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning")
def test_output_is_compared(kind: str) -> None:
    passes(only(OUTPUTS[kind], torch.arange(4.0)))


@pytest.mark.parametrize("kind", ["dict", "dataclass", "namedtuple", "like transformers", "object", "nested"])
def test_wrong_tensor_deep_in_an_output_is_found(kind: str) -> None:
    ended = measure(only(OUTPUTS[kind], torch.arange(4.0)), backend="wrong_by_one")
    assert ended.status == "fail_accuracy"
    assert ended.message.startswith(("output[", "output."))


@pytest.mark.parametrize("kind", ["dict", "dataclass", "namedtuple", "like transformers", "nested"])
def test_output_of_any_kind_can_be_trained(kind: str) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Any:  # noqa: ANN401
            return OUTPUTS[kind](self.net(x))

    passes(lambda: (Wrapped(), (torch.ones(4),)), mode="training")


def test_complex_output_can_be_trained() -> None:
    class Spectrum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.filter = nn.Parameter(torch.randn(8, dtype=torch.complex64))

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = torch.fft.fft(x) * self.filter
            return result

    def build() -> tuple[nn.Module, tuple[Tensor]]:
        return Spectrum(), (torch.randn(2, 8),)

    passes(build, mode="training")
    passes(build, mode="inference")
    assert measure(build, mode="inference", backend=turning).status == "fail_accuracy"


def turning(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
    """A backend that turns the phase of every complex number."""
    return lambda *args: tuple(each * 1j for each in graph(*args))


def test_arrays_of_numpy_are_compared() -> None:
    def model(x: Tensor) -> Any:  # noqa: ANN401
        return numpy.asarray(x.numpy()) + 1, numpy.float32(2)

    assert measure(only(model, torch.arange(3.0))).status == "pass"


@pytest.mark.parametrize("output", [None, "a text", [], {"nothing": None}])
def test_model_that_returns_no_number_passes_with_a_caution(output: object) -> None:
    ended = measure(only(lambda _: output, torch.ones(3)))
    assert ended.status == "pass"
    assert ended.cautions == ["nothing was compared: no tensor and no number came out of the model"]


@pytest.mark.parametrize("output", [object(), len, nn.Linear(1, 1), threading.Lock(), int])
def test_output_that_cannot_be_compared_is_refused(output: object) -> None:
    ended = measure(only(lambda _: output, torch.ones(3)), backend="none")
    assert ended.status == "eager_1st_run_fail"
    assert f"output is a {type(output).__name__}" in str(ended.error)


def test_output_that_holds_itself_is_refused() -> None:
    def model(x: Tensor) -> list[Any]:
        result: list[Any] = [x]
        result.append(result)
        return result

    assert measure(only(model, torch.ones(3)), backend="none").status == "eager_1st_run_fail"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda x: x[:2], "shape (2,), expected (4,)"),
        (lambda x: x.double(), "dtype torch.float64, expected torch.float32"),
    ],
)
def test_backend_that_changes_shape_or_dtype_fails(change: Callable[[Tensor], Tensor], why: str) -> None:
    ended = measure(only(lambda x: x + 1, torch.arange(4.0)), backend=changing(change))
    assert ended.status == "fail_accuracy"
    assert why in ended.message


# Inputs of every kind


def test_every_run_starts_from_the_same_inputs() -> None:
    """The second step sees what the first has changed; the second run does not."""
    seen: list[float] = []

    def model(x: Tensor) -> Tensor:
        seen.append(float(x[0]))
        return x.add_(1)

    ended = measure(only(model, torch.zeros(3)), backend="none")
    assert ended.status == "pass"
    assert seen == [0, 1] * 4


def test_change_of_an_input_that_compiled_code_forgets_is_found() -> None:
    def forgetful(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        return lambda *args: graph(*(each.clone() for each in args))

    ended = measure(only(lambda x: x.add_(1), torch.zeros(3)), backend=forgetful)
    assert ended.status == "fail_accuracy"


def test_inputs_that_are_the_same_tensor_stay_the_same_tensor() -> None:
    def model(x: Tensor, y: Tensor) -> Tensor:
        assert x is y
        return x.add_(1) * y

    same = torch.ones(3)
    for dtype in ("float32", "bfloat16"):
        passes(only(model, same, y=same), dtype=dtype, backend="none")


def test_inputs_that_share_memory_go_on_sharing_it() -> None:
    def model(x: Tensor, part: Tensor) -> Tensor:
        part.add_(1)
        return x.clone()

    whole = torch.zeros(4)
    ended = measure(only(model, whole, whole[:2]), backend="none")
    assert (ended.status, whole.tolist()) == ("pass", [0, 0, 0, 0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(12.0).reshape(3, 4).t(),
        lambda: torch.arange(12.0).reshape(3, 4)[:, ::2],
        lambda: torch.ones(3, 1).expand(3, 4),
        lambda: torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_strides_of_inputs_are_kept(make: Callable[[], Tensor], dtype: str) -> None:
    seen: set[tuple[int, ...]] = set()

    def model(x: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            seen.add(x.stride())
        return x + 1

    passes(only(model, make()), dtype=dtype, backend="none")
    assert seen == ({make().stride()} if dtype == "float32" else set())


def test_whole_number_inputs_are_left_alone_by_dtypes() -> None:
    def build() -> tuple[nn.Module, tuple[Tensor]]:
        return nn.Embedding(10, 4), (torch.tensor([1, 2]),)

    for dtype in ("float32", "bfloat16"):
        for mode in ("inference", "training"):
            passes(build, dtype=dtype, mode=mode)


def test_keyword_inputs_alone_are_enough() -> None:
    passes(only(lambda *, x, times: x * times, x=torch.ones(3), times=3))


def test_inputs_deep_in_containers_are_moved_and_copied() -> None:
    @dataclasses.dataclass(frozen=True)
    class Batch:
        pixels: Tensor
        names: list[str]

    class Found(collections.UserDict[str, Any]):
        """As transformers' tokenizers return them."""

    def model(batch: Batch, found: Found, pair: Pair) -> Tensor:
        assert batch.pixels.dtype == found["x"].dtype == pair.left.dtype == pair.right["a"].dtype
        return batch.pixels.add_(found["x"]) + pair.left.add_(pair.right["a"])

    def build() -> tuple[Any, tuple[Any, ...]]:
        one = torch.ones(2)
        return model, (Batch(one, ["a"]), Found(x=one.clone()), Pair(one.clone(), {"a": one.clone()}))

    for dtype in ("float32", "bfloat16"):
        passes(build, dtype=dtype, backend="none")


def test_packed_sequences_are_inputs_too() -> None:
    packed = nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(2, 2)])
    assert measure(lambda: (nn.GRU(2, 2), (packed,)), backend="none").status == "pass"
    assert measure(lambda: (nn.GRU(2, 2), (packed,)), backend="none", dtype="bfloat16").status == "pass"


def test_parameters_as_inputs_are_trained() -> None:
    def build() -> tuple[Any, tuple[Any, ...]]:
        return functional.linear, (torch.ones(2, 3), nn.Parameter(torch.ones(4, 3)))

    assert "gradient of input 1" in trained_values(build)
    passes(build, mode="training")


def test_parameter_of_the_model_that_is_also_an_input_stays_one() -> None:
    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(3, 3)

        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            assert weight is self.net.weight
            return functional.linear(x, weight)

    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        model = Given()
        return model, (torch.ones(2, 3), model.net.weight)

    for dtype in ("float32", "bfloat16"):
        passes(build, mode="training", dtype=dtype, backend="none")


def test_module_as_an_input_is_moved_trained_and_compared() -> None:
    def build() -> tuple[Any, tuple[Any, ...]]:
        return (lambda net, x: net(x)), (nn.Linear(3, 2), torch.ones(2, 3))

    assert "gradient of input module 0.weight" in trained_values(build)
    passes(build, mode="training", dtype="bfloat16")


def test_random_generator_as_an_input_starts_every_run_in_the_same_state() -> None:
    def model(x: Tensor, generator: torch.Generator) -> Tensor:
        return x + torch.rand(3, generator=generator)

    build = only(model, torch.ones(3), torch.Generator().manual_seed(3))
    assert measure(build, backend="none").status == "pass"


def test_input_from_another_computation_is_cut_off_from_it() -> None:
    weight = torch.ones(3, requires_grad=True)
    passes(only(lambda x: x * 2, weight * 2), mode="training")
    assert weight.grad is None


# Models of every kind


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


def test_backend_none_compares_eager_with_itself_and_captures_nothing() -> None:
    ended = passes(linear, backend="none")
    assert ended.metrics == []


def test_capture_is_measured_too() -> None:
    ended = measure(linear, identity={"worker": "zygote"})
    assert ended.value("unique_graphs") == 1
    assert ended.value("graph_breaks") == 0
    assert 0 < ended.value("dynamo_compilation_latency") < 60
    assert ended.extra_of("dynamo_compilation_latency") == {"worker": "zygote"}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_backends_of_torch_itself_pass(backend: str, mode: str) -> None:
    passes(linear, backend=backend, mode=mode)
