"""Find out which operator, module and line of the model each event comes from, in torch's tree of profiler events."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchstone.worker.probes.time_profile.source_places import is_of_user, read_line

_ITEM = re.compile(r"\[['\"]?([^\]'\"]*)['\"]?\]")
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")
_COMPILED = re.compile(
    r"^Torch-Compiled Region|^TorchDynamo|^Pregraph|^AOTDispatcher|CompiledF(?:xGraph|unction)"
)
"""Regions of compiled code: the function that was compiled is on the stack, but not at the line that the work comes from."""
_REGION = ("", 0)
"""Stands for the frame of such a region. The function within it has the negative number of its first line."""


@dataclass(frozen=True, slots=True)
class LaunchOrigin:
    """Where work comes from; what torch does not know is empty."""

    operator: str = ""
    module: str = ""
    place: str = ""
    source: str = ""
    dtype: str = ""


UNKNOWN = LaunchOrigin()


def name_modules(models: Mapping[str, object]) -> dict[int, str]:
    """Return the path of each module by its address, with numbers of layers as ``*``; ``models`` are by their prefix."""
    found: dict[int, str] = {}
    for prefix, model in models.items():
        if isinstance(model, torch.nn.Module):
            for path, module in model.named_modules():
                name = ".".join(filter(None, (prefix, path)))
                found.setdefault(id(module), generalise(name) or type(module).__name__)
    return found


def generalise(path: str) -> str:
    """Write layer numbers as a star, so that the same line of all layers is one place.

    >>> generalise("L['self'].encoder.layer[3].attention")
    'encoder.layer.*.attention'
    """
    plain = _ITEM.sub(r".\1", path).removeprefix("L.self").removeprefix(".")
    return _NUMBER.sub("*", plain)


def find_origins(tree: Any, modules: Mapping[int, str]) -> dict[int, LaunchOrigin]:  # noqa: ANN401  (torch's own tree)
    """Return the origin of each operator by its correlation."""
    found: dict[int, LaunchOrigin] = {}
    waiting: list[tuple[Any, str, str, tuple[str, int] | None]] = [(each, "", "", None) for each in tree]
    while waiting:
        node, module, place, frame = waiting.pop()
        kind, fields = _read(node)
        if kind == "PyCall":
            module, place, frame = _enter_call(fields, module, place, frame, modules)
        elif kind == "PyCCall":
            place = _place_of_call(fields.caller, frame) or place
        elif kind == "TorchOp":
            if _COMPILED.search(node.name):
                place, frame = "", _REGION
            where = place or (f"{frame[0]}:{frame[1]}" if frame and frame[1] > 0 else "")
            found[node.correlation_id] = LaunchOrigin(node.name, module, where, read_line(where))
        waiting += [(below, module, place, frame) for below in node.children]
    return found


def find_executed(tree: Any, files: Collection[str]) -> list[str]:  # noqa: ANN401  (torch's own tree)
    """Return which of the ``files`` of generated code were executed, in order, each as often as it was."""
    found: list[str] = []
    waiting = list(tree)[::-1]
    while waiting:
        node = waiting.pop()
        kind, fields = _read(node)
        if kind == "PyCall" and fields.callsite.function_name == "call":
            file = _file_of(fields.callsite)
            found += [each for each in files if each.endswith(file)]
        waiting += node.children[::-1]
    return found


def _read(node: Any) -> tuple[str, Any]:  # noqa: ANN401  (torch's own node)
    try:
        fields = node.extra_fields
    except (AttributeError, RuntimeError):
        return "", None
    return type(fields).__name__.removeprefix("_ExtraFields_"), fields


def _enter_call(
    fields: Any,  # noqa: ANN401  (torch's own fields)
    module: str,
    place: str,
    frame: tuple[str, int] | None,
    modules: Mapping[int, str],
) -> tuple[str, str, tuple[str, int] | None]:
    """Return the module, the line, and the function that the events below a Python call are in."""
    place = _place_of_call(fields.caller, frame) or place
    if fields.module is not None:
        module = modules.get(fields.module.self_ptr, module)
    file = _file_of(fields.callsite)
    if is_of_user(file):
        line = fields.callsite.line_number
        return module, "", (file, -line if frame == _REGION else line)
    return module, place, frame


def _place_of_call(caller: Any, frame: tuple[str, int] | None) -> str:  # noqa: ANN401  (torch's own frame)
    """Return the line of a call in a function of the model; empty elsewhere, and where compiled code calls its graph."""
    if frame is None or _file_of(caller) != frame[0] or caller.line_number == -frame[1]:
        return ""
    return f"{frame[0]}:{caller.line_number}"


def _file_of(site: Any) -> str:  # noqa: ANN401  (torch's own frame)
    return str(site.file_name)
