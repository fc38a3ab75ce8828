"""Records from facts by name, as they are read from a file: known facts become details, the rest stays in ``extra``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from torchstone.core.details.known_fields import take_known
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.details.outcome_details import take_outcome_details
from torchstone.core.records import Measurement, Number, Outcome


def measurement_of(metric: str, samples: Sequence[Number], facts: Mapping[str, object] | None) -> Measurement:
    details, extra = take_known(facts or {}, MeasurementDetails)
    return Measurement(metric, tuple(samples), details, extra)


def with_facts(outcome: Outcome, facts: Mapping[str, object] | None) -> Outcome:
    """The same outcome with these facts and no others."""
    details, extra = take_outcome_details(facts or {})
    return structs.replace(outcome, details=details, extra=extra)


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """All facts of an outcome, by name."""
    return outcome.facts()
