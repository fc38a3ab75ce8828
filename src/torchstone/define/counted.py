"""Work whose instructions are counted: ``Counted``, and ``@counted`` for a function that makes it.

Nothing here imports torch, or anything but the standard library, as in ``define``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from torchstone.core.text.safe_text import is_plain
from torchstone.define.benchmarks import DefinitionError, told

COUNTS = {"compile": "compile_time_instruction_count", "all": "instruction_count"}
"""Of work whose instructions are counted: what the compiler does, or all of it; and what the count is called."""


class Counted:
    """Work whose instructions are counted. What is given to the constructor replaces the class's attributes: one class, many benchmarks.

    Whoever counts calls ``prepare_once()``, then for every iteration ``prepare()`` and ``work()``, then ``finish()``, also if one of these has failed.
    Only ``work()`` is counted; with ``counts = "compile"`` only what the compiler does in it, so ``prepare()`` must make the compiler forget
    (``torch.compiler.reset()``). Configuration that is changed for the work is changed back by the end of it.
    """

    name: str = ""
    description: str = ""
    category: str = ""
    """The family it belongs to, for reports."""
    counts: str = "all"
    metric: str = ""
    """What the count is called, if it is not what ``counts`` makes it."""
    device: str = "cpu"
    """Where it runs: ``cpu``, or a type of accelerator, without which it is not available."""
    backend: str = ""
    mode: str = ""
    dynamic: bool | None = None
    in_children: bool = False
    """Whether the work is done by processes that ``work()`` starts, which a counter must then see."""
    iterations: int | None = None
    """How often it is counted, if that is not for the counter to say."""

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
        """Why it cannot run with what is installed; empty if it can. Asked first, where torch may be imported."""
        return ""

    def prepare_once(self) -> None:
        """Make what all iterations use."""

    def prepare(self) -> None:
        """Before every iteration."""

    def work(self) -> None:
        """What is counted."""
        raise DefinitionError(f"{self.name}: {type(self).__name__} has no work()")

    def finish(self) -> None:
        """After the last iteration: give back what the others took."""

    def measured(self) -> dict[str, float]:
        """What the last ``work()`` has itself measured, by the name of the metric; most measure nothing."""
        return {}

    @property
    def measures_itself(self) -> bool:
        """Whether ``measured()`` says something: times, most often, which need a worker with a clock, and nobody beside it."""
        return type(self).measured is not Counted.measured


class CountedFunction(Counted):
    """Work that a decorated function makes: it returns ``work`` or ``(prepare, work)``, and is called once, before the first iteration."""

    def __init__(self, function: Callable[[], Any], name: str = "", **attributes: Any) -> None:  # noqa: ANN401
        super().__init__(name or getattr(function, "__name__", ""), **attributes)
        self.description = self.description or _first_line(function)
        self.function = function
        self._steps: tuple[Callable[[], Any], Callable[[], Any]] | None = None

    def prepare_once(self) -> None:
        """Call the function, and see that what came back can be called."""
        made = self.function()
        steps = made if isinstance(made, tuple) else (_nothing, made)
        if len(steps) != 2 or not all(map(callable, steps)):
            raise DefinitionError(
                f"{self.name} must return work or (prepare, work); it returned {told(made)}"
            )
        self._steps = (steps[0], steps[1])

    def prepare(self) -> None:
        """The function's own, if it has one."""
        self._both()[0]()

    def work(self) -> None:
        """The function's own."""
        self._both()[1]()

    def finish(self) -> None:
        """Let go of what the function made."""
        self._steps = None

    def _both(self) -> tuple[Callable[[], Any], Callable[[], Any]]:
        if self._steps is None:
            raise DefinitionError(f"{self.name}: prepare_once() comes first")
        return self._steps


def _nothing() -> None:
    """Prepares nothing."""


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
    """Define work whose instructions are counted: a function that returns ``work`` or ``(prepare, work)``, or a class made from ``Counted``.

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
            f"@counted is for a function or a class made from Counted, not {told(work)}; a name is given as name=..."
        )
    for parameter in inspect.signature(work).parameters.values():
        if parameter.default is parameter.empty and parameter.kind not in {
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        }:
            raise DefinitionError(f"{work.__name__} takes '{parameter.name}', which nothing gives")
    return CountedFunction(work, **attributes)


def take_counted() -> list[Counted]:
    """What decorators have defined to be counted since the last call."""
    taken = list(_COUNTED)
    _COUNTED.clear()
    return taken
