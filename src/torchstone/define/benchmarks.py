"""Define benchmarks: ``@benchmark``, ``Suite``, and the records they create.

Standard library only: the parent reads suites without torch, and a worker runs without torchstone's
dependencies.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar, overload

from torchstone.core.text.safe_text import is_plain
from torchstone.define.custom_metrics import ResultMetrics

MODES = ("inference", "training")
DTYPES = ("float32", "float16", "bfloat16", "amp")
SIZES = ("full", "small")
OPTIMIZERS = ("sgd", "adam", "")
OFFERED = ("batch_size", "mode", "dtype", "device", "size")
"""Keyword arguments offered to builders, besides their own parameters."""
LABELS = "labels"
"""Offered to builders with a parameter of that name and no values for it: whether to give labels in inference too."""


class DefinitionError(Exception):
    """An invalid benchmark definition; the message is for its author."""


@dataclass(frozen=True)
class Check:
    """Settings of the accuracy check.

    ``tolerance`` is both absolute and relative. ``cosine`` compares directions (at least 0.99) instead of
    values. ``multiplier``, if set, is how many times the eager error against float64 the compiled error may
    be. ``overlap`` is the share of equal elements required of a boolean mask. ``skip`` is a reason not to
    measure accuracy; ``uncompared`` a reason to compile and run, but not to compare. ``non_deterministic``
    accepts results that differ. ``runs`` is the number of compiled runs; the majority decides. ``optimizer``
    takes the training steps: ``sgd``, ``adam``, or none if empty.
    """

    tolerance: float = 1e-4
    cosine: bool = False
    multiplier: float | None = None
    overlap: float | None = None
    skip: str = ""
    non_deterministic: bool = False
    runs: int = 1
    optimizer: str = "sgd"
    uncompared: str = ""

    def __post_init__(self) -> None:
        """Reject invalid settings early, before a worker would."""
        if not _is_number(self.tolerance) or self.tolerance < 0:
            raise DefinitionError(f"tolerance={self.tolerance!r}: expected a number from 0")
        if self.optimizer not in OPTIMIZERS:
            raise DefinitionError(f"optimizer={self.optimizer!r}: expected 'sgd', 'adam', or '' for none")
        if not _is_count(self.runs):
            raise DefinitionError(f"runs={self.runs!r}: expected a whole number from 1")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


CheckRule = Callable[[str, str, str], Check]
"""(mode, dtype, device) -> Check."""


@dataclass(frozen=True)
class Work:
    """The full return value of a builder; ``loss`` computes the scalar that training starts from."""

    model: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    loss: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Benchmark:
    """A named definition of work. ``build`` is called with ``parameters`` and those of ``OFFERED`` it takes.

    ``batch_size`` is for performance; ``accuracy_batch_size`` for accuracy, and ``dashboard_batch_size`` that of
    PyTorch's dashboard, if different. ``check`` configures the accuracy check. ``probes`` are the default
    probes; empty means the usual ones. ``metrics`` turns the result of a call into metrics of the benchmark's
    own.
    """

    name: str
    build: Callable[..., Any]
    batch_size: int | None = None
    accuracy_batch_size: int | None = None
    modes: tuple[str, ...] = MODES
    parameters: Mapping[str, Any] = field(default_factory=dict)
    check: CheckRule | None = None
    probes: tuple[str, ...] = ()
    metrics: ResultMetrics | None = None
    dashboard_batch_size: int | None = None

    @property
    def takes(self) -> tuple[str, ...]:
        """Return the names of ``OFFERED``, and ``LABELS``, that the builder takes; all ``OFFERED`` ones if it takes ``**kwargs``."""
        parameters = inspect.signature(self.build).parameters.values()
        names = {parameter.name for parameter in parameters}
        labels = (LABELS,) if LABELS in names - {*self.parameters} else ()
        if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            return (*OFFERED, *labels)
        return (*(name for name in OFFERED if name in names), *labels)

    def make(self, **offered: Any) -> Work:  # noqa: ANN401  (whatever the builder's author expects)
        """Build the work, and check that it is a model with inputs."""
        takes = self.takes
        # If no batch size was chosen, the builder's own default applies, not None.
        given = {name: value for name, value in offered.items() if name in takes and value is not None}
        return as_work(self.name, self.build(**{**given, **self.parameters}))


def as_work(name: str, built: object) -> Work:
    """Convert a builder's return value to ``Work``."""
    expected = f"{name} must return (model, args) or (model, args, kwargs)"
    if isinstance(built, Work):
        model, args, kwargs, loss = built.model, built.args, built.kwargs, built.loss
    elif isinstance(built, tuple) and len(built) in {2, 3}:
        model, args, kwargs = built if len(built) == 3 else (*built, {})
        loss = None
    else:
        raise DefinitionError(f"{expected}; it returned {describe_value(built)}")
    if not callable(model):
        raise DefinitionError(f"{expected}; the first is {describe_value(model)}, which cannot be called")
    if isinstance(args, Mapping):
        raise DefinitionError(f"{expected}; args is {describe_value(args)}: write (model, (), kwargs)")
    if not isinstance(args, tuple | list):
        raise DefinitionError(f"{expected}; args is {describe_value(args)}: write (x,) for a single input")
    if not isinstance(kwargs, Mapping) or not all(isinstance(key, str) for key in kwargs):
        raise DefinitionError(
            f"{expected}; kwargs is {describe_value(kwargs)}, not a dict from names to values"
        )
    if loss is not None and not callable(loss):
        raise DefinitionError(f"{name}: loss is {describe_value(loss)}, which cannot be called")
    for place, value in (*enumerate(args), *kwargs.items()):
        if isinstance(value, Iterator):
            raise DefinitionError(
                f"{name}: input {place!r} is {describe_value(value)}, which can be read only once, and every input is used many times: make it a list"
            )
    return Work(model, tuple(args), dict(kwargs), loss)


def describe_value(value: object) -> str:
    """Describe an unexpected value in words."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "nothing" if value is None else f"a {type(value).__name__}"


@dataclass(frozen=True)
class Suite:
    """A named family of benchmarks.

    ``collect`` lists them without importing torch, and ``counted`` lists work whose instructions are counted
    (``define.counted``). ``libraries`` are the modules they need, imported once before any worker starts;
    ``prepare`` runs before that. ``advice`` says how to install the libraries.
    """

    name: str
    description: str
    collect: Callable[[], Sequence[Benchmark]]
    libraries: tuple[str, ...] = ()
    prepare: Callable[[], None] | None = None
    advice: str = ""
    counted: Callable[[], Sequence[Any]] = tuple


_DEFINED: list[Benchmark] = []


Builder = TypeVar("Builder", bound=Callable[..., Any])


@overload
def benchmark(function: Builder, /) -> Builder: ...


@overload
def benchmark(
    *,
    batch_size: int | None = None,
    name: str = "",
    modes: Iterable[str] = MODES,
    parameters: Mapping[str, Sequence[Any]] | None = None,
    tolerance: float = 1e-4,
    cosine: bool = False,
    non_deterministic: bool = False,
    optimizer: str = "sgd",
    metrics: ResultMetrics | None = None,
) -> Callable[[Builder], Builder]: ...


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
    optimizer: str = "sgd",
    metrics: ResultMetrics | None = None,
) -> Any:
    """Define a benchmark: the function returns ``(model, args)``, ``(model, args, kwargs)`` or ``Work``.

    ``parameters`` is a grid: ``{"width": [64, 128]}`` defines ``name(width=64)`` and ``name(width=128)``. A
    function with a parameter called batch_size, mode, dtype, device or size receives the value being
    measured. ``metrics`` is a function ``(result)`` or ``(result, seconds)`` that calls ``torchstone.metric``
    or returns ``{name: (value, better, unit)}``; ``seconds`` is the time of the call.

    >>> @benchmark(batch_size=8, parameters={"width": [64, 128]})
    ... def double(width, batch_size):
    ...     return (lambda x: x * 2), ([1.0] * width * batch_size,)
    >>> [defined.name for defined in take_defined()]
    ['double(width=64)', 'double(width=128)']
    """

    def define(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function) or isinstance(function, type):
            raise DefinitionError(
                f"@benchmark is for a function that builds a model, not {describe_value(function)}; a name is given as name=..."
            )
        called = name or getattr(function, "__name__", "")
        if not isinstance(called, str) or not called:
            raise DefinitionError(f"name={called!r}: expected a string")
        if batch_size is not None and not _is_count(batch_size):
            raise DefinitionError(f"{called}: batch_size={batch_size!r}: expected a whole number from 1")
        check = _check(called, tolerance, cosine, non_deterministic, optimizer)
        chosen = _modes(called, modes)
        _check_metrics(called, metrics)
        new = [
            Benchmark(
                _full_name(called, values),
                function,
                batch_size,
                None,
                chosen,
                values,
                lambda *_: check,
                metrics=metrics,
            )
            for values in _grid(called, function, parameters or {}, batch_size)
        ]
        _define(called, new)
        return function

    return define if function is None else define(function)


def _check(name: str, tolerance: float, cosine: bool, non_deterministic: bool, optimizer: str) -> Check:
    try:
        return Check(tolerance, cosine, non_deterministic=non_deterministic, optimizer=optimizer)
    except DefinitionError as error:
        raise DefinitionError(f"{name}: {error}") from None


def _check_metrics(name: str, metrics: ResultMetrics | None) -> None:
    """Refuse a ``metrics`` function that cannot be called with a result, or with a result and the seconds."""
    if metrics is None:
        return
    expected = f"{name}: metrics={describe_value(metrics)}: expected a function (result) or (result, seconds)"
    if not callable(metrics) or isinstance(metrics, type):
        raise DefinitionError(expected)
    try:
        signature = inspect.signature(metrics)
        signature.bind(None, **({"seconds": 1.0} if "seconds" in signature.parameters else {}))
    except (TypeError, ValueError):
        raise DefinitionError(expected) from None


def _full_name(name: str, values: Mapping[str, Any]) -> str:
    shown = ",".join(f"{key}={_value_text(value)}" for key, value in values.items())
    return f"{name}({shown})" if shown else name


def _define(name: str, benchmarks: Sequence[Benchmark]) -> None:
    """Add the benchmarks of one function: all of them, or none."""
    if any(other.name == each.name for each in benchmarks for other in _DEFINED):
        raise DefinitionError(f"{name} is defined twice: give one of the two another name=")
    names: set[str] = set()
    for each in benchmarks:
        if not each.name or not is_plain(each.name):
            raise DefinitionError(f"{each.name!r}: expected a name on one line")
        if each.name in names:
            raise DefinitionError(f"{name}: two values of its parameters have the same name, {each.name}")
        names.add(each.name)
    _DEFINED.extend(benchmarks)


def _modes(name: str, modes: Iterable[str]) -> tuple[str, ...]:
    if not isinstance(modes, Iterable):
        raise DefinitionError(f"{name}: modes={modes!r}: expected some of {', '.join(MODES)}")
    chosen = (modes,) if isinstance(modes, str) else tuple(dict.fromkeys(modes))
    if not chosen or any(mode not in MODES for mode in chosen):
        raise DefinitionError(f"{name}: modes={chosen!r}: expected some of {', '.join(MODES)}")
    return chosen


def _grid(
    name: str,
    function: Callable[..., Any],
    parameters: Mapping[str, Sequence[Any]],
    batch_size: int | None,
) -> list[dict[str, Any]]:
    """Return all combinations of parameter values; raise an error for parameters without a value."""
    if not isinstance(parameters, Mapping):
        raise DefinitionError(
            f"{name}: parameters={parameters!r}: expected a dict from names to lists of values"
        )
    for key, values in parameters.items():
        if key in OFFERED:
            raise DefinitionError(f"{name}: '{key}' is an axis of every benchmark, not a parameter")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise DefinitionError(f"{name}: parameters={{{key!r}: {values!r}}}: expected a list of values")
    try:
        accepted = inspect.signature(function).parameters
    except ValueError as error:  # some C functions have no signature
        raise DefinitionError(f"{name}: {error}") from None
    for parameter in accepted.values():
        _check_parameter(name, parameter, parameters, batch_size)
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    if unknown := [key for key in parameters if key not in accepted and not takes_any]:
        raise DefinitionError(f"{name} has no parameter '{unknown[0]}'")
    return [dict(zip(parameters, values, strict=True)) for values in itertools.product(*parameters.values())]


def _check_parameter(
    name: str, parameter: inspect.Parameter, given: Mapping[str, Any], batch_size: int | None
) -> None:
    if parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}:
        return
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise DefinitionError(f"{name}: '{parameter.name}' is passed by name: it cannot be positional-only")
    if parameter.default is not parameter.empty:
        return
    if parameter.name == "batch_size" and batch_size is None:
        raise DefinitionError(
            f"{name} takes 'batch_size', but nothing provides it: add batch_size=... to @benchmark"
        )
    if parameter.name not in given and parameter.name not in OFFERED:
        raise DefinitionError(
            f"{name} takes '{parameter.name}', but nothing provides it: add parameters={{{parameter.name!r}: [...]}}"
        )


def _value_text(value: object) -> str:
    """Format a parameter value for a name, identically in every process: no addresses, no hash order."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, str | int | float | bool) or value is None:
        return str(value)
    if isinstance(value, tuple | list):
        return "x".join(map(_value_text, value))
    if isinstance(value, set | frozenset):
        return "+".join(sorted(map(_value_text, value)))
    if isinstance(value, Mapping):
        return "+".join(f"{_value_text(key)}:{_value_text(each)}" for key, each in value.items())
    named = getattr(value, "__name__", None)
    return named if isinstance(named, str) else re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def take_defined() -> list[Benchmark]:
    """Return the benchmarks defined since the last call."""
    taken = list(_DEFINED)
    _DEFINED.clear()
    return taken
