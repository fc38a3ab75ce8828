"""The smoke suite: every network trains, compiles, and is the same every time."""

from __future__ import annotations

import pytest
import torch
from suite_steps import (
    LIBRARY_WARNINGS,
    assert_equal,
    assert_finite,
    assert_near,
    build,
    find,
    in_float64,
    names,
    run,
)

pytestmark = LIBRARY_WARNINGS

MODES = ("inference", "training")
NAMES = (
    "attention",
    "convnet",
    "dynamic",
    "embedding",
    "experts",
    "graph_break",
    "lstm",
    "mlp",
)


def test_names_are_stable() -> None:
    assert tuple(names("smoke")) == NAMES


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_the_same_every_time_bit_by_bit(name: str, mode: str) -> None:
    first = run(build("smoke", name, mode), mode)
    assert_finite(first)
    assert_equal(first, run(build("smoke", name, mode), mode))


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_that_is_used_is_trained(name: str) -> None:
    work = build("smoke", name, "training")
    gradients = run(work, "training")
    assert isinstance(work.model, torch.nn.Module)
    untrained = {key for key, _ in work.model.named_parameters()} - gradients.keys()
    assert untrained == ({"unusual.weight", "unusual.bias"} if name == "graph_break" else set())
    assert [key for key, value in gradients.items() if not value.any()] == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_a_network_can_be_traced_by_the_compiler(name: str, mode: str) -> None:
    work = build("smoke", name, mode)
    torch.compiler.reset()
    assert_near(run(work, mode, "eager"), run(in_float64(work), mode), 1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_a_network_runs_in_half_precision(name: str, dtype: torch.dtype) -> None:
    work = build("smoke", name)
    exact = run(work, "inference")
    assert isinstance(work.model, torch.nn.Module)
    work.model.to(dtype)
    args = tuple(value.to(dtype) if value.is_floating_point() else value for value in work.args)
    with torch.no_grad():
        assert_near({"output 0": work.model(*args)}, exact, 0.1)


@pytest.mark.parametrize("name", NAMES)
def test_a_network_trains_in_mixed_precision(name: str) -> None:
    work = build("smoke", name, "training")
    with torch.autocast("cpu", torch.bfloat16):
        assert_finite(run(work, "training"))


def graphs_of(name: str) -> tuple[int, int]:
    """How many graphs the compiler makes of a network, and how many breaks it counts."""
    counters = torch._dynamo.utils.counters
    torch.compiler.reset()
    counters.clear()
    run(build("smoke", name), "inference", "eager")
    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())


def test_graph_break_breaks_the_graph_once() -> None:
    assert graphs_of("graph_break") == (2, 1)


def test_dynamic_is_compiled_once_for_its_first_length_and_once_for_all_others() -> None:
    assert graphs_of("dynamic")[0] == 2


def test_other_networks_are_one_graph() -> None:
    assert {name: graphs_of(name) for name in NAMES if name not in {"dynamic", "graph_break"}} == {
        name: (1, 0) for name in NAMES if name not in {"dynamic", "graph_break"}
    }


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_compiled_results_are_within_the_tolerance_of_exact_ones(name: str, mode: str) -> None:
    benchmark = find("smoke", name)
    assert benchmark.check is not None
    work = build("smoke", name, mode, batch_size=benchmark.batch_size)
    torch.compiler.reset()
    tolerance = benchmark.check(mode, "float32", "cpu").tolerance
    assert tolerance == {"inference": 1e-4, "training": 1e-3}[mode]
    assert_near(run(work, mode, "inductor"), run(in_float64(work), mode), tolerance)
