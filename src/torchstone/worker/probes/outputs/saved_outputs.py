"""Outputs kept in a file, to be compared bit by bit with those of a later run."""

from __future__ import annotations

import os
from typing import Any

import torch

from torchstone.core.disk import LARGEST, fault_of_file
from torchstone.worker.probes.outputs.similarity import find_bitwise_difference
from torchstone.worker.probes.reply import tell


def keep_outputs(path: str, outputs: dict[str, Any]) -> str:
    """Write them; why that was not possible, if it was not. A file is there as a whole or not at all."""
    written = f"{path}.{os.getpid()}.part"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        torch.save(on_cpu(outputs), written)
        os.replace(written, path)
    except (OSError, RuntimeError) as error:  # torch turns some errors of writing into RuntimeError
        if os.path.exists(written):
            os.unlink(written)
        return tell(error)
    return ""


def find_kept_difference(path: str, outputs: dict[str, Any]) -> str:
    """The first difference from the outputs in the file; also where there is no such file, or none that can be read."""
    kept, problem = load_outputs(path)
    return problem or find_bitwise_difference(kept, on_cpu(outputs))


def load_outputs(path: str) -> tuple[dict[str, Any], str]:
    """The outputs in a file, and why there are none, if so."""
    if not os.path.exists(path):
        return {}, f"no outputs were kept for this case in {path}"
    if fault := fault_of_file(path, LARGEST):
        return {}, f"the outputs kept in {path} cannot be read: {fault}"
    try:
        kept = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001  (a damaged file can raise anything)
        return {}, f"the outputs kept in {path} cannot be read: {tell(error)}"
    if not isinstance(kept, dict):
        return {}, f"{path} holds no outputs of a model"
    return kept, ""


def on_cpu(outputs: dict[str, Any]) -> dict[str, Any]:
    """The same values, tensors in the memory of the CPU."""
    return {
        name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in outputs.items()
    }
