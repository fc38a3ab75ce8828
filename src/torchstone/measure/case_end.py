"""Make the outcome of a case from its worker's last reply, or from how the worker died."""

from __future__ import annotations

from dataclasses import asdict

from msgspec import Struct, convert, structs

from torchstone.core.cautions import redact_caution
from torchstone.core.details.capture_details import CaptureDetails, GraphBreak
from torchstone.core.details.device_state import DeviceState
from torchstone.core.details.known_fields import redact_details
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_checks import MetricDefinitions
from torchstone.core.details.outcome_details import (
    NO_OUTCOME_DETAILS,
    AccuracyDetails,
    OutcomeDetails,
    TorchSettingsDetails,
    redact_outcome_details,
)
from torchstone.core.details.time_profile import TimeProfile
from torchstone.core.records import Case, Failure, Measurement, Outcome
from torchstone.core.text.redaction import redact, redact_values
from torchstone.core.vocabulary import PASSED, SKIPPED
from torchstone.measure.executors.protocol import describe_exit
from torchstone.measure.worker_messages import caution_of
from torchstone.worker.protocol.codec import to_json
from torchstone.worker.protocol.replies import CaseDetails, CaseReply, ErrorReply, Malformed, Measured

PASSING_LOG = 4096
_LONGEST = 100_000


class Ending(Struct, frozen=True):
    """Why the supervisor ends a worker: the resulting status, the message, and when to kill it."""

    status: str
    message: str
    at: float

    @classmethod
    def timed_out(cls, timeout: float, at: float) -> Ending:
        """Return the ending of a worker that timed out; its stacks go to its log."""
        message = f"did not finish within {timeout:g} s; its stack traces are at the end of the log"
        return cls("timeout", message, at)


LastReply = CaseReply | ErrorReply | Malformed
"""A reply that ends a case: a result, an error, or a reply that does not fit the protocol."""


class WorkerEnd(Struct, frozen=True):
    """How a worker ended: its outcome, and what it reported to the procedure of its case alone."""

    outcome: Outcome
    report: CaseDetails = CaseDetails()


def report_of(reply: LastReply | None) -> CaseDetails:
    """Return what a worker reported beside its measurements; an empty record without a result."""
    return reply.extra if isinstance(reply, CaseReply) else CaseDetails()


def make_outcome(
    case: Case,
    reply: LastReply | None,
    killed: Ending | None,
    *,
    phase: str,
    exit_code: int,
    log: str,
    seconds: float,
    out_of_memory: bool,
) -> Outcome:
    """Return the outcome of a case, from its worker's last reply or from how the worker ended."""
    log = redact(log)  # before it is shortened: half a URL is not recognised
    match reply:
        case CaseReply():
            return redact_outcome(_of_result(case, reply, log))
        case ErrorReply():
            failure = Failure(phase, _cut(reply.message), _cut(reply.traceback), log)
            details = OutcomeDetails(duration=round(seconds, 3))
            return redact_outcome(Outcome(case, "eager_fail_to_run", failure=failure, details=details))
        case Malformed():
            return redact_outcome(
                _failed(case, "worker_died", phase, describe_malformed(reply), log, seconds)
            )
    if killed:
        return _failed(case, killed.status, phase, killed.message, log, seconds)
    how = describe_exit(exit_code)
    if exit_code == -9 and out_of_memory:
        message = "the kernel killed it: the machine ran out of memory"
        return _failed(case, out_of_memory_status(phase), phase, message, log, seconds)
    return _failed(case, "worker_died", phase, f"the worker {how} without a result", log, seconds)


def describe_malformed(reply: Malformed) -> str:
    """Describe a reply that does not fit the protocol: a worker shares its process with the model."""
    return f"the worker's reply is invalid; something may have written to its channel: {reply.problem}"


def redact_outcome(outcome: Outcome) -> Outcome:
    """Return the outcome without credentials of URLs in any part of it."""
    failure = outcome.failure
    return structs.replace(
        outcome,
        measurements=tuple(map(_redact_measurement, outcome.measurements)),
        failure=failure and Failure(failure.phase, *map(redact, structs.astuple(failure)[1:])),
        extra=redact_values(outcome.extra),
        cautions=tuple(map(redact_caution, outcome.cautions)),
        capture=redact_details(outcome.capture),
        details=redact_outcome_details(outcome.details),
    )


def refuse_redefinition(outcome: Outcome, definitions: MetricDefinitions) -> Outcome:
    """Return the outcome, as a failure without numbers if it contradicts an earlier definition of a metric: its file could not be read."""
    for measurement in outcome.measurements:
        _, problem = definitions.contradiction(outcome.case, measurement)
        if problem:
            message = f"{problem}: a metric has one definition"
            failure = Failure("run", message, log=outcome.details.log if outcome.details else "")
            return structs.replace(outcome, status="fail_to_run", measurements=(), failure=failure)
    return outcome


def _redact_measurement(measurement: Measurement) -> Measurement:
    if not measurement.details and not measurement.extra:
        return measurement
    details, extra = redact_details(measurement.details), redact_values(measurement.extra)
    return structs.replace(measurement, details=details, extra=extra)


def out_of_memory_status(phase: str) -> str:
    """Return the status for running out of memory in this phase; in ``eager``, the compiled run is not to blame."""
    return "eager_1st_run_OOM" if phase == "eager" else "OOM"


def _failed(case: Case, status: str, phase: str, message: str, log: str, seconds: float) -> Outcome:
    details = OutcomeDetails(duration=round(seconds, 3))
    return Outcome(case, status, failure=Failure(phase, message, log=log), details=details)


def _of_result(case: Case, reply: CaseReply, log: str) -> Outcome:
    """Convert a worker's result to an outcome."""
    failure = None
    if reply.failure is not None:
        report = reply.failure
        failure = Failure(_cut(report.phase), _cut(report.message), _cut(report.traceback), log)
    elif reply.status not in {PASSED, SKIPPED}:
        failure = Failure(log=log)
    details = _details(reply.extra, log[-PASSING_LOG:] if failure is None else "")
    return Outcome(
        case,
        reply.status,
        tuple(map(_measurement, reply.measurements)),
        failure,
        cautions=tuple(map(caution_of, reply.cautions)),
        capture=_capture(reply.extra),
        details=None if details == NO_OUTCOME_DETAILS else details,
    )


def _details(report: CaseDetails, log: str) -> OutcomeDetails:
    accuracy = report.accuracy
    return OutcomeDetails(
        duration=report.duration,
        phases=report.phases,
        left_out=report.left_out,
        accuracy=AccuracyDetails(**asdict(accuracy)) if accuracy else None,
        category=report.category or "",
        description=report.description or "",
        profile=report.profile,
        time_profile=convert(to_json(report.time_profile), TimeProfile) if report.time_profile else None,
        log=log,
        torch=TorchSettingsDetails(**asdict(report.torch)) if report.torch else None,
        device=report.device,
        device_state=convert(to_json(report.device_state), DeviceState) if report.device_state else None,
    )


def _capture(report: CaseDetails) -> CaptureDetails | None:
    breaks = tuple(GraphBreak(**asdict(each)) for each in report.graph_breaks or ())
    reasons = report.recompile_reasons or ()
    return CaptureDetails(breaks, reasons) if breaks or reasons else None


def _measurement(measured: Measured) -> Measurement:
    stated = to_json(measured.extra) if measured.extra else None
    details = convert(stated, MeasurementDetails) if stated else None
    return Measurement(measured.metric, measured.samples, details)


def _cut(text: str) -> str:
    """Remove credentials of URLs, then shorten the text: half a URL would not be recognised later."""
    return redact(text)[:_LONGEST]
