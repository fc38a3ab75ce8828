"""Everything a run file says about one case, as a record."""

from __future__ import annotations

from msgspec import Struct

from torchstone.core.cautions import Caution
from torchstone.core.details.capture_details import GraphBreak
from torchstone.core.details.device_state import DeviceState
from torchstone.core.records import NOWHERE, Case, Failure, FilePlace, Measurement, Number, Outcome, Reading
from torchstone.core.text.intervals import Interval
from torchstone.core.text.safe_text import quote_word
from torchstone.reporting.views.case_row import MISSING, interval_of, repro_of, short_unit


class MetricView(Struct, frozen=True):
    """One metric of a case: its value, the interval if there is one, and the value of each trial if there are several."""

    metric: str
    value: Number
    unit: str
    interval: Interval | None
    confidence: float | None
    samples: int
    trials: tuple[Number, ...]
    counter: str


class CaseView(Struct, frozen=True):
    """One case. Its status is ``missing`` if it was planned and has no outcome.

    ``left_out`` has the metrics that were left out on purpose, with the reason; ``log`` is the end of what the case printed;
    ``repro`` is the command that measures it again, empty if unknown. ``device`` is the accelerator it was measured on, and
    ``settings`` are the settings of torch it was measured under, in words.
    ``device_state`` is the state of the accelerator while it was timed.
    """

    case: Case
    status: str
    place: FilePlace = NOWHERE
    duration: float | None = None
    metrics: tuple[MetricView, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    cautions: tuple[Caution, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompile_reasons: tuple[str, ...] = ()
    failure: Failure | None = None
    log: str = ""
    repro: str = ""
    device: str = ""
    settings: str = ""
    device_state: DeviceState | None = None


def view_case(reading: Reading, index: int) -> CaseView:
    """Return the view of an outcome of a file."""
    outcome = reading.run.outcomes[index]
    details, capture = outcome.details, outcome.capture
    log = details.log if details else ""
    return CaseView(
        outcome.case,
        outcome.status,
        reading.place(index),
        details.duration if details else None,
        tuple(_view_metric(measurement) for measurement in outcome.measurements),
        tuple((details.left_out or {}).items()) if details else (),
        outcome.cautions,
        capture.graph_breaks if capture else (),
        capture.recompile_reasons if capture else (),
        outcome.failure,
        (outcome.failure.log if outcome.failure else "") or log,
        _repro(reading, outcome.case, outcome),
        details.device if details else "",
        details.torch.describe() if details and details.torch else "",
        device_state=details.device_state if details else None,
    )


def view_missing(reading: Reading, case: Case) -> CaseView:
    """Return the view of a planned case without an outcome."""
    return CaseView(case, MISSING, FilePlace(reading.path), repro=_repro(reading, case, None))


def _view_metric(measurement: Measurement) -> MetricView:
    details = measurement.details
    trials = measurement.trial_values if details and len(details.trials) > 1 else ()
    return MetricView(
        measurement.metric,
        measurement.value,
        short_unit(measurement.metric, measurement),
        interval_of(measurement),
        details.confidence if details else None,
        len(measurement.samples),
        trials,
        measurement.counter,
    )


def _repro(reading: Reading, case: Case, outcome: Outcome | None) -> str:
    """Return the command that measures a case again; for a run file, one that names the file where it is now."""
    if reading.kind == "run":
        return f"torchstone repro {quote_word(reading.path)} {quote_word(case.id)}"
    return repro_of(case, outcome, reading)
