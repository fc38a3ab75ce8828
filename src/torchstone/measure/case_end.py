"""How a case ended: from a worker's last message, or from the way it died, to an outcome."""

from __future__ import annotations

import math
from typing import Any

from msgspec import MsgspecError, Struct, ValidationError, convert, structs

from torchstone.core.capture_details import redact_capture, take_capture
from torchstone.core.cautions import Caution, redact_caution
from torchstone.core.errors import TorchstoneError
from torchstone.core.records import Case, Failure, Measurement, Outcome, Run
from torchstone.core.run_file import decode_run, encode_run
from torchstone.core.text.redaction import redact, redact_values
from torchstone.core.vocabulary import PASSED, SKIPPED, is_known_status
from torchstone.measure.launcher import describe_exit
from torchstone.worker.channel import Message

PASSING_LOG = 4096
_LONGEST = 100_000
_NO_SENSE = "the worker's answer makes no sense: something wrote into its channel"


class Ending(Struct, frozen=True):
    """Why the supervisor ended a worker: the status this means, what to say, and when to make an end of it."""

    status: str
    message: str
    at: float

    @classmethod
    def timed_out(cls, timeout: float, at: float) -> Ending:
        """The ending of a worker that took too long, and whose stacks go to its log."""
        message = f"did not finish within {timeout:g} s; its stack traces are at the end of the log"
        return cls("timeout", message, at)


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
    log = redact(log)  # before any of it is cut off: half of a URL is not recognised
    if answer:
        outcome = _of_answer(case, answer, phase, log, seconds)
        if outcome is not None and _can_be_kept(outcome):
            return redact_outcome(outcome)
        return _failed(case, "worker_died", phase, _NO_SENSE, log, seconds)
    if killed:
        return _failed(case, killed.status, phase, killed.message, log, seconds)
    how = describe_exit(exit_code)
    if exit_code == -9 and out_of_memory:
        message = "the kernel ended it: the machine ran out of memory"
        return _failed(case, out_of_memory_status(phase), phase, message, log, seconds)
    return _failed(case, "worker_died", phase, f"the worker {how} without a result", log, seconds)


def redact_outcome(outcome: Outcome) -> Outcome:
    """The same outcome without the credentials of URLs, whatever part of it they are in."""
    failure = outcome.failure
    return structs.replace(
        outcome,
        measurements=tuple(_redact_extra(each) if each.extra else each for each in outcome.measurements),
        failure=failure and Failure(failure.phase, *map(redact, structs.astuple(failure)[1:])),
        extra=redact_values(outcome.extra),
        cautions=tuple(map(redact_caution, outcome.cautions)),
        capture=redact_capture(outcome.capture),
    )


def _redact_extra(measurement: Measurement) -> Measurement:
    return structs.replace(measurement, extra=redact_values(measurement.extra))


def out_of_memory_status(phase: str) -> str:
    """What memory that runs out in this phase means: in ``eager`` it was not the compiled run that needed too much."""
    return "eager_1st_run_OOM" if phase == "eager" else "OOM"


def _failed(case: Case, status: str, phase: str, message: str, log: str, seconds: float) -> Outcome:
    return Outcome(
        case, status, failure=Failure(phase, message, log=log), extra={"duration": round(seconds, 3)}
    )


def _can_be_kept(outcome: Outcome) -> bool:
    """Whether the outcome, once it is in a run file, can be read again."""
    try:
        decode_run("", encode_run(Run("", (outcome.case,), (outcome,))))
    except (TorchstoneError, MsgspecError, ValueError, OverflowError, RecursionError):
        return False
    return True


def _of_answer(case: Case, answer: Message, phase: str, log: str, seconds: float) -> Outcome | None:
    """A worker's last message as an outcome, or None if it is not what a worker of ours would send."""
    if "result" in answer:
        return _of_result(case, answer["result"], log)
    told = answer.get("error")
    if not isinstance(told, dict):
        return None
    failure = Failure(phase, _text(told.get("message")), _text(told.get("traceback")), log)
    return Outcome(case, "eager_fail_to_run", failure=failure, extra={"duration": round(seconds, 3)})


def _of_result(case: Case, result: object, log: str) -> Outcome | None:
    if not isinstance(result, dict):
        return None
    status, measurements, extra = (result.get(key) for key in ("status", "measurements", "extra"))
    try:
        cautions = convert(result.get("cautions", []), tuple[Caution, ...])
    except ValidationError:
        return None
    if not isinstance(status, str) or not is_known_status(status):
        return None
    if not isinstance(measurements, list) or not isinstance(extra, dict):
        return None
    measured = [_measurement(each) for each in measurements]
    kept = tuple(each for each in measured if each is not None)
    if len(kept) < len(measured):
        return None
    failure = _failure(result.get("failure"), log)
    if failure is None and status not in {PASSED, SKIPPED}:
        failure = Failure(log=log)
    if failure is None and log:
        extra = {**extra, "log": log[-PASSING_LOG:]}
    capture, rest = take_capture(extra)
    return Outcome(case, status, kept, failure, extra=rest, cautions=cautions, capture=capture)


def _failure(told: object, log: str) -> Failure | None:
    if not isinstance(told, dict):
        return None
    return Failure(_text(told.get("phase")), _text(told.get("message")), _text(told.get("traceback")), log)


def _text(value: object) -> str:
    """A text that is not too long and can be written as UTF-8."""
    text = "" if value is None else redact(str(value))
    return text[:_LONGEST].encode(errors="replace").decode()


def _measurement(told: Any) -> Measurement | None:  # noqa: ANN401  (whatever the line brought)
    if not isinstance(told, dict) or not isinstance(told.get("metric"), str):
        return None
    samples, extra = told.get("samples"), told.get("extra")
    if not isinstance(samples, list) or not all(map(_is_number, samples)):
        return None
    return Measurement(told["metric"], tuple(samples), extra if isinstance(extra, dict) and extra else None)


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
