"""Turn an error in a worker into a status, a message and a traceback."""

from __future__ import annotations

import sys
import traceback

from torchstone.core.text.redaction import redact
from torchstone.define.unavailable import NotAvailableError
from torchstone.worker.probes.reply import tell
from torchstone.worker.protocol.replies import FailureReport

LONGEST_TEXT = 100_000
_OUT_OF_MEMORY = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "status_alloc_failed",  # messages of CUDA's libraries if their workspace does not fit
    "bad_alloc",
    "bad allocation",
)


def status_of(error: BaseException, phase: str, probe: str) -> str:
    """Return the status for an error that no probe has handled: raised before the first run, or not an ``Exception``."""
    if isinstance(error, NotAvailableError):
        return "not_available"
    if phase in {"compile", "run", "compare"}:
        return "OOM" if is_out_of_memory(error) else "fail_to_run"
    if phase == "eager":
        if is_out_of_memory(error):
            return "eager_1st_run_OOM"
        return "warmup_failed" if probe == "performance" else "eager_1st_run_fail"
    if is_out_of_memory(error):
        return "OOM"
    return (
        "model_fail_to_load" if isinstance(error, NotImplementedError | ImportError) else "eager_fail_to_run"
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or its cause, says that memory ran out, on any device. Does not import torch."""
    try:
        return any(map(_says_out_of_memory, _with_causes(error)))
    except Exception:  # noqa: BLE001  (an exception's own attributes may raise anything)
        return False


def _says_out_of_memory(error: BaseException) -> bool:
    of_torch = getattr(sys.modules.get("torch"), "OutOfMemoryError", MemoryError)
    if isinstance(error, MemoryError | of_torch):
        return True
    text = tell(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _OUT_OF_MEMORY)


def _with_causes(error: BaseException) -> list[BaseException]:
    """Return an error and the errors behind it, each once."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, BaseException) or any(each is known for known in found):
            continue
        found.append(each)
        inner = getattr(each, "inner_exception", None)  # a backend's error, wrapped by torch
        waiting += [each.__cause__, each.__context__, inner]
    return found


def failure_of(phase: str, message: str, error: BaseException | None) -> FailureReport:
    """Return a failure for the parent: the phase, the message and the traceback."""
    text = redact(message)[:LONGEST_TEXT]
    return FailureReport(phase, text, trace_of(error) if error else "")


def trace_of(error: BaseException) -> str:
    """Return the traceback of an error, if it can be formatted."""
    try:
        return redact("".join(traceback.format_exception(error)))[-LONGEST_TEXT:]
    except BaseException:  # noqa: BLE001  (a model's exception may raise anything when formatted)
        return "(the traceback cannot be shown)"


def is_torch_missing(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, says that torch is not installed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ModuleNotFoundError) and cause.name == "torch":
            return True
        cause = cause.__cause__
    return False
