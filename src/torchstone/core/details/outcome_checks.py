"""Check the outcomes of a run file: each can be judged and shown, and each benchmark defines its own metrics once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache

from msgspec import structs

from torchstone.core.errors import InputError, printable
from torchstone.core.records import Case, Measurement, Outcome, Provenance
from torchstone.core.text.safe_text import is_plain

_is_plain_word = lru_cache(maxsize=1024)(is_plain)
"""The same for words that nearly every line of a run file repeats."""


class MetricDefinitions:
    """The metrics that the benchmarks of a run report themselves: a benchmark defines each of them once."""

    def __init__(self, outcomes: Iterable[Outcome] = ()) -> None:
        self._known: dict[tuple[str, str], tuple[str, str]] = {}
        for outcome in outcomes:
            for measurement in outcome.measurements:
                self.contradiction(outcome.case, measurement)

    def contradiction(self, case: Case, measurement: Measurement) -> tuple[str, str]:
        """Return the field and the text of a contradiction to an earlier definition; empty if there is none."""
        own = measurement.details
        if own is None or not own.better:
            return "", ""
        key, definition = (case.benchmark, measurement.metric), (own.better, own.unit)
        before = self._known.setdefault(key, definition)
        if before == definition:
            return "", ""
        at = int(before[0] == definition[0])
        field, name = ("better", "unit")[at], printable(measurement.metric)
        now, was = (printable(each[at]) or "none" for each in (definition, before))
        return field, f"{name} has the {_WORDS[field]} {now}; another case of this benchmark has {was}"


_WORDS = {"better": "better direction", "unit": "unit"}


class OutcomeChecks:
    """Checks the outcomes of one run file, line by line."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._definitions = MetricDefinitions()

    def check(self, line: int, outcome: Outcome) -> None:
        """Raise InputError for an outcome that could not be judged or shown."""
        if not _is_plain_word(outcome.status):
            raise InputError("invalid status", path=self._path, line=line, column="outcome.status")
        if outcome.provenance is not None:
            _check_provenance(self._path, line, outcome.provenance)
        seen: set[str] = set()
        for number, measurement in enumerate(outcome.measurements):
            if field := _field_at_fault(measurement, seen):
                column = f"outcome.measurements[{number}].{field}"
                raise _error(self._path, line, column, measurement, field, seen)
            seen.add(measurement.metric)
            if measurement.details is not None and measurement.details.better:
                field, problem = self._definitions.contradiction(outcome.case, measurement)
                if problem:
                    advice = "give the metrics different names, or keep the cases in different files"
                    column = f"outcome.measurements[{number}].details.{field}"
                    raise InputError(problem, path=self._path, line=line, column=column, advice=advice)


def _error(
    path: str, line: int, column: str, measurement: Measurement, field: str, seen: Collection[str]
) -> InputError:
    """Return the error for the field of a measurement that is at fault."""
    problem = {
        "metric": "expected the name of a metric",
        "samples": "expected finite numbers",
    }.get(field, "expected a share from 0 to 1")
    advice = ""
    if measurement.metric in seen:
        problem = f"{printable(measurement.metric)} is recorded twice for this case"
        advice = "keep one of the two, or give them different names"
    return InputError(problem, path=path, line=line, column=column, advice=advice)


def _check_provenance(path: str, line: int, provenance: Provenance) -> None:
    """Raise InputError for text that cannot be shown on one line, and for an attempt below 1."""
    for name, value in structs.asdict(provenance).items():
        if not (_is_plain_word(value) if isinstance(value, str) else value >= 0):
            column = f"outcome.provenance.{name}"
            raise InputError("expected a text on one line, or a count", path=path, line=line, column=column)


def _field_at_fault(measurement: Measurement, seen: Collection[str]) -> str:
    metric, samples = measurement.metric, measurement.samples
    if not metric or not _is_plain_word(metric) or metric in seen:
        return "metric"
    if not samples or not -1e300 <= min(samples) <= max(samples) <= 1e300:
        return "samples"
    if measurement.extra and "margin" in measurement.extra:  # a valid one is among the details
        return "extra.margin"
    return ""
