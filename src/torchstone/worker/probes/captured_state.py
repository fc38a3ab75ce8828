"""Find the modules and tensors a callable captures: closures, bound methods, partial arguments.

A benchmark may return a function instead of a module; its state must still be moved, trained and compared.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

DEEPEST = 6
Captured = torch.nn.Module | torch.Tensor


def find_captured(function: Callable[..., Any]) -> dict[str, Captured]:
    """Return the modules and tensors a callable captures, by a name that is the same for every copy.

    A module is listed under an empty name. Global variables are ignored: all copies share them.
    """
    if isinstance(function, torch.nn.Module):
        return {"": function}
    found: dict[str, Captured] = {}
    seen: set[int] = set()
    for name, each in _held(function, "", 0):
        if id(each) not in seen:
            seen.add(id(each))
            found[name] = each
    return found


def closes_over_state(function: object, depth: int = 0) -> bool:
    """Return whether a function has variables that calls could change; a deep copy would share them."""
    if depth > DEEPEST:
        return False
    if isinstance(function, functools.partial):
        return any(
            closes_over_state(each, depth + 1)
            for each in (function.func, *function.args, *function.keywords.values())
        )
    if not isinstance(function, types.FunctionType):
        return False
    return any(
        not isinstance(value, int | float | complex | str | bytes | type | types.ModuleType | type(None))
        and (not isinstance(value, types.FunctionType) or closes_over_state(value, depth + 1))
        for _, value in _variables(function)
    )


def _held(value: object, name: str, depth: int) -> Iterator[tuple[str, Captured]]:
    if isinstance(value, torch.nn.Module | torch.Tensor):
        yield name, value
    elif depth <= DEEPEST:
        for key, each in _parts(value, depth):
            yield from _held(each, f"{name}.{key}" if name and key else name or key, depth + 1)


def _parts(value: object, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the direct contents of a value, where an author is likely to have put a model."""
    if isinstance(value, types.MethodType):
        # Search the attributes of the bound object; other nested objects are not searched.
        owner = value.__self__
        yield from [("", owner)] if isinstance(owner, torch.nn.Module) else _attributes(owner)
    elif isinstance(value, functools.partial):
        yield "", value.func
        yield from ((str(number), each) for number, each in enumerate(value.args))
        yield from value.keywords.items()
    elif isinstance(value, types.FunctionType):
        yield from _variables(value)
    elif isinstance(value, Mapping):
        yield from ((str(key), each) for key, each in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(number), each) for number, each in enumerate(value))
    elif depth == 0:
        yield from _attributes(value)


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    if not isinstance(value, type | types.ModuleType):
        yield from getattr(value, "__dict__", {}).items()


def _variables(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    """Yield the variables a function closes over, and the defaults of its parameters."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    yield from ((f"default {number}", each) for number, each in enumerate(function.__defaults__ or ()))
    yield from (function.__kwdefaults__ or {}).items()
