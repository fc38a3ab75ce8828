"""Errors for a torch that cannot be loaded: a short message, and a log with the full error."""

from __future__ import annotations

from torchstone.core.disk import write_text
from torchstone.core.errors import TorchstoneError
from torchstone.core.text.redaction import redact
from torchstone.core.text.safe_text import clean_log, summarise_error
from torchstone.measure.executors.protocol import CannotMeasureError
from torchstone.worker.worker_environment import error_log


def torch_missing_error(python: str) -> CannotMeasureError:
    """Return the error for an interpreter without torch."""
    return CannotMeasureError(f"torch is not installed for {python}", advice="install it: pip install torch")


def torch_loading_error(problem: str, log: str, python: str, when: str = "") -> CannotMeasureError:
    """Return the error for a torch that raised ``problem`` while loading, and write ``log``, the process's output, to a file."""
    message = f"torch cannot be loaded{when}: {summarise_error(problem)}"
    path = error_log()
    text = clean_log(redact(log)).strip() or redact(problem)
    try:
        write_text(path, f"{text}\n")
    except TorchstoneError:
        return CannotMeasureError(message, advice=f"see the full error: {python} -P -c 'import torch'")
    return CannotMeasureError(message, advice=f"the full error is in {path}")
