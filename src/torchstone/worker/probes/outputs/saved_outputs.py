"""Save outputs to a file, to compare them bit by bit with those of a later run."""

from __future__ import annotations

import os

import torch

from torchstone.core.disk import LARGEST, fault_of_file
from torchstone.worker.probes.outputs.similarity import find_bitwise_difference
from torchstone.worker.probes.outputs.values import Outputs
from torchstone.worker.probes.reply import tell


def save_outputs(path: str, outputs: Outputs) -> str:
    """Write the outputs atomically; return why that failed, if it did."""
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


def find_saved_difference(path: str, outputs: Outputs) -> str:
    """Return the first difference from the saved outputs; also if the file is missing or unreadable."""
    kept, problem = load_outputs(path)
    return problem or find_bitwise_difference(kept, on_cpu(outputs))


def load_outputs(path: str) -> tuple[Outputs, str]:
    """Return the outputs in a file, or why there are none."""
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


def on_cpu(outputs: Outputs) -> Outputs:
    """Move all tensors to the CPU."""
    return {
        name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in outputs.items()
    }
