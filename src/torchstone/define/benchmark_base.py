"""What a file written for PyTorch's ``pr_time_benchmarks`` imports as ``benchmark_base``: it is told what to measure, and measures nothing itself.

Such a file says in its ``main()`` which benchmarks there are, by calling ``collect_all()`` on each. Here that notes the benchmark; whoever
ran ``main()`` takes the notes and counts the work of one benchmark at a time. Nothing here imports torch.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from torchstone.define.benchmarks import DefinitionError

NAME = "benchmark_base"
"""The name that such files import this module by."""
ITERATIONS = 5

Row = tuple[str, str, Any]
"""Name, metric, value."""


class BenchmarkBase(ABC):
    """A benchmark with the hooks ``_prepare_once()``, ``_prepare()`` before every iteration, and ``_work()``, which is what is counted.

    A subclass that has its own ``__init__`` need not call this one, and may keep plain attributes where this class has methods: early files do.
    """

    results: list[Row]

    _category: str = ""
    _device: str = "cpu"
    _backend: str = ""
    _mode: str = ""
    _dynamic: bool | None = None
    _num_iterations: int = ITERATIONS
    _enable_instruction_count: bool = False
    _enable_compile_time_instruction_count: bool = False
    _is_collecting: bool = False

    def __init__(
        self, category: str, device: str, backend: str = "", mode: str = "", dynamic: bool | None = None
    ) -> None:
        self._category = category
        self._device = device
        self._backend = backend
        self._mode = mode
        self._dynamic = dynamic

    def __init_subclass__(cls, **given: Any) -> None:  # noqa: ANN401  (whatever a subclass is made with)
        super().__init_subclass__(**given)
        if own := cls.__dict__.get("collect_all"):
            cls.collect_all = _note_first(own)  # type: ignore[method-assign]

    def with_iterations(self, value: int) -> Self:
        """Count so many iterations."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise DefinitionError(f"with_iterations({value!r}): expected a whole number from 1")
        self._num_iterations = value
        return self

    def enable_instruction_count(self) -> Self:
        """Count all of the work."""
        self._enable_instruction_count = True
        return self

    def enable_compile_time_instruction_count(self) -> Self:
        """Count what the compiler does in the work."""
        self._enable_compile_time_instruction_count = True
        return self

    def name(self) -> str:
        """What it is called in results."""
        return ""

    def backend(self) -> str:
        """What compiles."""
        return self._backend

    def mode(self) -> str:
        """Training or inference, or nothing."""
        return self._mode

    def category(self) -> str:
        """The family it belongs to."""
        return self._category

    def device(self) -> str:
        """Where it runs."""
        return self._device

    def is_dynamic(self) -> bool | None:
        """Whether it compiles with dynamic shapes."""
        return self._dynamic

    def description(self) -> str:
        """A line about it."""
        return ""

    def _prepare_once(self) -> None:  # noqa: B027  (few have anything to do here)
        """Make what all iterations use."""

    @abstractmethod
    def _prepare(self) -> None:
        """Before every iteration."""

    @abstractmethod
    def _work(self) -> None:
        """What is counted."""

    def collect_all(self) -> Self:
        """Note that this is to be measured; without a count enabled there is nothing to measure."""
        if self._is_collecting:
            raise DefinitionError(
                f"{self.name()}: a collect_all() of its own must measure by itself and fill self.results; "
                "the inherited one, which it calls, does not measure under torchstone"
            )
        if self._enable_instruction_count and self._enable_compile_time_instruction_count:
            raise DefinitionError(
                f"{self.name()}: enable_instruction_count() and enable_compile_time_instruction_count() exclude each other"
            )
        self.results = []
        if self._enable_instruction_count or self._enable_compile_time_instruction_count:
            _note(self)
        return self

    def append_results(self, path: str) -> None:  # noqa: B027  (a file may have its own)
        """Nothing: nothing has been measured yet."""

    def print(self) -> None:  # noqa: B027  (a file may have its own)
        """Nothing: nothing has been measured yet."""


class Reached(BaseException):
    """``main()`` is at the benchmark that is wanted. No ``except Exception`` of a file's own stops it."""


class _Collected:
    """What has been collected, and where to leave ``main()``."""

    def __init__(self) -> None:
        self.benchmarks: list[BenchmarkBase] = []
        self.wanted = ""


_NOTES = _Collected()


def _note_first(own: Callable[..., Any]) -> Callable[..., Any]:
    """A subclass's own ``collect_all``, which measures: only noted, until it is to be measured."""

    @functools.wraps(own)
    def collect_all(self: BenchmarkBase, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401  (as its author has it)
        if self._is_collecting:
            return own(self, *arguments, **named)
        self.results = []
        _note(self)
        return self

    return collect_all


def _note(benchmark: BenchmarkBase) -> None:
    name = benchmark.name()
    if any(other.name() == name for other in _NOTES.benchmarks):
        raise DefinitionError(f"{name} is collected twice: give one of the two another name()")
    _NOTES.benchmarks.append(benchmark)
    if name and name == _NOTES.wanted:
        raise Reached


def take_noted() -> list[BenchmarkBase]:
    """The benchmarks that were to be measured since the last call."""
    taken = list(_NOTES.benchmarks)
    _NOTES.benchmarks.clear()
    return taken


@contextmanager
def stopping_at(name: str) -> Iterator[None]:
    """Raise ``Reached`` where the benchmark of this name is noted; an empty name stops nowhere."""
    _NOTES.wanted = name
    try:
        yield
    finally:
        _NOTES.wanted = ""


def measures_itself(benchmark: BenchmarkBase) -> bool:
    """Whether it has a ``collect_all()`` of its own."""
    return type(benchmark).collect_all is not BenchmarkBase.collect_all


def collect(benchmark: BenchmarkBase) -> list[Row]:
    """Have a benchmark that measures itself do so, and give what it found."""
    benchmark._is_collecting = True
    try:
        benchmark.collect_all()
    finally:
        benchmark._is_collecting = False
    return list(benchmark.results)
