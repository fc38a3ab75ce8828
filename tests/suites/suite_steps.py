"""Build a benchmark and run it, for tests of suites: without network, on one thread, from a fixed seed."""

from __future__ import annotations

import copy
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from torchstone.define.benchmarks import Benchmark, Work
from torchstone.suites import load_suite

LIBRARY_WARNINGS = [
    # torch itself and transformers still use what torch has deprecated.
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    # The compiler looks at every tensor's gradient, and itself hides what torch says to that.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]
"""For ``pytestmark``: warnings that are none of our business."""


def find(suite: str, name: str) -> Benchmark:
    return next(benchmark for benchmark in load_suite(suite).collect() if benchmark.name == name)


def names(suite: str) -> list[str]:
    return [benchmark.name for benchmark in load_suite(suite).collect()]


@contextmanager
def no_network() -> Iterator[None]:
    """Whoever looks up an address or connects to one, fails."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("the network was touched")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket.socket, "connect_ex", refuse)
        patch.setattr(socket, "getaddrinfo", refuse)
        yield


def build(suite: str, name: str, mode: str = "inference", **offered: Any) -> Work:  # noqa: ANN401  (axes differ in type)
    """A benchmark as a worker would build it, small."""
    prepare = load_suite(suite).prepare
    benchmark = find(suite, name)
    given = {"batch_size": min(benchmark.batch_size or 2, 2), "dtype": "float32", "device": "cpu"} | offered
    torch.set_num_threads(1)
    with no_network():
        if prepare is not None:
            prepare()
        torch.manual_seed(0)
        work = benchmark.make(**{"size": "small", "mode": mode} | given)
    if isinstance(work.model, torch.nn.Module):
        work.model.train(mode == "training")
    return work


def in_float64(work: Work) -> Work:
    """A copy that computes in double precision."""
    cast = (work.args, work.kwargs)
    args, kwargs = pytree.tree_map_only(Tensor, lambda x: x.double() if x.is_floating_point() else x, cast)
    return Work(module_of(copy.deepcopy(work)).double(), args, kwargs, work.loss)


def module_of(work: Work) -> torch.nn.Module:
    assert isinstance(work.model, torch.nn.Module)
    return work.model


def run(work: Work, mode: str, backend: str = "") -> dict[str, Tensor]:
    """One step: the outputs, or the loss and all gradients. The model it starts from stays as it was."""
    work = copy.deepcopy(work)
    module = module_of(work)
    call: Any = torch.compile(module, backend=backend) if backend else module
    if mode == "inference":
        with torch.no_grad():
            output = call(*work.args, **work.kwargs)
        leaves = [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, Tensor)]
        return {f"output {number}": leaf for number, leaf in enumerate(leaves)}
    assert work.loss is not None
    loss = work.loss(call(*work.args, **work.kwargs))
    loss.backward()
    gradients = {key: value.grad for key, value in module.named_parameters() if value.grad is not None}
    return {"loss": loss.detach(), **gradients}


def assert_near(actual: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert actual.keys() == expected.keys()
    for key, value in actual.items():
        torch.testing.assert_close(
            value,
            expected[key],
            atol=tolerance,
            rtol=tolerance,
            check_dtype=False,
            msg=partial("{}: {}".format, key),
        )


def assert_equal(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    assert [key for key, value in actual.items() if not torch.equal(value, expected[key])] == []


def assert_finite(actual: dict[str, Tensor]) -> None:
    assert actual
    assert [key for key, value in actual.items() if not torch.isfinite(value).all()] == []
