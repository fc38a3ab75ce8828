"""Define work whose instructions are counted: ``Counted``, and ``@counted`` for functions.

Standard library only, like ``define.benchmarks``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from torchstone.core.text.safe_text import is_plain
from torchstone.define.benchmarks import DefinitionError, describe_value

COUNTS = {"compile": "compile_time_instruction_count", "all": "instruction_count"}
"""The counted part (the compiler's, or all of the work), and the metric's name."""


class Counted:
    """Work whose instructions are counted. Constructor arguments override class attributes.

    The probe calls ``prepare_once()``, then ``prepare()`` and ``work()`` for each iteration, then
    ``finish()``, even after a failure. Only ``work()`` is counted; with ``counts = "compile"``, only the
    compiler's part of it, so ``prepare()`` must reset the compiler (``torch.compiler.reset()``).
    Configuration changed by the work must be restored by the end of it.
    """

    name: str = ""
    description: str = ""
    category: str = ""
    """The family, for reports."""
    counts: str = "all"
    metric: str = ""
    """The metric's name, if it does not follow from ``counts``."""
    device: str = "cpu"
    """The device: ``cpu``, or a required type of accelerator."""
    backend: str = ""
    mode: str = ""
    dynamic: bool | None = None
    in_children: bool = False
    """Whether ``work()`` starts processes that must be counted too."""
    iterations: int | None = None
    """The number of iterations; by default the counter's."""

    def __init__(self, name: str = "", **attributes: Any) -> None:  # noqa: ANN401  (of any type that an attribute has)
        self.name = name or type(self).name or type(self).__name__
        for key, value in attributes.items():
            if key.startswith("_") or not hasattr(type(self), key) or callable(getattr(type(self), key)):
                raise DefinitionError(f"{self.name}: {type(self).__name__} has no attribute '{key}'")
            setattr(self, key, value)
        if not isinstance(self.name, str) or not is_plain(self.name):
            raise DefinitionError(f"{self.name!r}: expected a name on one line")
        if self.counts not in COUNTS:
            raise DefinitionError(f"{self.name}: counts={self.counts!r}: expected 'compile' or 'all'")
        self.metric = self.metric or COUNTS[self.counts]
        if not isinstance(self.device, str) or not self.device:
            raise DefinitionError(
                f"{self.name}: device={self.device!r}: expected 'cpu' or a type of accelerator"
            )

    def missing(self) -> str:
        """Return why it cannot run with the installed libraries; empty if it can. May import torch."""
        return ""

    def prepare_once(self) -> None:
        """Prepare what all iterations share."""

    def prepare(self) -> None:
        """Prepare one iteration."""

    def work(self) -> None:
        """Do the work that is counted."""
        raise DefinitionError(f"{self.name}: {type(self).__name__} has no work()")

    def finish(self) -> None:
        """Clean up after the last iteration."""

    def measured(self) -> dict[str, float]:
        """Return metrics that the last ``work()`` measured itself, by name; usually none."""
        return {}

    @property
    def measures_itself(self) -> bool:
        """Return whether ``measured()`` returns metrics, usually times, which need an ignoring_interrupts worker."""
        return type(self).measured is not Counted.measured


class CountedFunction(Counted):
    """Counted work from a function that returns ``work`` or ``(prepare, work)``; it is called once."""

    def __init__(self, function: Callable[[], Any], name: str = "", **attributes: Any) -> None:  # noqa: ANN401  (attributes of any type)
        super().__init__(name or getattr(function, "__name__", ""), **attributes)
        self.description = self.description or _first_line(function)
        self.function = function
        self._steps: tuple[Callable[[], Any], Callable[[], Any]] | None = None

    def prepare_once(self) -> None:
        """Call the function, and check that its result is callable."""
        made = self.function()
        steps = made if isinstance(made, tuple) else (_nothing, made)
        if len(steps) != 2 or not all(map(callable, steps)):
            raise DefinitionError(
                f"{self.name} must return work or (prepare, work); it returned {describe_value(made)}"
            )
        self._steps = (steps[0], steps[1])

    def prepare(self) -> None:
        """Call the function's ``prepare``, if there is one."""
        self._both()[0]()

    def work(self) -> None:
        """Call the function's ``work``."""
        self._both()[1]()

    def finish(self) -> None:
        """Release what the function created."""
        self._steps = None

    def _both(self) -> tuple[Callable[[], Any], Callable[[], Any]]:
        if self._steps is None:
            raise DefinitionError(f"{self.name}: prepare_once() comes first")
        return self._steps


def _nothing() -> None:
    """Prepare nothing."""


def _first_line(function: Callable[..., Any]) -> str:
    lines = (inspect.getdoc(function) or "").splitlines()
    return lines[0].rstrip(".") if lines else ""


_COUNTED: list[Counted] = []

Countable = TypeVar("Countable", bound=Callable[..., Any])


@overload
def counted(work: Countable, /) -> Countable: ...


@overload
def counted(
    *,
    counts: str = ...,
    metric: str = ...,
    name: str = ...,
    description: str = ...,
    category: str = ...,
    device: str = ...,
    backend: str = ...,
    mode: str = ...,
    dynamic: bool | None = ...,
    in_children: bool = ...,
) -> Callable[[Countable], Countable]: ...


def counted(work: Callable[..., Any] | None = None, /, **attributes: Any) -> Any:
    """Define counted work: a function that returns ``work`` or ``(prepare, work)``, or a subclass of ``Counted``.

    >>> @counted(counts="all")
    ... def sorting():
    ...     values = list(range(1000, 0, -1))
    ...     return lambda: sorted(values)
    >>> [(defined.name, defined.counts) for defined in take_counted()]
    [('sorting', 'all')]
    """

    def define(work: Callable[..., Any]) -> Callable[..., Any]:
        new = _counted(work, attributes)
        if any(other.name == new.name for other in _COUNTED):
            raise DefinitionError(f"{new.name} is defined twice: give one of the two another name=")
        _COUNTED.append(new)
        return work

    return define if work is None else define(work)


def _counted(work: Callable[..., Any], attributes: Mapping[str, Any]) -> Counted:
    if isinstance(work, type) and issubclass(work, Counted):
        return work(**attributes)
    if isinstance(work, type) or not callable(work):
        raise DefinitionError(
            f"@counted is for a function or a class made from Counted, not {describe_value(work)}; a name is given as name=..."
        )
    for parameter in inspect.signature(work).parameters.values():
        if parameter.default is parameter.empty and parameter.kind not in {
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        }:
            raise DefinitionError(f"{work.__name__} takes '{parameter.name}', but nothing provides it")
    return CountedFunction(work, **attributes)


def take_counted() -> list[Counted]:
    """Return the counted work defined since the last call."""
    taken = list(_COUNTED)
    _COUNTED.clear()
    return taken
