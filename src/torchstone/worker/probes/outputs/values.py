"""Flatten nested values: outputs into named leaves, inputs into tensors to move."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from enum import Enum
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

DEEPEST = 32

Outputs = dict[str, object]
"""Results of a run by name: tensors, numbers, texts and None."""
_PLAIN = (int, float, complex, str, bytes, type(None))
_TOLD_AS_TEXT = (torch.dtype, torch.device, torch.layout, torch.memory_format, Enum, range, slice)


class NotMeasurableError(Exception):
    """Raised if a benchmark cannot be measured this way; the message says why."""


def take_apart(value: object, name: str = "output", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a value with its path: tensors, numbers, texts and None.

    Containers, dataclasses, library objects and their public attributes are flattened. Values that cannot be
    compared are refused, not skipped.
    """
    if isinstance(value, torch.Tensor):
        yield from _take_tensor(value, name)
    elif isinstance(value, _PLAIN):
        yield name, value
    elif isinstance(value, _TOLD_AS_TEXT):
        yield name, str(value)
    elif _is_numpy(value):
        yield name, _from_numpy(value, name)
    else:
        children = _children(value)
        if children is None or depth >= DEEPEST:
            raise NotMeasurableError(
                f"{name} is a {type(value).__name__}: results must be tensors, numbers, texts, or containers of these"
            )
        if not children:
            yield name, f"an empty {type(value).__name__}"
        for key, child in children:
            yield from take_apart(child, name + key, depth + 1)


def _take_tensor(tensor: torch.Tensor, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield a dense copy; of a nested tensor, one per piece."""
    if tensor.is_nested:
        for number, piece in enumerate(tensor.unbind()):
            yield f"{name}[{number}]", piece.detach().clone()
    elif tensor.layout != torch.strided:
        yield name, tensor.detach().to_dense()
    else:
        yield name, tensor.detach().clone()


def _children(value: Any) -> list[tuple[str, Any]] | None:  # noqa: ANN401  (anything a model can return)
    """Return the parts of a container or object with their path steps; None if it has no parts."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", each) for key, each in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{field}", each) for field, each in zip(value._fields, value, strict=True)]
    if isinstance(value, list | tuple | deque):
        return [(f"[{number}]", each) for number, each in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [(f"[{number}]", text) for number, text in enumerate(sorted(map(repr, value)))]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f".{field.name}", getattr(value, field.name)) for field in dataclasses.fields(value)]
    if type(value) in pytree.SUPPORTED_NODES:
        parts, _ = pytree.SUPPORTED_NODES[type(value)].flatten_fn(value)
        return [(f"[{number}]", each) for number, each in enumerate(parts)]
    if isinstance(value, type | torch.nn.Module) or callable(value):
        return None
    public = {key: each for key, each in getattr(value, "__dict__", {}).items() if not key.startswith("_")}
    return [(f".{key}", each) for key, each in public.items()] or None


def _is_numpy(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)


def _from_numpy(value: Any, name: str) -> object:  # noqa: ANN401  (an array or a scalar of numpy)
    try:
        return torch.tensor(value)
    except TypeError as error:
        raise NotMeasurableError(f"{name} is an array of {value.dtype}: {error}") from None


def map_parts(change: Callable[[Any], Any], value: Any) -> Any:  # noqa: ANN401  (inputs of any shape)
    """Return the value with every tensor and module in it mapped; parts without any stay as they are."""
    if isinstance(value, torch.Tensor | torch.nn.Module):
        return change(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        # The lengths in a packed sequence belong on the CPU, wherever the rest is.
        moving = [field for field in value._fields if not _is_lengths(value, field)]
        namedtuple: Any = value
        return namedtuple._replace(**{field: map_parts(change, getattr(value, field)) for field in moving})
    if type(value) in pytree.SUPPORTED_NODES:
        parts, spec = pytree.tree_flatten(value, is_leaf=lambda each: each is not value)
        return pytree.tree_unflatten([map_parts(change, each) for each in parts], spec)
    changed: Any
    if isinstance(value, MutableMapping):
        changed = copy.copy(value)
        for key, each in value.items():
            changed[key] = map_parts(change, each)
        return changed
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(changed, field.name, map_parts(change, getattr(value, field.name)))
        return changed
    return value


def _is_lengths(value: object, field: str) -> bool:
    return isinstance(value, PackedSequence) and field == "batch_sizes"


def tensors_in(value: object, depth: int = 0) -> list[torch.Tensor]:
    """Return every tensor in a value."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, _PLAIN) or depth >= DEEPEST:
        return []
    return [tensor for _, each in _children(value) or () for tensor in tensors_in(each, depth + 1)]


def modules_in(value: object) -> list[torch.nn.Module]:
    """Return every module in a value."""
    found: list[torch.nn.Module] = []

    def note(each: Any) -> Any:  # noqa: ANN401  (a tensor or a module)
        if isinstance(each, torch.nn.Module):
            found.append(each)
        return each

    map_parts(note, value)
    return found
