"""A benchmark made ready: what its function holds, where everything goes, and copies that share nothing."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchstone.define.benchmarks import Work
from torchstone.worker.probes.captured_state import closes_over_state, find_captured
from torchstone.worker.probes.outputs.values import NotMeasurableError, take_apart
from torchstone.worker.probes.subject import (
    Origin,
    clone,
    default_loss,
    find_captured_by_work,
    find_state,
    find_trained,
    place,
)

CPU = torch.device("cpu")
NET = nn.Linear(2, 2)


def add_one(x: Tensor) -> Tensor:
    return x + 1


def closing(*held: Any) -> Callable[..., Any]:  # noqa: ANN401  (anything can be closed over)
    return lambda x: (x, held)


# What a callable holds


def test_module_holds_itself() -> None:
    assert find_captured(NET) == {"": NET}


def test_function_holds_what_it_closes_over_and_its_defaults() -> None:
    weight = torch.ones(2)

    def model(x: Tensor, net: nn.Module = NET) -> Tensor:
        return net(x) @ weight  # type: ignore[no-any-return]

    assert find_captured(model) == {"weight": weight, "default 0": NET}


def test_function_does_not_hold_what_is_everyone_s() -> None:
    assert find_captured(lambda x: NET(x) + 1) == {}


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda net: net.forward, [""]),
        (lambda net: functools.partial(add_one, net), ["0"]),
        (lambda net: functools.partial(add_one, x=net), ["x"]),
        (lambda net: functools.partial(net.forward), [""]),
        (lambda net: closing({"a": [net]}), ["held.0.a.0"]),
        (lambda net: closing(net, net), ["held.0"]),
        (lambda net: torch.no_grad()(closing(net)), ["func.held.0"]),
    ],
)
def test_modules_are_found_in_all_usual_places(
    make: Callable[[nn.Module], Callable[..., Any]], names: list[str]
) -> None:
    net = nn.Linear(2, 2)
    found = find_captured(make(net))
    assert list(found) == names
    assert all(each is net for each in found.values())


def test_looking_has_an_end() -> None:
    around: list[Any] = [NET]
    around.append(around)
    assert list(find_captured(closing(around)).values()) == [NET]


def test_variable_that_is_not_assigned_yet_is_nothing() -> None:
    def outer() -> Callable[..., Any]:
        def inner(x: Tensor) -> Any:  # noqa: ANN401
            return later(x)

        if math.pi < 3:
            later = add_one
        return inner

    assert find_captured(outer()) == {}


@pytest.mark.parametrize(
    ("function", "closes"),
    [
        (add_one, False),
        (closing(), True),  # a tuple could hold anything
        (NET, False),
        (NET.forward, False),
        (functools.partial(isinstance, NET), False),
        (functools.partial(closing(NET), 3), True),
        (None, False),
        (lambda x, factor=2: x * factor, False),
        (lambda x, seen=[]: seen.append(x), True),
    ],
)
def test_functions_with_variables_of_their_own_are_recognised(function: object, closes: bool) -> None:
    assert closes_over_state(function) is closes


def test_numbers_that_are_closed_over_do_not_change() -> None:
    factor, name, helper = 3, "a", add_one
    assert not closes_over_state(lambda x: (helper(x) * factor, name))


# Where everything goes


def test_everything_is_in_the_type_that_was_asked_for() -> None:
    weight = torch.ones(2, 2)
    work = Work(lambda x, ids: (x @ weight, ids), (torch.ones(1, 2), torch.ones(1, dtype=torch.long)))
    placed = place(work, CPU, torch.bfloat16, "inference")
    assert [each.dtype for each in placed.args] == [torch.bfloat16, torch.int64]
    assert weight.dtype == torch.bfloat16
    assert placed.model(*placed.args)[0].dtype == torch.bfloat16


def test_complex_numbers_keep_both_their_parts() -> None:
    class Complex(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([1 + 2j]))
            self.bias = nn.Parameter(torch.ones(1))

    for dtype, expected in ((torch.float64, torch.complex128), (torch.bfloat16, torch.complex64)):
        model = Complex()
        placed = place(Work(model, (torch.tensor([3j]),)), CPU, dtype, "inference")
        assert model.weight.dtype == placed.args[0].dtype == expected
        assert model.weight.detach().tolist() == [1 + 2j]
        assert model.bias.dtype == dtype


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_modules_are_in_the_mode_that_was_asked_for(mode: str) -> None:
    nets = [nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)]
    nets[0].train(mode != "training")
    first, second, third = nets
    place(Work(lambda net, x: first(net(x)), (third, torch.ones(2)), loss=second), CPU, None, mode)
    assert {net.training for net in nets} == {mode == "training"}


def test_inputs_that_the_builder_gave_are_not_changed() -> None:
    x = torch.ones(2, requires_grad=True)
    placed = place(Work(add_one, (x, x)), CPU, torch.bfloat16, "training")
    assert placed.args[0] is placed.args[1]
    assert (x.dtype, placed.args[0].dtype, placed.args[0].requires_grad) == (
        torch.float32,
        torch.bfloat16,
        True,
    )


# Copies


def test_copy_shares_nothing_with_the_original_and_everything_within() -> None:
    net = nn.Linear(2, 2)
    x = torch.ones(4)
    copied = clone(Work(net, (net.weight, x, x[:2]), {"net": net}, loss=net.forward))
    assert copied.model is not net
    assert copied.kwargs["net"] is copied.model
    assert copied.loss is not None
    assert copied.loss.__self__ is copied.model  # type: ignore[attr-defined]
    assert copied.args[0] is copied.model.weight
    copied.args[2].zero_()
    assert copied.args[1].tolist() == [0, 0, 1, 1]
    assert x.tolist() == [1, 1, 1, 1]


def test_work_that_cannot_be_copied_and_has_no_builder_is_refused() -> None:
    origin = Origin(Work(add_one, (threading.Lock(),)))
    with pytest.raises(NotMeasurableError, match="it cannot be copied: TypeError: cannot pickle"):
        origin.copy()


def test_memory_that_runs_out_in_copying_is_not_taken_for_something_else() -> None:
    class Huge(nn.Module):
        def __deepcopy__(self, memo: Any) -> Any:  # noqa: ANN401
            raise torch.OutOfMemoryError("no room for two")

    with pytest.raises(torch.OutOfMemoryError):
        Origin(Work(Huge()), lambda: Work(Huge())).copy()


def test_copy_to_change_as_a_whole_is_refused_where_all_copies_share_a_module() -> None:
    net = nn.Linear(2, 2)

    def build() -> Work:
        return Work(closing(net))

    with pytest.raises(NotMeasurableError, match="returns the same model every time"):
        Origin(build(), build).copy_apart()
    assert Origin(build(), build).copy().model is not None


# What is trained


def test_everything_that_gets_a_gradient_is_named_once() -> None:
    net, weight = nn.Linear(2, 2, bias=False), torch.ones(2, requires_grad=True)
    net.register_buffer("seen", torch.zeros(1))
    work = Work(
        lambda x, **_: net(x) * weight, (weight, torch.ones(2)), {"y": torch.ones(2, requires_grad=True)}
    )
    assert list(find_trained(work)) == ["net.weight", "weight", "input 2"]
    assert list(find_state(work, buffers=True)) == ["net.weight", "net.seen", "weight"]
    assert list(find_captured_by_work(work)) == ["net", "weight"]


@pytest.mark.parametrize(
    ("output", "loss"),
    [
        (lambda x: x, 2.0),
        (lambda x: (x, [x * 2], "text", None), 6.0),
        (lambda x: {"loss": x.sum(), "logits": x}, 4.0),
        (lambda x: {"loss": x, "logits": x}, 4.0),  # not a scalar, so no loss
        (lambda x: (x.half(), x.detach()), 2.0),
        (lambda x: torch.complex(3 * x, 4 * x), 10.0),
    ],
)
def test_loss_is_the_output_s_own_or_the_mean_of_all_that_can_be_trained(
    output: Callable[[Tensor], Any], loss: float
) -> None:
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    assert default_loss(output(x)).item() == loss


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float64, torch.float64), (torch.float32, torch.float32), (torch.float16, torch.float32)],
)
def test_loss_is_never_less_precise_than_the_output_or_float32(
    dtype: torch.dtype, expected: torch.dtype
) -> None:
    assert default_loss(torch.ones(2, dtype=dtype, requires_grad=True)).dtype == expected


# What comes out


def test_outputs_are_named_by_their_path() -> None:
    names = [name for name, _ in take_apart({"a": [torch.ones(1), (1, None)], "b": {}})]
    assert names == ["output['a'][0]", "output['a'][1][0]", "output['a'][1][1]", "output['b']"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_pieces_of_a_nested_tensor_are_outputs_of_their_own() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.zeros(3)])
    assert {name: tuple(each.shape) for name, each in take_apart(nested)} == {
        "output[0]": (2,),
        "output[1]": (3,),
    }


def test_output_is_kept_as_it_was_when_it_came_out() -> None:
    x = torch.ones(2)
    ((_, kept),) = take_apart(x)
    x.zero_()
    assert kept.tolist() == [1, 1]
