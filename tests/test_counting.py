"""Work whose instructions are counted: written as a function or as a class, and words for every mistake."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from typing import Any

import pytest

import torchstone
from torchstone.define import counted as counting
from torchstone.define.benchmarks import DefinitionError
from torchstone.define.counted import Counted, counted, take_counted


@pytest.fixture(autouse=True)
def _nothing_defined() -> Iterator[None]:
    take_counted()
    yield
    take_counted()


def run(work: Counted) -> None:
    work.prepare_once()
    for _ in range(2):
        work.prepare()
        work.work()
    work.finish()


def test_function_that_returns_work_is_called_once_and_its_work_every_time() -> None:
    called = []

    @counted
    def adding() -> Any:  # noqa: ANN401
        """Adds.

        More about it.
        """
        called.append("once")
        return lambda: called.append("work")

    (work,) = take_counted()
    assert (work.name, work.description, work.counts, work.device) == ("adding", "Adds", "all", "cpu")
    assert work.metric == "instruction_count"
    run(work)
    assert called == ["once", "work", "work"]
    assert take_counted() == []


def test_function_may_prepare_every_iteration_and_say_more_of_itself() -> None:
    called = []

    @torchstone.counted(
        name="other", counts="compile", device="cuda", backend="inductor", mode="training", dynamic=True
    )
    def adding() -> Any:  # noqa: ANN401
        return lambda: called.append("prepare"), lambda: called.append("work")

    (work,) = take_counted()
    assert (work.name, work.counts, work.device) == ("other", "compile", "cuda")
    assert (work.backend, work.mode, work.dynamic) == ("inductor", "training", True)
    assert work.metric == "compile_time_instruction_count"
    run(work)
    assert called == ["prepare", "work"] * 2


def test_class_is_defined_by_the_same_decorator() -> None:
    @counted(device="xpu")
    class Adding(torchstone.Counted):
        counts = "compile"

        def work(self) -> None:
            self.total = 1 + 1

    (work,) = take_counted()
    assert isinstance(work, Adding)
    assert (work.name, work.counts, work.device) == ("Adding", "compile", "xpu")
    assert Adding().device == "cpu"
    run(work)
    assert (work.missing(), work.measured()) == ("", {})


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (None, "it returned nothing"),
        (3, "it returned a int"),
        ((print,), "it returned a tuple of 1"),
        ((print, 3), "it returned a tuple of 2"),
        ((print, print, print), "it returned a tuple of 3"),
    ],
)
def test_function_that_returns_something_else_is_told_what_to_return(made: object, why: str) -> None:
    counted(name="mine")(lambda: made)
    (work,) = take_counted()
    with pytest.raises(DefinitionError, match=rf"mine must return work or \(prepare, work\); {why}"):
        work.prepare_once()


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"counts": "some"}, "mine: counts='some': expected 'compile' or 'all'"),
        ({"device": ""}, "mine: device='': expected 'cpu' or a type of accelerator"),
        ({"devise": "cpu"}, "mine: CountedFunction has no attribute 'devise'"),
        ({"work": print}, "mine: CountedFunction has no attribute 'work'"),
        ({"name": "a\nb"}, "'a\\\\nb': expected a name on one line"),
    ],
)
def test_mistake_is_told_where_it_is_made(attributes: dict[str, Any], why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        counted(**{"name": "mine"} | attributes)(lambda: print)
    assert take_counted() == []


def test_what_is_no_function_and_no_class_of_ours_is_a_mistake() -> None:
    with pytest.raises(DefinitionError, match="not a str; a name is given as name="):
        counted("mine")  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match="not the class int"):
        counted(int)
    with pytest.raises(DefinitionError, match="takes 'width', but nothing provides it"):
        counted(lambda width: width)


def test_name_that_is_taken_is_a_mistake() -> None:
    counted(name="mine")(lambda: print)
    with pytest.raises(DefinitionError, match="mine is defined twice"):
        counted(name="mine")(lambda: print)


def test_work_that_is_missing_or_comes_too_early_is_a_mistake() -> None:
    with pytest.raises(DefinitionError, match=r"mine: Counted has no work\(\)"):
        Counted("mine").work()
    counted(name="mine")(lambda: print)
    (work,) = take_counted()
    with pytest.raises(DefinitionError, match=r"mine: prepare_once\(\) comes first"):
        work.work()


def test_examples_in_the_documentation_are_right() -> None:
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(counted, "counted", globs=vars(counting).copy())
    assert doctest.DocTestRunner().run(example).failed == 0
