"""Stand in for ``benchmark_base`` of PyTorch's ``pr_time_benchmarks``: record what to measure instead of measuring.

The ``main()`` of such a file calls ``collect_all()`` on each benchmark. Here that only records the benchmark;
the caller of ``main()`` takes the recorded ones and counts them one at a time. Does not import torch.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from torchstone.define.benchmarks import DefinitionError

NAME = "benchmark_base"
"""The module name that such files import."""
ITERATIONS = 5

Row = tuple[str, str, Any]
"""Name, metric, value."""


class BenchmarkBase(ABC):
    """A benchmark with ``_prepare_once()``, ``_prepare()`` before each iteration, and ``_work()``, which is counted.

    A subclass need not call this ``__init__``, and may have plain attributes in place of methods, as early
    files do.
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
            cls.collect_all = _record_first(own)  # type: ignore[method-assign]

    def with_iterations(self, value: int) -> Self:
        """Set the number of iterations."""
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise DefinitionError(f"with_iterations({value!r}): expected a whole number from 1")
        self._num_iterations = value
        return self

    def enable_instruction_count(self) -> Self:
        """Count all of the work."""
        self._enable_instruction_count = True
        return self

    def enable_compile_time_instruction_count(self) -> Self:
        """Count only the compiler's part of the work."""
        self._enable_compile_time_instruction_count = True
        return self

    def name(self) -> str:
        """Return the name used in results."""
        return ""

    def backend(self) -> str:
        """Return the compiler backend."""
        return self._backend

    def mode(self) -> str:
        """Return ``training``, ``inference`` or an empty string."""
        return self._mode

    def category(self) -> str:
        """Return the family the benchmark belongs to."""
        return self._category

    def device(self) -> str:
        """Return the device it runs on."""
        return self._device

    def is_dynamic(self) -> bool | None:
        """Return whether it compiles with dynamic shapes."""
        return self._dynamic

    def description(self) -> str:
        """Return a one-line description."""
        return ""

    def _prepare_once(self) -> None:  # noqa: B027  (few have anything to do here)
        """Prepare what all iterations share."""

    @abstractmethod
    def _prepare(self) -> None:
        """Prepare one iteration."""

    @abstractmethod
    def _work(self) -> None:
        """Do the work that is counted."""

    def collect_all(self) -> Self:
        """Record the benchmark, if a count is enabled."""
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
            _record(self)
        return self

    def append_results(self, path: str) -> None:  # noqa: B027  (a file may have its own)
        """Do nothing: nothing has been measured yet."""

    def print(self) -> None:  # noqa: B027  (a file may have its own)
        """Do nothing: nothing has been measured yet."""


class Reached(BaseException):
    """Raised when ``main()`` reaches the wanted benchmark; ``except Exception`` in the file does not catch it."""


class _Recorded:
    """The recorded benchmarks, and the name at which to leave ``main()``."""

    def __init__(self) -> None:
        self.benchmarks: list[BenchmarkBase] = []
        self.wanted = ""


_RECORDED = _Recorded()


def _record_first(own: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a subclass's own ``collect_all``, which measures: only record it until it is its turn."""

    @functools.wraps(own)
    def collect_all(self: BenchmarkBase, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401  (as its author has it)
        if self._is_collecting:
            return own(self, *arguments, **named)
        self.results = []
        _record(self)
        return self

    return collect_all


def _record(benchmark: BenchmarkBase) -> None:
    name = benchmark.name()
    if any(other.name() == name for other in _RECORDED.benchmarks):
        raise DefinitionError(f"{name} is collected twice: give one of the two another name()")
    _RECORDED.benchmarks.append(benchmark)
    if name and name == _RECORDED.wanted:
        raise Reached


def take_recorded() -> list[BenchmarkBase]:
    """Return the benchmarks recorded since the last call."""
    taken = list(_RECORDED.benchmarks)
    _RECORDED.benchmarks.clear()
    return taken


@contextmanager
def stopping_at(name: str) -> Iterator[None]:
    """Raise ``Reached`` when the benchmark of this name is recorded; an empty name never stops."""
    _RECORDED.wanted = name
    try:
        yield
    finally:
        _RECORDED.wanted = ""


def measures_itself(benchmark: BenchmarkBase) -> bool:
    """Return whether a benchmark overrides ``collect_all()``."""
    return type(benchmark).collect_all is not BenchmarkBase.collect_all


def collect(benchmark: BenchmarkBase) -> list[Row]:
    """Run the ``collect_all()`` of a benchmark that measures itself, and return its rows."""
    benchmark._is_collecting = True
    try:
        benchmark.collect_all()
    finally:
        benchmark._is_collecting = False
    return list(benchmark.results)
