"""The accuracy probe on outputs and inputs of every kind."""

from __future__ import annotations

import collections
import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
import torch
from probe_steps import TORCH_WARNINGS, ModelOutput, changing, measure, only, passes, trained_values
from torch import Tensor, nn
from torch.nn import functional

pytestmark = TORCH_WARNINGS


# Outputs of every kind


@dataclasses.dataclass
class Prediction:
    logits: Tensor
    note: str = "a note"
    nothing: None = None


class Pair(NamedTuple):
    left: Tensor
    right: dict[str, Tensor]


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
def test_model_that_gives_nothing_to_compare_is_a_skip_and_no_pass(output: object) -> None:
    ended = measure(only(lambda _: output, torch.ones(3)))
    assert ended.status == "pass_due_to_skip"
    assert ended.message.startswith("nothing was compared: no tensor and no number came out of the model")


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


# Results that are written in place


def fill(x: Tensor, out: Tensor) -> None:
    """Right where it is not compiled."""
    out.copy_(x * 100 if torch.compiler.is_compiling() else x + 1)


def fill_rightly(x: Tensor, out: Tensor) -> None:
    out.copy_(x + 1)


class Counter(nn.Module):
    """Counts in a buffer, in steps of another size where it is compiled; in place, or with a new tensor every time."""

    count: Tensor

    def __init__(self, step: int, in_place: bool = True) -> None:
        super().__init__()
        self.step, self.in_place = step, in_place
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("untouched", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        step = self.step if torch.compiler.is_compiling() else 1
        if self.in_place:
            self.count += step
        else:
            self.count = self.count + step
        return x + 1


def in_dictionary(x: Tensor, found: dict[str, Tensor]) -> None:
    found["y"] = x * 100 if torch.compiler.is_compiling() else x + 1


def only_compiled(x: Tensor, state: Tensor) -> Tensor:
    if torch.compiler.is_compiling():
        state.add_(5)
    return x + 1


def only_eager(x: Tensor, state: Tensor) -> Tensor:
    if not torch.compiler.is_compiling():
        state.add_(5)
    return x + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_wrong_result_in_an_input_is_found(backend: str, dtype: str) -> None:
    ended = measure(only(fill, torch.ones(3), torch.zeros(3)), backend=backend, dtype=dtype)
    assert ended.status == "fail_accuracy"
    assert ended.message.startswith("input 1 (changed by the model): RMSE to float64 is")


@pytest.mark.parametrize("model", [only_compiled, only_eager])
def test_input_that_only_one_side_changes_is_compared_with_what_the_other_left(
    model: Callable[..., Any],
) -> None:
    ended = measure(only(model, torch.ones(3), torch.zeros(3)))
    assert ended.status == "fail_accuracy"
    assert ended.message.startswith("input 1 (changed by the model): ")


def test_wrong_result_that_is_put_into_a_container_among_the_inputs_is_found() -> None:
    ended = measure(lambda: (in_dictionary, (torch.ones(3), {})))
    assert ended.status == "fail_accuracy"
    assert ended.message.startswith("input 1 (changed by the model): ")


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_wrong_result_in_a_buffer_is_found(in_place: bool, mode: str) -> None:
    inputs = torch.ones(3, requires_grad=mode == "training")
    ended = measure(lambda: (Counter(100, in_place), (inputs,)), mode=mode)
    assert ended.status == "fail_accuracy"
    assert ended.message.startswith("buffer count: " if mode == "inference" else "count after the steps: ")


def test_wrong_result_in_an_input_is_found_in_training_too() -> None:
    def model(x: Tensor, out: Tensor) -> Tensor:
        with torch.no_grad():
            fill(x, out)
        return x * 2

    ended = measure(only(model, torch.ones(3, requires_grad=True), torch.zeros(3)), mode="training")
    assert ended.status == "fail_accuracy"
    assert ended.message.startswith("input 1 (changed by the model): ")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "none"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "amp"])
def test_model_that_changes_its_inputs_and_buffers_rightly_passes(backend: str, dtype: str) -> None:
    passes(only(fill_rightly, torch.ones(3), torch.zeros(3)), backend=backend, dtype=dtype)
    for in_place in (True, False):
        passes(lambda: (Counter(1, in_place), (torch.ones(3),)), backend=backend, dtype=dtype)  # noqa: B023


def test_what_is_written_in_place_is_kept_and_compared_with_what_was_kept(tmp_path: Path) -> None:
    file = str(tmp_path / "it.pt")

    def fill_otherwise(x: Tensor, out: Tensor) -> None:
        out.copy_(x + 1.000001)

    build = only(fill_rightly, torch.ones(3), torch.zeros(3))
    assert measure(build, settings={"save_outputs": file}).status == "pass"
    assert measure(build, settings={"compare_outputs": file}).status == "pass"
    other = only(fill_otherwise, torch.ones(3), torch.zeros(3))
    assert measure(other, settings={"compare_outputs": file}).status == "not_bitwise_equivalent"
