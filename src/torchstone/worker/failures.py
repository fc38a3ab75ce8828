"""What an error in a worker means: a status, a message and a traceback."""

from __future__ import annotations

import traceback

from torchstone.core.text.redaction import redact
from torchstone.worker.protocol.replies import FailureReport

LONGEST_TEXT = 100_000


def status_of(error: BaseException, phase: str, probe: str) -> str:
    """Which status an error means that no probe has made sense of: one before the first run, or no ``Exception`` at all."""
    if phase in {"compile", "run", "compare"}:
        return "OOM" if _is_out_of_memory(error) else "fail_to_run"
    if phase == "eager":
        if _is_out_of_memory(error):
            return "eager_1st_run_OOM"
        return "warmup_failed" if probe == "performance" else "eager_1st_run_fail"
    if _is_out_of_memory(error):
        return "OOM"
    return (
        "model_fail_to_load" if isinstance(error, NotImplementedError | ImportError) else "eager_fail_to_run"
    )


def _is_out_of_memory(error: BaseException) -> bool:
    from torchstone.worker.probes.device import is_out_of_memory  # noqa: PLC0415  (only a failure needs it)

    try:
        return is_out_of_memory(error)
    except Exception:  # noqa: BLE001  (an exception may fail even at saying what it is)
        return False


def failure_of(phase: str, message: str, error: BaseException | None) -> FailureReport:
    """A failure for the parent: the phase, the message and the traceback."""
    text = redact(message)[:LONGEST_TEXT]
    return FailureReport(phase, text, trace_of(error) if error else "")


def trace_of(error: BaseException) -> str:
    """Where an error came from, if that can be shown."""
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
