"""Build readings from other tools' files: parameters as axes, the environment, the outcomes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from torchstone.core.caution_kinds import CautionKind
from torchstone.core.cautions import Caution, make_caution
from torchstone.core.details.measurement_details import MeasurementDetails
from torchstone.core.errors import printable
from torchstone.core.records import Case, Measurement, Outcome, Reading, Revision, Variant, run_of
from torchstone.core.run_settings import Environment
from torchstone.core.text.safe_text import is_plain
from torchstone.core.text.units import format_number
from torchstone.core.vocabulary import SECONDS, TRACKED, Probe
from torchstone.formats.json_text import Fields, is_number, lines_of_list, read_object

_TEXT_AXES = ("device", "backend", "mode", "dtype")
_BOOLEANS = {"True": True, "true": True, "False": False, "false": False}
_COUNT = re.compile(r"[1-9][0-9]{0,8}\Z")
_MOST_COUNTED = 1 << 31


class Document:
    """A file that contains one JSON object."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self._text = text
        self.line, value = read_object(path, text)
        self.top = Fields(path, self.line, value)

    def entries(self, field: str) -> list[tuple[int, Fields]]:
        """Return the objects of a list with their lines, for error messages."""
        items = self.top.items(field)
        lines = lines_of_list(self._text, field)
        return [
            (line, Fields(self.path, line, item, f"{field}[{number}]"))
            for number, (line, item) in enumerate(zip(lines, items, strict=True))
        ]


class Collection:
    """The outcomes of a file in order, each case once; remembers which ones the file summarises."""

    def __init__(self, document: Document, kind: str) -> None:
        self._document = document
        self._kind = kind
        self._at: dict[Case, int] = {}
        self._outcomes: list[Outcome] = []
        self._summed_up = 0
        self._zeros = 0

    def add(self, line: int, entry: Fields, outcome: Outcome, *, is_summed_up: bool = False) -> None:
        """Add an outcome; ``is_summed_up`` marks one sample that summarises several."""
        if outcome.case in self._at:
            problem = f"{printable(outcome.case.id)} is already in line {self._at[outcome.case]}"
            raise entry.error(problem, advice="remove one of the two")
        self._at[outcome.case] = line
        self._outcomes.append(outcome)
        self._summed_up += is_summed_up
        self._zeros += any(0 in m.samples for m in outcome.measurements if m.metric == SECONDS)

    def reading(
        self, field: str, revision: Revision, environment: Environment, how_to_save_samples: str = ""
    ) -> Reading:
        """Return the reading; ``field`` names the missing field if there are no benchmarks."""
        if not self._outcomes:
            raise self._document.top.error("no benchmarks", field, "did the job that wrote it fail?")
        path = self._document.path
        run = structs.replace(run_of(path, self._outcomes), revision=revision, environment=environment)
        return Reading(
            path, self._kind, run, tuple(self._at.values()), tuple(self._cautions(how_to_save_samples))
        )

    def _cautions(self, how_to_save_samples: str) -> Iterator[Caution]:
        path, cases = self._document.path, len(self._outcomes)
        if self._summed_up:
            yield make_caution(
                CautionKind.SAMPLES_SUMMED_UP,
                path=path,
                summed_up=self._summed_up,
                cases=cases,
                how_to_save=how_to_save_samples,
            )
        if self._zeros:
            yield make_caution(CautionKind.ZERO_TIMES, path=path, zeros=self._zeros, cases=cases)


def case_of(suite: str, benchmark: str, parameters: Mapping[str, str]) -> Case:
    """Return the case of a benchmark with these parameters; parameters named like an axis set that axis."""
    variant = Variant()
    further = {}
    for name, value in parameters.items():
        if name in _TEXT_AXES and value:
            variant = structs.replace(variant, **{name: value})
        elif name == "dynamic" and value in _BOOLEANS:
            variant = structs.replace(variant, dynamic=_BOOLEANS[value])
        elif name == "batch_size" and _COUNT.match(value):
            variant = structs.replace(variant, batch_size=int(value))
        else:
            further[name] = value
    variant = structs.replace(variant, further=tuple(sorted(further.items())))
    return Case(benchmark, Probe.PERFORMANCE.value, suite, variant)


def name_of(entry: Fields, field: str) -> str:
    """Return a required name."""
    name = entry.name(field)
    if not name:
        raise entry.error("no name", field)
    return name


def text_of(entry: Fields, field: str, value: object) -> str:
    """Return the value of a parameter as one line of text."""
    text = str(value)
    if not isinstance(value, str | int | float | None) or not is_plain(text):
        raise entry.error("expected a text or a number, on one line", field)
    return text


def measured(
    entry: Fields, field: str, metric: str, samples: Sequence[Any], trials: Sequence[int] = ()
) -> Measurement:
    """Return a measurement after checking its samples; ``trials`` is the number of samples of each trial."""
    if not samples:
        raise entry.error("no values", field, "expected a list of numbers")
    if not all(map(is_number, samples)):
        raise entry.error("expected finite numbers", field)
    if (least := min(samples)) < 0 and metric != TRACKED:
        raise entry.error(f"{format_number(least)} {metric}: expected no number below 0", field)
    details = MeasurementDetails(trials=tuple(trials)) if len(trials) > 1 else None
    return Measurement(metric, tuple(samples), details)


def environment_of(
    *,
    host: object = None,
    system: object = None,
    kernel: object = None,
    architecture: object = None,
    cpu: object = None,
    cpu_family: object = None,
    cores: object = None,
    python: object = None,
    implementation: object = None,
) -> Environment:
    """Return the stated facts as a run's environment; unusable values are left out."""
    machine = {
        "host": _fact(host),
        "os": _fact(system),
        "kernel": _fact(kernel),
        "architecture": _fact(architecture),
        "cpu": {"model": _fact(cpu), "family": _fact(cpu_family)},
        "cores": {"logical": cores if type(cores) is int and 0 < cores < _MOST_COUNTED else None},
    }
    software = {"python": {"version": _fact(python), "implementation": _fact(implementation)}}
    return Environment(_stated(machine), software=_stated(software))


def _fact(value: object) -> str | None:
    return value if isinstance(value, str) and value and is_plain(value) else None


def _stated(facts: Mapping[str, object]) -> dict[str, object]:
    """Drop unknown facts and empty groups."""
    inner = {name: _stated(value) if isinstance(value, dict) else value for name, value in facts.items()}
    return {name: value for name, value in inner.items() if value not in (None, {})}
