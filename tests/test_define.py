"""Defining benchmarks: the decorator, grids and their names, and words for every mistake."""

from __future__ import annotations

import enum
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import torchstone
from torchstone.define.benchmarks import (
    OFFERED,
    Benchmark,
    Check,
    DefinitionError,
    Work,
    as_work,
    benchmark,
    take_defined,
)

ROOT = Path(torchstone.__file__).parents[2]


@pytest.fixture(autouse=True)
def _nothing_defined() -> Iterator[None]:
    take_defined()
    yield
    take_defined()


def double(x: list[float]) -> list[float]:
    return x * 2


def build() -> Any:  # noqa: ANN401  (anything a builder can return)
    return double, ([1.0],)


def names() -> list[str]:
    return [each.name for each in take_defined()]


# The decorator


def test_function_is_a_benchmark_without_any_argument() -> None:
    @benchmark
    def my_model() -> Any:  # noqa: ANN401
        return build()

    (defined,) = take_defined()
    assert (defined.name, defined.batch_size, defined.modes) == ("my_model", None, ("inference", "training"))
    assert defined.make() == Work(double, ([1.0],), {})
    assert my_model() == build()  # still the function it was


def test_function_is_a_benchmark_with_arguments() -> None:
    @benchmark(batch_size=8, name="other", modes="inference", tolerance=1e-2, cosine=True, optimizer="adam")
    def my_model(batch_size: int) -> Any:  # noqa: ANN401
        return double, ([1.0] * batch_size,)

    (defined,) = take_defined()
    assert (defined.name, defined.batch_size, defined.modes) == ("other", 8, ("inference",))
    assert defined.check is not None
    assert defined.check("training", "float32", "cpu") == Check(1e-2, True, optimizer="adam")
    assert defined.make(batch_size=3).args == ([1.0] * 3,)


def test_example_of_the_issue_works_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "bench_mine.py"
    file.write_text(
        "import torchstone\n"
        "@torchstone.benchmark(batch_size=8)\n"
        "def my_model():\n"
        "    return (lambda x: x * 2), ([1.0],)\n"
        "from torchstone.define.benchmarks import take_defined\n"
        "print([(each.name, each.batch_size) for each in take_defined()])\n"
    )
    assert run_python(str(file)) == "[('my_model', 8)]"


def test_defining_needs_neither_torch_nor_any_other_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import torchstone.define.benchmarks;"
        "own = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(own - set(sys.stdlib_module_names)))"
    )
    assert run_python("-c", code) == "['torchstone']"


def run_python(*arguments: str, seed: str = "random") -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_training_takes_steps_unless_it_is_told_not_to() -> None:
    assert Check().optimizer == "sgd"
    benchmark(build)
    benchmark(name="still", optimizer="")(build)
    trained, still = take_defined()
    assert trained.check is not None
    assert still.check is not None
    assert trained.check("training", "float32", "cpu").optimizer == "sgd"
    assert still.check("training", "float32", "cpu").optimizer == ""


# Grids and names


def test_grid_is_every_combination_in_the_order_of_its_values() -> None:
    @benchmark(parameters={"width": [64, 128], "act": ["relu", "gelu"]})
    def mlp(width: int, act: str) -> Any:  # noqa: ANN401
        return double, ([width], act)

    defined = take_defined()
    assert [each.name for each in defined] == [
        "mlp(width=64,act=relu)",
        "mlp(width=64,act=gelu)",
        "mlp(width=128,act=relu)",
        "mlp(width=128,act=gelu)",
    ]
    assert [each.make().args for each in defined][2] == ([128], "relu")


class Kind(enum.Enum):
    FAST = 1


class Plain:
    pass


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (0.5, "0.5"),
        (True, "True"),
        (None, "None"),
        ("text", "text"),
        ((3, 224, 224), "3x224x224"),
        ([1, "a"], "1xa"),
        (Kind.FAST, "FAST"),
        (double, "double"),
        (Plain, "Plain"),
        ({"b", "a", "c"}, "a+b+c"),
        ({"depth": 2, "width": (3, 4)}, "depth:2+width:3x4"),
        (functools.partial(double), "functools.partial(<function double>)"),
        (Path("a/b"), f"{Path('a/b')!r}"),
    ],
)
def test_value_of_a_parameter_is_part_of_the_name(value: object, text: str) -> None:
    benchmark(name="it", parameters={"value": [value]})(lambda value: (double, (value,)))
    assert names() == [f"it(value={text})"]


def test_names_are_the_same_in_every_process() -> None:
    code = (
        "from torchstone.define.benchmarks import benchmark, take_defined\n"
        "class Plain: pass\n"
        "values = [Plain(), {'x', 'y', 'z'}, frozenset({'p', 'q', 'r'}), len, lambda x: x, {'a': Plain()}]\n"
        "benchmark(name='it', parameters={'value': values})(lambda value: None)\n"
        "print([each.name for each in take_defined()])\n"
    )
    first, second = run_python("-c", code, seed="1"), run_python("-c", code, seed="2")
    assert first == second
    assert "0x" not in first


# What a builder is given


@pytest.mark.parametrize(
    ("builder", "takes"),
    [
        (lambda: None, ()),
        (lambda batch_size: None, ("batch_size",)),  # noqa: ARG005
        (lambda device, size, width=3: None, ("device", "size")),  # noqa: ARG005
        (lambda **everything: None, OFFERED),  # noqa: ARG005
        (functools.partial(lambda name, mode: None, "a"), ("mode",)),  # noqa: ARG005
    ],
)
def test_builder_takes_what_it_has_parameters_for(
    builder: Callable[..., Any], takes: tuple[str, ...]
) -> None:
    assert Benchmark("it", builder).takes == takes


def test_builder_is_given_what_it_takes_and_nothing_else() -> None:
    given: dict[str, Any] = {}

    def builder(width: int, mode: str, dtype: str = "none") -> Any:  # noqa: ANN401
        given.update(width=width, mode=mode, dtype=dtype)
        return build()

    Benchmark("it", builder, parameters={"width": 5}).make(
        mode="training", dtype="amp", device="cpu", batch_size=3, size="full"
    )
    assert given == {"width": 5, "mode": "training", "dtype": "amp"}


def test_batch_size_that_nobody_has_chosen_is_the_builder_s_own() -> None:
    def builder(batch_size: int = 4) -> Any:  # noqa: ANN401
        return double, ([1.0] * batch_size,)

    made = Benchmark("it", builder)
    assert len(made.make(batch_size=None).args[0]) == 4
    assert len(made.make(batch_size=2).args[0]) == 2


# What a builder returns


def test_lists_of_inputs_and_work_are_taken_too() -> None:
    assert as_work("it", (double, [1, 2])) == Work(double, (1, 2), {})
    assert as_work("it", (double, (), {"x": 1})) == Work(double, (), {"x": 1})
    whole = Work(double, (1,), {"y": 2}, loss=sum)
    assert as_work("it", whole) == whole


@pytest.mark.parametrize(
    ("built", "why"),
    [
        (None, "it must return (model, args) or (model, args, kwargs); it returned nothing"),
        (double, "it returned a function"),
        ([double, ()], "it returned a list"),
        ((double,), "it returned a tuple of 1"),
        ((double, (), {}, 1), "it returned a tuple of 4"),
        ((3, ()), "the first is a int, which cannot be called"),
        ((double, 3.0), "args is a float: write (x,) for a single input"),
        ((double, {"x": 1}), "args is a dict: write (model, (), kwargs)"),
        ((double, "text"), "args is a str: write (x,) for a single input"),
        ((double, (), []), "kwargs is a list, not a dict from names to values"),
        ((double, (), {1: 2}), "kwargs is a dict, not a dict from names to values"),
        ((double, (iter([1]),)), "input 0 is a list_iterator, which can be read only once"),
        ((double, (), {"x": (n for n in "ab")}), "input 'x' is a generator, which can be read only once"),
        (Work(3, ()), "the first is a int, which cannot be called"),  # type: ignore[arg-type]
        (Work(double, 3), "args is a int"),  # type: ignore[arg-type]
        (Work(double, (), loss=3), "it: loss is a int, which cannot be called"),  # type: ignore[arg-type]
    ],
)
def test_builder_that_returns_something_else_is_told_what_to_return(built: object, why: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        as_work("it", built)
    assert why in str(caught.value)


# Mistakes


def no_default(width: int) -> Any:  # noqa: ANN401
    return double, (width,)


def needs_batch(batch_size: int) -> Any:  # noqa: ANN401
    return double, (batch_size,)


def positional(width: int, /) -> Any:  # noqa: ANN401
    return double, (width,)


@pytest.mark.parametrize(
    ("function", "arguments", "why"),
    [
        (build, {"batch_size": 0}, "build: batch_size=0: expected a whole number from 1"),
        (build, {"batch_size": 2.5}, "build: batch_size=2.5: expected a whole number from 1"),
        (build, {"batch_size": True}, "build: batch_size=True: expected a whole number from 1"),
        (build, {"name": "two\nlines"}, "'two\\nlines': expected a name on one line"),
        (build, {"name": 5}, "name=5: expected a string"),
        (build, {"modes": ()}, "build: modes=(): expected some of inference, training"),
        (build, {"modes": "eval"}, "build: modes=('eval',): expected some of inference, training"),
        (build, {"modes": 3}, "build: modes=3: expected some of inference, training"),
        (build, {"tolerance": -1.0}, "build: tolerance=-1.0: expected a number from 0"),
        (build, {"tolerance": float("nan")}, "build: tolerance=nan: expected a number from 0"),
        (build, {"tolerance": "1e-3"}, "build: tolerance='1e-3': expected a number from 0"),
        (build, {"optimizer": "adamw"}, "build: optimizer='adamw': expected 'sgd', 'adam', or '' for none"),
        (build, {"parameters": [1]}, "build: parameters=[1]: expected a dict from names to lists of values"),
        (build, {"parameters": {"width": 3}}, "build: parameters={'width': 3}: expected a list of values"),
        (build, {"parameters": {"width": []}}, "build: parameters={'width': []}: expected a list of values"),
        (build, {"parameters": {"width": "ab"}}, "expected a list of values"),
        (build, {"parameters": {"width": [3]}}, "build has no parameter 'width'"),
        (
            build,
            {"parameters": {"dtype": [3]}},
            "build: 'dtype' is an axis of every benchmark, not a parameter",
        ),
        (
            no_default,
            {},
            "no_default takes 'width', but nothing provides it: add parameters={'width': [...]}",
        ),
        (
            needs_batch,
            {},
            "needs_batch takes 'batch_size', but nothing provides it: add batch_size=... to @benchmark",
        ),
        (positional, {"parameters": {"width": [3]}}, "'width' is passed by name"),
        (
            no_default,
            {"parameters": {"width": [3, 3]}},
            "no_default: two values of its parameters have the same name, no_default(width=3)",
        ),
        (
            no_default,
            {"parameters": {"width": [lambda: 1, lambda: 2]}},
            "two values of its parameters have the same name",
        ),
        (3, {}, "@benchmark is for a function that builds a model, not a int"),
        (Plain, {}, "@benchmark is for a function that builds a model, not the class Plain"),
    ],
)
def test_mistake_is_told_where_it_is_made(function: Any, arguments: dict[str, Any], why: str) -> None:  # noqa: ANN401
    with pytest.raises(DefinitionError) as caught:
        benchmark(**arguments)(function)
    assert why in str(caught.value)
    assert take_defined() == []


def test_name_in_the_place_of_the_function_is_a_mistake() -> None:
    misused: Any = benchmark
    with pytest.raises(DefinitionError, match="a name is given as name="):
        misused("my_model")


def test_name_that_is_taken_is_a_mistake() -> None:
    benchmark(build)
    with pytest.raises(DefinitionError, match="build is defined twice: give one of the two another name="):
        benchmark(build)
    assert names() == ["build"]


def test_grid_with_a_mistake_defines_nothing() -> None:
    benchmark(name="it(value=2)")(build)
    with pytest.raises(DefinitionError, match="defined twice"):
        benchmark(name="it", parameters={"value": [1, 2]})(lambda value: (double, (value,)))
    assert names() == ["it(value=2)"]


@pytest.mark.parametrize("runs", [0, -1, 1.5, True])
def test_check_is_judged_by_at_least_one_run(runs: Any) -> None:  # noqa: ANN401
    with pytest.raises(DefinitionError, match="expected a whole number from 1"):
        Check(runs=runs)


def test_mode_that_is_given_twice_counts_once() -> None:
    benchmark(modes=["training", "training"])(build)
    assert take_defined()[0].modes == ("training",)
