"""What was counted, in words: of one case, and of many together."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from torchstone.core.records import Measurement, Outcome
from torchstone.core.text.units import format_number, short_number
from torchstone.core.vocabulary import METRICS, Probe
from torchstone.reporting.views.case_row import CaseRow


class CountTotal(Struct, frozen=True):
    """Counts of several cases by one counter: how many cases, and the sum."""

    counter: str
    unit: str
    cases: int
    total: float


def main_count(outcome: Outcome) -> Measurement | None:
    """The count that a case is about: the first that is not of the whole process tree."""
    if outcome.case.probe != Probe.INSTRUCTIONS:
        return None
    return next((each for each in outcome.measurements if not each.metric.endswith("_tree")), None)


def count_text(measurement: Measurement) -> str:
    """``1,914,643,426 instructions, spread 0.002 % (simulated)``."""
    counter = (measurement.extra or {}).get("counter")
    text = f"{format_number(measurement.value)} {_unit(measurement.metric)}".strip()
    if len(measurement.samples) > 1 and measurement.value:
        spread = (max(measurement.samples) - min(measurement.samples)) / abs(measurement.value)
        text += f", spread {100 * spread:.2g} %"
    return f"{text} ({counter})" if counter else text


def total_counts(rows: Iterable[CaseRow]) -> tuple[CountTotal, ...]:
    """The sums of what was counted, by counter and unit."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        measurement = main_count(row.outcome) if row.outcome else None
        counter = (measurement.extra or {}).get("counter") if measurement else None
        if measurement and counter:
            found.setdefault((str(counter), _unit(measurement.metric)), []).append(measurement.value)
    return tuple(CountTotal(*key, len(values), sum(values)) for key, values in found.items())


def total_text(total: CountTotal) -> str:
    """``12.35G instructions (simulated)``."""
    return f"{short_number(total.total)} {total.unit} ({total.counter})"


def _unit(metric: str) -> str:
    known = METRICS.get(metric)
    return known.unit if known else ""
