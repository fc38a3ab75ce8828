"""What a benchmark is: ``@benchmark``, ``Suite``, and the names that both give to what can be measured.

Nothing here imports torch, or anything but the standard library: the parent reads suites without torch, and a worker runs where
nothing of torchstone's own dependencies is installed.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MODES = ("inference", "training")
DTYPES = ("float32", "float16", "bfloat16", "amp")
SIZES = ("full", "small")
OFFERED = ("batch_size", "mode", "dtype", "device", "size")
"""What a builder may take by name, besides its own parameters."""


class DefinitionError(Exception):
    """A benchmark that is not written as it should be; the message is for its author."""


@dataclass(frozen=True)
class Check:
    """How the accuracy of a benchmark is judged.

    ``tolerance`` is absolute and relative at once; ``cosine`` compares directions (at least 0.99) instead of values; ``multiplier``, if it is not
    None, is how many times further from the float64 result than eager the compiled result may be; ``overlap`` is the share of equal elements that is
    enough for a boolean mask; ``skip`` is a reason not to compare at all; ``non_deterministic`` accepts results that differ; ``runs`` is how often
    the compiled run is judged, the majority deciding; ``optimizer`` is ``sgd``, ``adam`` or empty for none.
    """

    tolerance: float = 1e-4
    cosine: bool = False
    multiplier: float | None = None
    overlap: float | None = None
    skip: str = ""
    non_deterministic: bool = False
    runs: int = 1
    optimizer: str = ""


CheckRule = Callable[[str, str, str], Check]
"""(mode, dtype, device) -> Check."""


@dataclass(frozen=True)
class Work:
    """What a builder returns, if model and inputs alone do not say it: ``loss`` makes the scalar that training starts from."""

    model: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    loss: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Benchmark:
    """A named definition of work. ``build`` makes it, taking ``parameters`` and whatever of ``OFFERED`` it has parameters for.

    ``batch_size`` is for performance, ``accuracy_batch_size`` for accuracy where it is another. ``check`` says how accuracy is judged.
    """

    name: str
    build: Callable[..., Any]
    batch_size: int | None = None
    accuracy_batch_size: int | None = None
    modes: tuple[str, ...] = MODES
    parameters: Mapping[str, Any] = field(default_factory=dict)
    check: CheckRule | None = None

    @property
    def takes(self) -> tuple[str, ...]:
        """What of ``OFFERED`` the builder takes; all of it if it takes anything by name."""
        parameters = inspect.signature(self.build).parameters.values()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return OFFERED
        names = {parameter.name for parameter in parameters}
        return tuple(name for name in OFFERED if name in names)

    def make(self, **offered: Any) -> Work:  # noqa: ANN401  (whatever the builder's author expects)
        """Build it, and see that what came back is a model with its inputs."""
        given = {name: value for name, value in offered.items() if name in self.takes}
        return as_work(self.name, self.build(**{**given, **self.parameters}))


def as_work(name: str, built: object) -> Work:
    """What a builder returned, as ``Work``."""
    if isinstance(built, Work):
        return built
    expected = f"{name} must return (model, args) or (model, args, kwargs)"
    if not isinstance(built, tuple) or len(built) not in {2, 3}:
        raise DefinitionError(f"{expected}; it returned {_told(built)}")
    model, args, kwargs = built if len(built) == 3 else (*built, {})
    if not callable(model):
        raise DefinitionError(f"{expected}; the first is {_told(model)}, which cannot be called")
    if not isinstance(args, tuple | list):
        raise DefinitionError(f"{expected}; args is {_told(args)}: write (x,) for a single input")
    if not isinstance(kwargs, Mapping):
        raise DefinitionError(f"{expected}; kwargs is {_told(kwargs)}")
    return Work(model, tuple(args), dict(kwargs))


def _told(value: object) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return "nothing" if value is None else f"a {type(value).__name__}"


@dataclass(frozen=True)
class Suite:
    """A named family of benchmarks.

    ``collect`` lists them without importing torch. ``libraries`` are the modules they need, imported once before any worker starts; ``prepare`` is
    called before that. ``advice`` says how to get the libraries.
    """

    name: str
    description: str
    collect: Callable[[], Sequence[Benchmark]]
    libraries: tuple[str, ...] = ()
    prepare: Callable[[], None] | None = None
    advice: str = ""


_DEFINED: list[Benchmark] = []


def benchmark(
    function: Callable[..., Any] | None = None,
    *,
    batch_size: int | None = None,
    name: str = "",
    modes: Iterable[str] = MODES,
    parameters: Mapping[str, Sequence[Any]] | None = None,
    tolerance: float = 1e-4,
    cosine: bool = False,
    non_deterministic: bool = False,
    optimizer: str = "",
) -> Any:  # noqa: ANN401  (a decorator, with or without arguments)
    """Define a benchmark: the function returns ``(model, args)`` or ``(model, args, kwargs)``.

    ``parameters`` is a grid: ``{"width": [64, 128]}`` makes the benchmarks ``name(width=64)`` and ``name(width=128)``. A function that has a
    parameter called batch_size, mode, dtype, device or size is given what is being measured.

    >>> @benchmark(batch_size=8, parameters={"width": [64, 128]})
    ... def double(width, batch_size):
    ...     return (lambda x: x * 2), ([1.0] * width * batch_size,)
    >>> [defined.name for defined in take_defined()]
    ['double(width=64)', 'double(width=128)']
    """
    check = Check(tolerance, cosine, non_deterministic=non_deterministic, optimizer=optimizer)

    def define(function: Callable[..., Any]) -> Callable[..., Any]:
        called = name or function.__name__
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise DefinitionError(f"{called}: batch_size={batch_size!r}: expected a whole number from 1")
        for values in _grid(called, function, parameters or {}):
            shown = ",".join(f"{key}={_value_text(value)}" for key, value in values.items())
            full = f"{called}({shown})" if shown else called
            _define(
                Benchmark(full, function, batch_size, None, _modes(called, modes), values, lambda *_: check)
            )
        return function

    return define if function is None else define(function)


def _define(benchmark: Benchmark) -> None:
    if not benchmark.name or not benchmark.name.isprintable():
        raise DefinitionError(f"{benchmark.name!r}: expected a name on one line")
    if any(other.name == benchmark.name for other in _DEFINED):
        raise DefinitionError(f"{benchmark.name} is defined twice: give one of the two another name=")
    _DEFINED.append(benchmark)


def _modes(name: str, modes: Iterable[str]) -> tuple[str, ...]:
    chosen = (modes,) if isinstance(modes, str) else tuple(modes)
    if not chosen or any(mode not in MODES for mode in chosen):
        raise DefinitionError(f"{name}: modes={chosen!r}: expected some of {', '.join(MODES)}")
    return chosen


def _grid(
    name: str, function: Callable[..., Any], parameters: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    """All combinations of parameter values. What the function needs and nobody gives is an error here, not in a worker."""
    for key, values in parameters.items():
        if key in OFFERED:
            raise DefinitionError(f"{name}: '{key}' is an axis of every benchmark, not a parameter")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise DefinitionError(f"{name}: parameters={{{key!r}: {values!r}}}: expected a list of values")
    accepted = inspect.signature(function).parameters
    for parameter in accepted.values():
        required = parameter.default is parameter.empty and parameter.kind not in {
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        }
        if required and parameter.name not in parameters and parameter.name not in OFFERED:
            raise DefinitionError(
                f"{name} takes '{parameter.name}', which nothing gives: add parameters={{{parameter.name!r}: [...]}}"
            )
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    if unknown := [key for key in parameters if key not in accepted and not takes_any]:
        raise DefinitionError(f"{name} takes no '{unknown[0]}'")
    return [dict(zip(parameters, values, strict=True)) for values in itertools.product(*parameters.values())]


def _value_text(value: object) -> str:
    """A parameter's value as it stands in a name: the same in every process, so no addresses."""
    if isinstance(value, str | int | float | bool) or value is None:
        return str(value)
    if isinstance(value, tuple | list):
        return "x".join(map(_value_text, value))
    named = getattr(value, "__name__", None)
    return named if isinstance(named, str) else re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def take_defined() -> list[Benchmark]:
    """The benchmarks that decorators have defined since the last call."""
    taken = list(_DEFINED)
    _DEFINED.clear()
    return taken
