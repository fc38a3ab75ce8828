"""Records from facts by name, as they are read from a file: known facts become details, the rest stays in ``extra``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchstone.core.details.known_fields import take_known
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.records import Measurement, Number


def measurement_of(metric: str, samples: Sequence[Number], facts: Mapping[str, object] | None) -> Measurement:
    details, extra = take_known(facts or {}, MeasurementDetails)
    return Measurement(metric, tuple(samples), details, extra)
