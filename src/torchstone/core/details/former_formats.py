"""Bring outcomes and environments that older versions wrote to their present form."""

from __future__ import annotations

from msgspec import structs

from torchstone.core.cautions import recorded, redact_caution
from torchstone.core.details.capture_details import CaptureDetails
from torchstone.core.details.known_fields import redact_details, take_known
from torchstone.core.details.measurement_details import NO_DETAILS, MeasurementDetails
from torchstone.core.details.outcome_details import redact_outcome_details, take_outcome_details
from torchstone.core.environment_variables import shown_value
from torchstone.core.records import BY_CALLS, REDEFINED, Failure, Measurement, Outcome
from torchstone.core.run_settings import Environment
from torchstone.core.text.redaction import redact, redact_values
from torchstone.core.vocabulary import FORMER_NAMES

_OUTDATED = frozenset(FORMER_NAMES) | REDEFINED


def present_outcome(outcome: Outcome, version: int) -> Outcome:
    """Return an outcome of a file of this format version in the present form; the same one if it has it already."""
    if any(measurement.extra for measurement in outcome.measurements):
        measurements = tuple(map(_take_details, outcome.measurements))
        outcome = structs.replace(outcome, measurements=measurements)
    if version == 1 and outcome.extra:
        outcome = _from_version_1(outcome)
    if outcome.extra and not outcome.details:
        details, rest = take_outcome_details(outcome.extra)
        outcome = structs.replace(outcome, details=details, extra=rest)
    if _OUTDATED.isdisjoint([measurement.metric for measurement in outcome.measurements]):
        return outcome
    return structs.replace(outcome, measurements=tuple(map(brought_up_to_date, outcome.measurements)))


def _take_details(measurement: Measurement) -> Measurement:
    """Return a measurement whose known details are fields: format 1 and hand-written files state them in ``extra``."""
    if not measurement.extra or measurement.details:
        return measurement
    details, rest = take_known(measurement.extra, MeasurementDetails)
    return structs.replace(measurement, details=details, extra=rest)


def _from_version_1(outcome: Outcome) -> Outcome:
    """Return an outcome of format 1 in the present form: cautions, as texts, and capture were in ``extra``.

    In a file of format 1 that was resumed since, an outcome may have the present form already.
    """
    capture, rest = take_known(outcome.extra or {}, CaptureDetails)
    cautions = outcome.cautions
    if rest and isinstance(stated := rest.get("cautions"), list):
        cautions = tuple(recorded(str(text)) for text in stated)
        rest = {key: value for key, value in rest.items() if key != "cautions"}
    return structs.replace(outcome, extra=rest or None, cautions=cautions, capture=capture or outcome.capture)


def redact_recorded(outcome: Outcome) -> Outcome:
    """Return an outcome without the credentials of URLs, which earlier versions recorded."""
    failure = outcome.failure
    if failure is not None:
        texts = (redact(text) for text in (failure.phase, failure.message, failure.traceback, failure.log))
        failure = Failure(*texts)
    return structs.replace(
        outcome,
        failure=failure,
        repro=redact(outcome.repro),
        extra=redact_values(outcome.extra),
        cautions=tuple(map(redact_caution, outcome.cautions)),
        capture=redact_details(outcome.capture),
        details=redact_outcome_details(outcome.details),
    )


def redact_variables(environment: Environment) -> Environment:
    """Return an environment without the values of secret variables, which earlier versions recorded."""
    if not environment.variables:
        return environment
    known = {
        name: shown_value(name, value) if isinstance(value, str) else value
        for name, value in environment.variables.items()
    }
    return structs.replace(environment, variables=known)


def brought_up_to_date(measurement: Measurement) -> Measurement:
    """Return a measurement under its metric's present name, and with the definition that older files imply."""
    if measurement.metric in FORMER_NAMES:
        return structs.replace(measurement, metric=FORMER_NAMES[measurement.metric])
    details = measurement.details or NO_DETAILS
    if measurement.metric in REDEFINED and not details.definition:
        return structs.replace(measurement, details=structs.replace(details, definition=BY_CALLS))
    return measurement
