"""How a case ended: from a worker's last message, or from the way it died, to an outcome."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from torchstone.measure.channel import Message
from torchstone.measure.launcher import describe_exit
from torchstone.model import Case, Failure, Measurement, Outcome
from torchstone.vocabulary import PASSED, SKIPPED, is_known_status

PASSING_LOG = 4096
_LONGEST = 100_000


class Ending(Struct, frozen=True):
    """Why the supervisor ended a worker: the status this means, what to say, and when to make an end of it."""

    status: str
    message: str
    at: float


def make_outcome(
    case: Case,
    answer: Message | None,
    killed: Ending | None,
    *,
    phase: str,
    exit_code: int,
    log: str,
    seconds: float,
    out_of_memory: bool,
) -> Outcome:
    """The one outcome of a case. What a worker says is checked: it shares its process with the model."""
    if answer and isinstance(answer.get("result"), dict):
        outcome = _of_result(case, answer["result"], log)
        if outcome is not None:
            return outcome
        message = "the worker's answer makes no sense: something wrote into its channel"
        return _failed(case, "worker_died", phase, message, log, seconds)
    if answer:
        told = answer.get("error") or {}
        failure = Failure(phase, str(told.get("message", "")), str(told.get("traceback", "")), log)
        return Outcome(case, "eager_fail_to_run", failure=failure, extra={"duration": round(seconds, 3)})
    if killed:
        return _failed(case, killed.status, phase, killed.message, log, seconds)
    how = describe_exit(exit_code)
    if exit_code == -9 and out_of_memory:
        return _failed(case, "OOM", phase, "the kernel ended it: the machine ran out of memory", log, seconds)
    return _failed(case, "worker_died", phase, f"the worker {how} without a result", log, seconds)


def _failed(case: Case, status: str, phase: str, message: str, log: str, seconds: float) -> Outcome:
    return Outcome(
        case, status, failure=Failure(phase, message, log=log), extra={"duration": round(seconds, 3)}
    )


def _of_result(case: Case, result: dict[str, Any], log: str) -> Outcome | None:
    """A worker's result as an outcome, or None if it is not what a worker of ours would send."""
    status = result.get("status")
    measurements = result.get("measurements")
    extra = result.get("extra")
    if not isinstance(status, str) or not is_known_status(status):
        return None
    if not isinstance(measurements, list) or not isinstance(extra, dict):
        return None
    measured = [_measurement(each) for each in measurements]
    if any(each is None for each in measured) or len({m.metric for m in measured if m}) < len(measured):
        return None
    failure = None
    if told := result.get("failure"):
        texts = {key: str(told.get(key) or "")[:_LONGEST] for key in ("phase", "message", "traceback")}
        failure = Failure(**texts, log=log)
    elif log:
        extra = {**extra, "log": log[-PASSING_LOG:]}
    if status not in {PASSED, SKIPPED} and failure is None:
        failure = Failure(log=log)
    return Outcome(case, status, tuple(each for each in measured if each), failure, extra=extra)


def _measurement(told: object) -> Measurement | None:
    if not isinstance(told, dict) or not isinstance(told.get("metric"), str):
        return None
    samples = told.get("samples")
    if not isinstance(samples, list) or not samples:
        return None
    if not all(isinstance(each, int | float) and math.isfinite(each) for each in samples):
        return None
    extra = told.get("extra")
    return Measurement(told["metric"], tuple(samples), extra if isinstance(extra, dict) and extra else None)
